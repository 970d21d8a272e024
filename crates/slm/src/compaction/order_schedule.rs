//! When files are merged for order, and when such a merge gives way to writers.
//!
//! Order makes ranges cheaper, and nothing else. So it is work for a store whose writers leave time for it: it takes a
//! processor and the device, and what writers are about to replace is rewritten for nothing. Garbage that waits costs
//! space, but disorder that waits costs only what it has cost so far.
//!
//! Writers are *busy* while they put more than [`BUSY_PART`] of what flushes can take, or are slowed for flushes. How
//! much may then be merged is a pure function of [`Traffic`]:
//!
//! - **Writers leave time**, or nothing is written: all threads may merge.
//! - **Writers are busy**, or were a moment ago: nothing. Merges that run end early. What they have finished stays, and
//!   their inputs are merged later.
//! - **Writers are busy, and ranges are asked beside them**: [`SHARE`] of a byte for each byte that writers put. So a
//!   store that is never left alone is put in order, too.
//! - **Ranges are asked**: a processor is left to them. No more merges run than there are others, but one in any case.
//! - **Cursors wait for the disk**: one merge at a time. Two are not done sooner, because they wait for the disk
//!   themselves, and each read of a range waits behind both.
//!
//! Rates are those of the last window of [`WINDOW`] or more. After a longer time without a look, a little that was put
//! may have been put just now. Then nothing begins before the next look.

use std::time::Duration;

use slmdb_sync::scheduled::Instant;

/// Writers are busy from this part of the rate on at which flushes empty memory. At full speed a writer and its flushes
/// take more than a processor. An eighth of that leaves a merge most of two.
const BUSY_PART: f64 = 1.0 / 8.0;
/// Bytes merged for a byte put while writers are busy and ranges are asked.
const SHARE: f64 = 0.25;
/// The shortest time over which a rate is measured, and the longest for which a low one is believed.
pub(crate) const WINDOW: Duration = Duration::from_millis(50);
const WINDOW_MAX: Duration = Duration::from_millis(200);
/// Writers that were busy are believed to have ended after this time.
const CALM: Duration = Duration::from_millis(400);

/// What writers and ranges do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Traffic {
    /// Whether anybody has looked lately.
    pub(crate) is_known: bool,
    /// How long ago writers were busy for the last time, if they ever were. Now is 0.
    pub(crate) busy_ago: Option<Duration>,
    /// Cursors have waited for blocks of other files.
    pub(crate) are_ranges_asked: bool,
    /// The merges for order that run take all that ranges leave them, of the disk or of the processors.
    pub(crate) are_merges_enough: bool,
    /// What may be merged beside busy writers.
    pub(crate) credit_bytes: f64,
}

impl Traffic {
    /// The most bytes that a merge for order may rewrite that begins now.
    pub(crate) fn bytes_allowed(&self) -> f64 {
        match self.are_writers_calm() {
            _ if !self.is_known || self.are_merges_enough => 0.0,
            true => f64::INFINITY,
            false if self.are_ranges_asked => self.credit_bytes,
            false => 0.0,
        }
    }

    fn are_writers_calm(&self) -> bool {
        self.busy_ago.is_none_or(|ago| ago >= CALM)
    }

    /// Whether merges for order end early.
    pub(crate) fn has_to_give_way(&self) -> bool {
        self.busy_ago.is_some_and(|ago| ago < 2 * WINDOW) && !self.are_ranges_asked
    }
}

/// What is counted since the store was opened, at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counted {
    pub(crate) now: Instant,
    /// Bytes that writers have put.
    pub(crate) put_bytes: u64,
    /// A number that changes when a cursor waits for a block of another file.
    pub(crate) seeks: u64,
    /// Bytes a second that a flush takes from memory while it runs. 0: not known yet.
    pub(crate) flush_rate: f64,
    /// Writers are slowed because flushes fall behind.
    pub(crate) is_slowed_for_flushes: bool,
    /// The last cursor had to wait for the disk.
    pub(crate) are_ranges_cold: bool,
    /// How many threads can run at once.
    pub(crate) processors: usize,
}

/// Whether writers that put so many bytes a second put about as much as they can.
fn are_writers_busy(put_rate: f64, flush_rate: f64, is_slowed_for_flushes: bool) -> bool {
    put_rate > 0.0 && flush_rate > 0.0 && (is_slowed_for_flushes || put_rate > flush_rate * BUSY_PART)
}

/// What earlier looks have found.
#[derive(Debug, Default)]
pub(crate) struct OrderSchedule {
    /// At the beginning of the window.
    began: Option<Counted>,
    is_known: bool,
    are_ranges_asked: bool,
    busy_at: Option<Instant>,
    credit_bytes: f64,
    /// Merges for order that run.
    merges: usize,
}

