//! The ladder: what is done for a request that finds no space, as a pure function.
//!
//! Space that was set aside in excess comes back with a flush, and garbage goes with a compaction. So a writer is
//! refused only when neither can bring space. Each step begins something that may, or waits for it. Whatever ends there
//! leaves less to flush, less garbage or fewer files. So the steps come to an end, with space or with a refusal.

/// The state of the flushes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flushes {
    /// None is under way, and the active MemTable is not worth one.
    Idle,
    /// None is under way, and the active MemTable is worth one.
    Worthwhile,
    /// One is under way.
    UnderWay,
    /// One waits for space. What a compaction gives back is committed after it, so nothing comes before it goes on.
    Blocked,
}

/// All that the next step depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Situation {
    /// Space has been given back since the request looked.
    pub has_returned: bool,
    /// The store closes, or has failed.
    pub is_ending: bool,
    /// The state of the flushes.
    pub flushes: Flushes,
    /// Readers hold space that was given up.
    pub readers_hold_space: bool,
    /// A compaction runs, or one can begin that frees space.
    pub compaction_may_help: bool,
}

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The request looks again.
    TryAgain,
    /// The active MemTable is flushed early.
    BeginFlush,
    /// The request waits for a flush.
    AwaitFlush,
    /// The request waits a moment for readers, which don't signal when they have gone.
    AwaitReaders,
    /// The request waits for a compaction.
    AwaitCompaction,
    /// The request makes do with less, or, if it is one of deletes, with what is reserved for these. Or it gets the error.
    MakeDo,
    /// The request gets the error.
    Refuse,
}

/// The next step.
pub fn next_step(situation: &Situation) -> Step {
    if situation.has_returned {
        return Step::TryAgain;
    }
    if situation.is_ending {
        return Step::Refuse;
    }
    match situation.flushes {
        Flushes::Blocked => Step::Refuse,
        Flushes::Worthwhile => Step::BeginFlush,
        _ if situation.readers_hold_space => Step::AwaitReaders,
        Flushes::UnderWay => Step::AwaitFlush,
        Flushes::Idle if situation.compaction_may_help => Step::AwaitCompaction,
        Flushes::Idle => Step::MakeDo,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLUSHES: [Flushes; 4] = [Flushes::Idle, Flushes::Worthwhile, Flushes::UnderWay, Flushes::Blocked];

    /// All that there are.
    fn situations() -> impl Iterator<Item = Situation> {
        (0..16_u32).flat_map(|bits| {
            let is = move |bit: u32| bits & 1 << bit != 0;
            FLUSHES.into_iter().map(move |flushes| Situation {
                has_returned: is(0),
                is_ending: is(1),
                flushes,
                readers_hold_space: is(2),
                compaction_may_help: is(3),
            })
        })
    }

    /// Those in which a step is taken.
    fn with(step: Step) -> impl Iterator<Item = Situation> {
        situations().filter(move |situation| next_step(situation) == step)
    }

    #[test]
    fn nothing_is_waited_for_that_does_not_come() {
        assert!(with(Step::TryAgain).all(|situation| situation.has_returned));
        assert!(with(Step::AwaitFlush).all(|situation| situation.flushes == Flushes::UnderWay));
        assert!(with(Step::BeginFlush).all(|situation| situation.flushes == Flushes::Worthwhile));
        assert!(with(Step::AwaitReaders).all(|situation| situation.readers_hold_space));
        assert!(with(Step::AwaitCompaction).all(|situation| situation.compaction_may_help));
    }

    #[test]
    fn nobody_waits_in_a_store_that_ends() {
        let ending = situations().filter(|situation| situation.is_ending && !situation.has_returned);
        assert!(ending.into_iter().all(|situation| next_step(&situation) == Step::Refuse));
    }

    #[test]
    fn the_last_step_comes_when_nothing_can_bring_space_any_more() {
        for situation in with(Step::Refuse).chain(with(Step::MakeDo)).filter(|situation| !situation.is_ending) {
            let nothing_comes =
                situation.flushes == Flushes::Idle && !situation.readers_hold_space && !situation.compaction_may_help;
            assert!(nothing_comes || situation.flushes == Flushes::Blocked, "{situation:?}");
        }
    }

    /// Whatever happens in whatever order, as long as what is waited for ends: the request gets an answer.
    #[test]
    fn the_steps_come_to_an_end() {
        for start in situations() {
            let mut situation = start;
            let mut steps = 0;
            loop {
                match next_step(&situation) {
                    Step::TryAgain => situation.has_returned = false,
                    Step::BeginFlush => situation.flushes = Flushes::UnderWay,
                    Step::AwaitFlush => situation.flushes = Flushes::Idle,
                    Step::AwaitReaders => situation.readers_hold_space = false,
                    Step::AwaitCompaction => situation.compaction_may_help = false,
                    Step::MakeDo | Step::Refuse => break,
                }
                steps += 1;
                assert!(steps < 8, "{start:?}");
            }
        }
    }
}
