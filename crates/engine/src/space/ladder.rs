//! The ladder: what is done for a request that finds no space, as a pure function.
//!
//! Space that was set aside in excess comes back with a flush, and garbage goes with a compaction. So a writer is
//! refused only when neither can bring space. Each step begins something that may, or waits for it. Whatever ends there
//! leaves less to flush, less garbage or fewer files. So the steps come to an end, with space or with a refusal.

/// What finds no space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asker {
    /// A write with puts.
    Puts,
    /// A write of deletes alone: the way out.
    Deletes,
    /// A writer that needs a new MemTable.
    MemTable,
}

/// The state of the flushes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flushes {
    /// None is under way, and the active MemTable is not worth one.
    Idle,
    /// None is under way, and the active MemTable is worth one.
    Worthwhile,
    /// One is under way.
    UnderWay,
    /// One waits for space, but not for long yet.
    BlockedForAMoment,
    /// One waits for space. What a compaction gives back is committed after it, so nothing comes before it goes on.
    Blocked,
}

/// All that the next step depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Situation {
    /// What finds no space.
    pub asker: Asker,
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
    /// The request may take what is left of the reserve, and has not tried.
    pub reserve_is_left: bool,
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
    /// The request waits a moment for a flush that waits itself.
    AwaitFlushForAMoment,
    /// The request waits a moment for readers, which don't signal when they have gone.
    AwaitReaders,
    /// The request waits for a compaction.
    AwaitCompaction,
    /// The request takes from the reserve.
    UseReserve,
    /// The request gets the error.
    Refuse,
}

/// The next step.
pub fn next_step(situation: &Situation) -> Step {
    let last = if situation.reserve_is_left { Step::UseReserve } else { Step::Refuse };
    if situation.has_returned {
        return Step::TryAgain;
    }
    if situation.is_ending {
        return Step::Refuse;
    }
    match situation.flushes {
        Flushes::BlockedForAMoment if situation.asker == Asker::Deletes => Step::AwaitFlushForAMoment,
        Flushes::BlockedForAMoment | Flushes::Blocked => last,
        // First, so that deletes come to a flush in numbers. A table file for each delete would take more than it
        // gives.
        Flushes::Worthwhile | Flushes::Idle if situation.asker == Asker::Deletes && situation.reserve_is_left => {
            Step::UseReserve
        }
        Flushes::Worthwhile => Step::BeginFlush,
        _ if situation.readers_hold_space => Step::AwaitReaders,
        Flushes::UnderWay => Step::AwaitFlush,
        Flushes::Idle if situation.compaction_may_help => Step::AwaitCompaction,
        Flushes::Idle => last,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKERS: [Asker; 3] = [Asker::Puts, Asker::Deletes, Asker::MemTable];
    const FLUSHES: [Flushes; 5] =
        [Flushes::Idle, Flushes::Worthwhile, Flushes::UnderWay, Flushes::BlockedForAMoment, Flushes::Blocked];

    /// All that there are.
    fn situations() -> impl Iterator<Item = Situation> {
        (0..32_u32).flat_map(|bits| {
            let is = move |bit: u32| bits & 1 << bit != 0;
            ASKERS.into_iter().flat_map(move |asker| {
                FLUSHES.into_iter().map(move |flushes| Situation {
                    asker,
                    flushes,
                    has_returned: is(0),
                    is_ending: is(1),
                    readers_hold_space: is(2),
                    compaction_may_help: is(3),
                    reserve_is_left: is(4),
                })
            })
        })
    }

    /// Those in which this step is taken.
    fn with(step: Step) -> impl Iterator<Item = Situation> {
        situations().filter(move |situation| next_step(situation) == step)
    }

    #[test]
    fn space_that_came_back_is_tried_before_all_else() {
        assert!(situations().all(|situation| situation.has_returned == (next_step(&situation) == Step::TryAgain)));
    }

    /// Else it would wait for nothing, and for ever.
    #[test]
    fn each_step_waits_for_what_is_there() {
        assert!(with(Step::AwaitFlush).all(|situation| situation.flushes == Flushes::UnderWay));
        assert!(with(Step::AwaitFlushForAMoment).all(|situation| situation.flushes == Flushes::BlockedForAMoment));
        assert!(with(Step::BeginFlush).all(|situation| situation.flushes == Flushes::Worthwhile));
        assert!(with(Step::AwaitReaders).all(|situation| situation.readers_hold_space));
        assert!(with(Step::AwaitCompaction).all(|situation| situation.compaction_may_help));
        assert!(with(Step::UseReserve).all(|situation| situation.reserve_is_left));
    }

    #[test]
    fn nobody_waits_in_a_store_that_ends() {
        let ending = situations().filter(|situation| situation.is_ending && !situation.has_returned);
        assert!(ending.into_iter().all(|situation| next_step(&situation) == Step::Refuse));
    }

    /// It is committed before compactions, so these bring nothing; and a writer would wait for as long as the disk is
    /// full.
    #[test]
    fn only_deletes_await_a_flush_that_waits_and_not_for_long() {
        let set_back = |situation: &Situation| {
            !situation.has_returned
                && !situation.is_ending
                && matches!(situation.flushes, Flushes::Blocked | Flushes::BlockedForAMoment)
        };
        for situation in situations().filter(set_back) {
            let waits_a_moment = situation.asker == Asker::Deletes && situation.flushes == Flushes::BlockedForAMoment;
            let expected = match situation.reserve_is_left {
                _ if waits_a_moment => Step::AwaitFlushForAMoment,
                true => Step::UseReserve,
                false => Step::Refuse,
            };
            assert_eq!(next_step(&situation), expected, "{situation:?}");
        }
    }

    #[test]
    fn deletes_gather_before_they_are_flushed() {
        for situation in with(Step::BeginFlush).chain(with(Step::AwaitCompaction)) {
            assert!(situation.asker != Asker::Deletes || !situation.reserve_is_left, "{situation:?}");
        }
    }

    #[test]
    fn a_refusal_comes_when_nothing_can_bring_space_any_more() {
        for situation in with(Step::Refuse).filter(|situation| !situation.is_ending) {
            let nothing_comes =
                situation.flushes == Flushes::Idle && !situation.readers_hold_space && !situation.compaction_may_help;
            let is_stuck = matches!(situation.flushes, Flushes::Blocked | Flushes::BlockedForAMoment);
            assert!(nothing_comes || is_stuck, "{situation:?}");
            assert!(!situation.reserve_is_left, "{situation:?}");
        }
    }

    /// Whatever happens in whatever order, as long as what is waited for ends: the asker gets an answer.
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
                    Step::AwaitFlushForAMoment => situation.flushes = Flushes::Blocked,
                    Step::AwaitReaders => situation.readers_hold_space = false,
                    Step::AwaitCompaction => situation.compaction_may_help = false,
                    Step::UseReserve => situation.reserve_is_left = false,
                    Step::Refuse => break,
                }
                steps += 1;
                assert!(steps < 8, "{start:?}");
            }
        }
    }
}