impl OrderSchedule {
    /// What writers and ranges do, after another look.
    pub(crate) fn look(&mut self, now: Counted) -> Traffic {
        let began = *self.began.get_or_insert(now);
        let took = now.now - began.now;
        if took >= WINDOW {
            self.began = Some(now);
            self.are_ranges_asked = now.seeks != began.seeks;
            let put_bytes = now.put_bytes.saturating_sub(began.put_bytes) as f64;
            let is_busy = are_writers_busy(put_bytes / took.as_secs_f64(), now.flush_rate, now.is_slowed_for_flushes);
            self.is_known = is_busy || put_bytes == 0.0 || took <= WINDOW_MAX;
            if is_busy {
                self.busy_at = Some(now.now);
                self.credit_bytes += if self.are_ranges_asked { put_bytes * SHARE } else { 0.0 };
            }
        }
        let traffic = Traffic {
            is_known: self.is_known,
            busy_ago: self.busy_at.map(|busy_at| now.now - busy_at),
            are_ranges_asked: self.are_ranges_asked,
            are_merges_enough: self.merges >= self.merges_max(now),
            credit_bytes: self.credit_bytes,
        };
        if traffic.are_writers_calm() {
            self.credit_bytes = 0.0;
        }
        traffic
    }

    /// How many merges may run at once.
    fn merges_max(&self, now: Counted) -> usize {
        if now.are_ranges_cold {
            1
        } else if self.are_ranges_asked {
            now.processors.saturating_sub(1).max(1)
        } else {
            usize::MAX
        }
    }

    /// A merge begins, which rewrites so many bytes.
    pub(crate) fn begun(&mut self, rewritten_bytes: f64) {
        self.credit_bytes = (self.credit_bytes - rewritten_bytes).max(0.0);
        self.merges += 1;
    }

    /// A merge has ended.
    pub(crate) fn ended(&mut self) {
        self.merges = self.merges.saturating_sub(1);
    }
}

