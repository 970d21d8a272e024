//! When a compaction for garbage begins, and how far writers are slowed meanwhile. Both are pure functions of
//! quantities.
//!
//! The *debt* is the peak of garbage to come, as a part of what is allowed. It counts the garbage in table files,
//! what the flushes of waiting MemTables will add, and what running compactions have written beside their inputs.
//!
//! Waiting makes a compaction cheaper, because more of each file becomes garbage meanwhile. Waiting too long makes
//! writers sleep. So a compaction begins
//!
//! - as late as it can: its outputs, and the garbage that comes until it ends, just fit;
//! - earlier, when no flush waits and the best file is so cheap that it will hardly become cheaper;
//! - in any case before a writer is slowed, as long as compaction threads are idle.
//!
//! Writers are slowed only near the bound. Their rate falls in straight lines there, and not at once to the rate of
//! compactions, so there is no cliff.
//!
//! A store at rest is cleaned further, down to [`RESTING_PART`] of the allowed garbage. Its processors are idle, and
//! waiting makes nothing cheaper.

use slmdb_engine::stall::pacing::multiple;

/// The quantities of a store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Situation {
    /// Bytes of table files that are needed.
    pub(crate) needed_bytes: f64,
    /// The other bytes of table files. Files that are being compacted count.
    pub(crate) garbage_bytes: f64,
    /// Garbage that the flushes of waiting MemTables will make.
    pub(crate) coming_bytes: f64,
    /// Bytes that running compactions will have written when their inputs are removed.
    pub(crate) beside_bytes: f64,
    /// The most garbage that is allowed.
    pub(crate) allowed_bytes: f64,
}

/// How a store is used.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Load {
    /// Bytes of garbage that flushes make while a compaction writes one byte. `None`: not known yet.
    pub(crate) garbage_per_rewritten: Option<f64>,
    /// An Immutable MemTable waits for its flush.
    pub(crate) is_flush_queued: bool,
    /// Nothing has been written for a while.
    pub(crate) is_quiet: bool,
    /// Nothing has been written for so long that space for garbage to come need not be kept free.
    pub(crate) is_at_rest: bool,
    /// The most bytes that may be rewritten for order now.
    pub(crate) order_bytes_max: f64,
}

/// A compaction that could begin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    /// What it would write.
    pub(crate) rewritten_bytes: f64,
    /// The needed part of its inputs.
    pub(crate) needed_part: f64,
}

/// Part of the needed bytes that compactions running at once may rewrite together even if the bound has no room for it.
const AT_ONCE_PART: f64 = 1.0 / 8.0;
/// (debt, writers' rate as a multiple of the rate at which the running compactions remove garbage), linear in between.
/// Below the first debt writers are not slowed.
pub(crate) const PACE: &[(f64, f64)] = &[(0.80, 4.0), (0.88, 1.2), (0.94, 1.0), (1.0, 0.5), (1.1, 0.2)];
/// From this debt on all compaction threads work, if there is something to compact: before the first writer is slowed.
const DEBT_FOR_ALL: f64 = PACE[0].0;
/// The value of [`Load::garbage_per_rewritten`] until it is known, and the largest that counts. A burst, in which
/// flushes are much faster than compactions, lasts a short time only.
const GARBAGE_PER_REWRITTEN_MAX: f64 = 2.0;
/// For this many times the duration of a compaction there must be room for garbage: its own and that of the next.
const STEPS_AHEAD: f64 = 2.0;
/// Room for the garbage that comes while a compaction commits, as a part of what it rewrites.
const COMMIT_PART: f64 = 0.5;
/// From this debt on, files that are cheap to clean are cleaned when no flush waits.
const DEBT_FOR_CHEAP: f64 = 0.5;
/// A file is cheap to clean if no more than this part of it is needed.
const CHEAP_PART: f64 = 0.45;
/// The part of the allowed garbage that stays in a store at rest: 1.25 × the live data where 1.4 is allowed.
pub(crate) const RESTING_PART: f64 = 0.625;

impl Situation {
    /// The peak of garbage to come, as a part of what is allowed.
    pub(crate) fn debt(&self) -> f64 {
        (self.garbage_bytes + self.coming_bytes + self.beside_bytes) / self.allowed_bytes
    }

    /// Whether a compaction should begin.
    pub(crate) fn should_begin(&self, step: &Step, load: &Load) -> bool {
        let is_alone = self.beside_bytes == 0.0;
        let all_beside_bytes = self.beside_bytes + step.rewritten_bytes;
        let room_bytes = (self.allowed_bytes - self.garbage_bytes).max(self.needed_bytes * AT_ONCE_PART);
        if !is_alone && all_beside_bytes > room_bytes {
            return false;
        }
        let ratio = load.garbage_per_rewritten.unwrap_or(GARBAGE_PER_REWRITTEN_MAX).min(GARBAGE_PER_REWRITTEN_MAX);
        let meanwhile_bytes = step.rewritten_bytes * (STEPS_AHEAD * ratio + COMMIT_PART);
        let is_time = self.garbage_bytes + all_beside_bytes + meanwhile_bytes >= self.allowed_bytes;
        let is_cheap = step.needed_part <= CHEAP_PART && self.debt() > DEBT_FOR_CHEAP && !load.is_flush_queued;
        let is_resting = load.is_quiet && is_alone && self.garbage_bytes > RESTING_PART * self.allowed_bytes;
        self.debt() >= DEBT_FOR_ALL || is_time || is_cheap || is_resting
    }

    /// The writers' rate, as a multiple of the rate at which the running compactions remove garbage. `None`: they are
    /// not slowed. That is so while no compaction runs, because waiting would not reduce the debt then.
    pub(crate) fn pace(&self, running: usize) -> Option<f64> {
        if running == 0 { None } else { multiple(PACE, self.debt()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With 1,000 bytes needed and 400 of garbage allowed.
    fn situation(garbage_bytes: f64, beside_bytes: f64) -> Situation {
        Situation { needed_bytes: 1000.0, garbage_bytes, coming_bytes: 0.0, beside_bytes, allowed_bytes: 400.0 }
    }

    #[test]
    fn a_compaction_begins_late_but_before_a_writer_is_slowed() {
        let busy = |ratio: f64| Load { garbage_per_rewritten: Some(ratio), is_flush_queued: true, ..Load::default() };
        let (unknown, calm) = (Load { is_flush_queued: true, ..Load::default() }, Load::default());
        let quiet = Load { is_quiet: true, ..Load::default() };
        // Garbage, beside; rewritten, needed part; load; begins.
        let cases = [
            (100.0, 0.0, 20.0, 0.5, busy(2.0), false, "there is room for garbage of many such compactions"),
            (289.0, 0.0, 20.0, 0.5, busy(2.0), false, "for five and a half times what it rewrites, just so"),
            (291.0, 0.0, 20.0, 0.5, busy(2.0), true, "no longer"),
            (291.0, 0.0, 20.0, 0.5, unknown, true, "what is not known is taken for fast"),
            (289.0, 0.0, 20.0, 0.5, busy(50.0), false, "a burst is not believed to last"),
            (291.0, 0.0, 20.0, 0.5, busy(0.1), false, "where writers are slow, there is more time"),
            (319.0, 0.0, 20.0, 0.5, busy(0.1), false, "until just before writers would be slowed"),
            (320.0, 0.0, 20.0, 0.5, busy(0.1), true, "there they would be"),
            (300.0, 20.0, 20.0, 0.5, busy(0.1), true, "what another writes counts, too: all threads are wanted"),
            (270.0, 20.0, 20.0, 0.5, busy(2.0), true, "and it takes room"),
            (350.0, 60.0, 70.0, 0.5, busy(2.0), false, "but together they'd take more than there is room for"),
            (350.0, 60.0, 60.0, 0.5, busy(2.0), true, "an eighth of the store is always granted"),
            (500.0, 60.0, 70.0, 0.5, busy(2.0), false, "beyond the bound as well"),
            (500.0, 0.0, 300.0, 0.5, busy(2.0), true, "one alone always begins"),
            (201.0, 0.0, 20.0, 0.45, calm, true, "a cheap one, when processors have time"),
            (201.0, 0.0, 20.0, 0.45, busy(0.1), false, "not while a flush waits"),
            (201.0, 0.0, 20.0, 0.46, calm, false, "nor a dearer one"),
            (199.0, 0.0, 20.0, 0.1, calm, false, "nor while there is hardly garbage"),
            (251.0, 0.0, 20.0, 0.7, quiet, true, "a store at rest has a quarter of garbage at most"),
            (249.0, 0.0, 20.0, 0.7, quiet, false, "which is where it stays"),
            (251.0, 20.0, 20.0, 0.7, quiet, false, "one at a time is enough for that"),
        ];
        for (garbage_bytes, beside_bytes, rewritten_bytes, needed_part, load, begins, why) in cases {
            // Without a measure, a calm store would be taken for a fast one.
            let garbage_per_rewritten = if load.is_flush_queued { load.garbage_per_rewritten } else { Some(0.1) };
            let load = Load { garbage_per_rewritten, ..load };
            let step = Step { rewritten_bytes, needed_part };
            let case = (garbage_bytes, beside_bytes, step, load);
            assert_eq!(situation(garbage_bytes, beside_bytes).should_begin(&step, &load), begins, "{why}: {case:?}");
        }
    }

    #[test]
    fn writers_are_slowed_only_near_the_bound() {
        // Garbage, beside; running; pace.
        let cases = [
            (0.0, 0.0, 1, None),
            (319.0, 0.0, 2, None),
            (239.0, 80.0, 2, None),
            (320.0, 0.0, 1, Some(4.0)),
            (240.0, 80.0, 1, Some(4.0)),
            (352.0, 0.0, 1, Some(1.2)),
            (376.0, 0.0, 1, Some(1.0)),
            (400.0, 0.0, 1, Some(0.5)),
            (440.0, 0.0, 1, Some(0.2)),
            (4000.0, 0.0, 1, Some(0.2)),
            (4000.0, 0.0, 0, None),
        ];
        for (garbage_bytes, beside_bytes, running, pace) in cases {
            let paced = situation(garbage_bytes, beside_bytes).pace(running);
            let is_same = match (paced, pace) {
                (Some(paced), Some(pace)) => f64::abs(paced - pace) < 1e-9,
                (paced, pace) => paced == pace,
            };
            assert!(is_same, "{garbage_bytes} and {beside_bytes}, {running} running: {paced:?}, not {pace:?}");
        }
        let with_coming = Situation { coming_bytes: 80.0, ..situation(240.0, 0.0) };
        assert_eq!(with_coming.pace(1), Some(4.0), "MemTables that wait will make garbage");
        let (step, load) = (Step { rewritten_bytes: 10.0, needed_part: 0.6 }, Load::default());
        assert!(with_coming.should_begin(&step, &load), "all threads work before anybody is slowed");
        assert!(PACE.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 > two[1].1), "the more debt the slower");
    }
}