/// When to look again if there is something to put in order that may not be merged yet.
pub(crate) fn look_again_in(traffic: &Traffic) -> Duration {
    if traffic.is_known { WINDOW_MAX } else { WINDOW }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const MIB: f64 = 1048576.0;
    const ALL: f64 = f64::INFINITY;

    #[test]
    fn order_is_for_a_store_whose_writers_leave_time() {
        let (never, now, soon, late) = (None, Some(Duration::ZERO), Some(399 * MS), Some(401 * MS));
        // Looked lately; writers were busy; ranges are asked. Allowed, of a credit of 7; has to give way.
        let cases = [
            (true, never, true, ALL, false, "writers leave time"),
            (true, never, false, ALL, false, "also after the last range"),
            (false, never, true, 0.0, false, "nobody knows what writers do now"),
            (true, now, false, 0.0, true, "busy writers have all for themselves"),
            (true, now, true, 7.0, false, "unless ranges are asked beside them"),
            (true, soon, false, 0.0, false, "who pauses is not believed to have ended"),
            (true, soon, true, 7.0, false, "but what there is a credit for may begin"),
            (true, late, false, ALL, false, "until some time has gone"),
            (false, late, false, 0.0, false, "and then it is known that they have not begun again"),
        ];
        for (is_known, busy_ago, are_ranges_asked, allowed, gives_way, why) in cases {
            let traffic = Traffic { is_known, busy_ago, are_ranges_asked, are_merges_enough: false, credit_bytes: 7.0 };
            let decided = (traffic.bytes_allowed(), traffic.has_to_give_way());
            assert_eq!(decided, (allowed, gives_way), "{why}: {traffic:?}");
        }
    }

    #[test]
    fn writers_are_busy_at_an_eighth_of_what_flushes_take() {
        // Put a second; a flush takes a second; slowed for flushes; busy.
        let cases = [
            (49.0, 400.0, false, false, "a little less"),
            (51.0, 400.0, false, true, "a little more"),
            (1.0, 400.0, true, true, "flushes fall behind all the same"),
            (0.0, 400.0, true, false, "but nobody writes"),
            (51.0, 0.0, false, false, "nothing was flushed yet, so it can't be much"),
        ];
        for (put_rate, flush_rate, is_slowed, is_busy, why) in cases {
            assert_eq!(are_writers_busy(put_rate, flush_rate, is_slowed), is_busy, "{why}: {put_rate} of {flush_rate}");
        }
    }

    /// Looks at a store in turn.
    struct Looker {
        schedule: OrderSchedule,
        counted: Counted,
    }

    impl Looker {
        fn new() -> Looker {
            let (put_bytes, seeks, flush_rate) = (0, 0, 400.0 * MIB);
            let counted = Counted {
                now: Instant::now(),
                put_bytes,
                seeks,
                flush_rate,
                is_slowed_for_flushes: false,
                are_ranges_cold: false,
                processors: 4,
            };
            Looker { schedule: OrderSchedule::default(), counted }
        }

        /// After so long, in which so many MiB were put and so many seeks made.
        fn look(&mut self, after: Duration, put_mib: u64, seeks: u64) -> Traffic {
            let now = self.counted.now + after;
            self.counted = Counted { now, ..self.counted };
            self.counted.put_bytes += put_mib << 20;
            self.counted.seeks += seeks;
            self.schedule.look(self.counted)
        }
    }

    #[test]
    fn a_look_tells_of_the_last_window() {
        let mut looker = Looker::new();
        let mut known = |after_ms, put_mib| {
            let traffic = looker.look(after_ms * MS, put_mib, 0);
            (traffic.is_known, traffic.busy_ago.map(|ago| ago.as_millis()))
        };
        assert_eq!(known(1, 0), (false, None), "the first");
        assert_eq!(known(49, 1), (false, None), "it is not over");
        assert_eq!(known(51, 1), (true, None), "20 MiB a second");
        assert_eq!(known(1, 100), (true, None), "what comes now is told later");
        assert_eq!(known(99, 0), (true, Some(0)), "1000 MiB a second");
        assert_eq!(known(1000, 1), (false, Some(1000)), "was it put slowly, or at once just now?");
        assert_eq!(known(1000, 100), (true, Some(0)), "so much is much, whenever it was put");
        assert_eq!(known(1000, 0), (true, Some(1000)), "nothing is nothing");
    }

    #[test]
    fn busy_writers_are_remembered_and_give_credit_beside_ranges_alone() {
        let mut looker = Looker::new();
        looker.look(MS, 0, 0);
        let busy = looker.look(50 * MS, 20, 0);
        assert_eq!((busy.busy_ago, busy.credit_bytes, busy.are_ranges_asked), (Some(Duration::ZERO), 0.0, false));
        assert!(busy.has_to_give_way());
        let beside = looker.look(50 * MS, 20, 1);
        assert_eq!((beside.bytes_allowed(), beside.has_to_give_way()), (5.0 * MIB, false), "a quarter of 20 MiB");
        looker.schedule.begun(4.0 * MIB);
        assert_eq!(looker.look(50 * MS, 20, 1).bytes_allowed(), 6.0 * MIB);
        let after = looker.look(50 * MS, 0, 0);
        assert_eq!((after.busy_ago, after.bytes_allowed()), (Some(50 * MS), 0.0));
        assert!(after.has_to_give_way(), "another thread may have seen them a moment ago");
        assert!(!looker.look(50 * MS, 0, 0).has_to_give_way());
        assert_eq!(looker.look(300 * MS, 0, 0).bytes_allowed(), ALL);
        assert_eq!(looker.look(50 * MS, 20, 1).bytes_allowed(), 5.0 * MIB, "earlier credit is gone");
    }

    /// One of a hundred ranges took 16 ms and more while two merges read from the same disk.
    #[test]
    fn one_merge_at_a_time_where_ranges_wait_for_the_disk() {
        let mut looker = Looker::new();
        let mut allowed = |are_ranges_cold, merges: i32| {
            looker.counted.are_ranges_cold = are_ranges_cold;
            let allowed_before = looker.look(50 * MS, 0, 1).bytes_allowed();
            (0..merges).for_each(|_| looker.schedule.begun(1.0));
            (merges..0).for_each(|_| looker.schedule.ended());
            (allowed_before, looker.look(50 * MS, 0, 1).bytes_allowed())
        };
        assert_eq!(allowed(false, 1), (0.0, ALL), "(the first look knows nothing)");
        assert_eq!(allowed(false, 1), (ALL, ALL), "in memory there are processors for more");
        assert_eq!(allowed(true, -1), (0.0, 0.0), "one still runs");
        assert_eq!(allowed(true, -1), (0.0, ALL));
        assert_eq!(allowed(true, 1), (ALL, 0.0));
        assert_eq!(allowed(false, -1), (ALL, ALL));
    }

    /// Beside two merges on two processors ranges took an eighth longer than beside one, and a quarter with LZ4.
    #[test]
    fn merges_leave_a_processor_to_ranges() {
        let allowed_beside = |merges, processors, seeks| {
            let mut looker = Looker::new();
            looker.counted.processors = processors;
            looker.look(MS, 0, 0);
            (0..merges).for_each(|_| looker.schedule.begun(1.0));
            looker.look(50 * MS, 0, seeks).bytes_allowed()
        };
        // Merges that run; processors; seeks lately; allowed.
        let cases = [
            (0, 1, 1, ALL, "one in any case"),
            (1, 1, 1, 0.0, "and no more"),
            (1, 2, 1, 0.0, "the other is the range's"),
            (1, 2, 0, ALL, "nobody asks for ranges"),
            (1, 3, 1, ALL, "there is one more"),
            (2, 3, 1, 0.0, "and no further"),
        ];
        for (merges, processors, seeks, allowed, why) in cases {
            assert_eq!(allowed_beside(merges, processors, seeks), allowed, "{why}");
        }
    }
}
