//! What one thread does, counted and timed.
//!
//! The clock is read once an operation: an operation lasts from the end of the one before to its own, as in db_bench. So the
//! choice of a key is in it (some nanoseconds), and no time is in none. The time also says whether the duration is over, so
//! that costs nothing more. Only for entries of a walk, which stores give in a few hundred nanoseconds, is reading the clock for each
//! too much: percentiles are of one entry in thirteen.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::latency::Latency;

/// What kind an operation was: each has percentiles of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A put.
    Write,
    /// A get, or an entry walked over.
    Read,
    /// A seek with the entries read after it.
    Seek,
    /// A delete.
    Delete,
    /// An update of a record that should be there.
    Update,
    /// An insertion of a new record.
    Insert,
    /// A get and then an update of the same record.
    ReadModifyWrite,
    /// A flush or compaction.
    Maintain,
}

impl Kind {
    const COUNT: usize = 8;

    /// All there are.
    pub const ALL: [Kind; Kind::COUNT] = [
        Kind::Write,
        Kind::Read,
        Kind::Seek,
        Kind::Delete,
        Kind::Update,
        Kind::Insert,
        Kind::ReadModifyWrite,
        Kind::Maintain,
    ];

    /// Its name, in lines and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Write => "write",
            Kind::Read => "read",
            Kind::Seek => "seek",
            Kind::Delete => "delete",
            Kind::Update => "update",
            Kind::Insert => "insert",
            Kind::ReadModifyWrite => "read_modify_write",
            Kind::Maintain => "maintain",
        }
    }
}

/// What the threads of a phase share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// Operations done so far, about.
    pub done: AtomicU64,
    /// Threads that are through, or have failed.
    pub ended: AtomicU64,
    /// All are to stop.
    pub stop: AtomicBool,
}

/// Operations are told to the others so many at a time.
const TOLD_AT_ONCE: u64 = 256;

/// Of so many entries of a walk one is timed alone. A prime, so that it is not always one at the same place in its block.
const ENTRIES_FOR_ONE_TIMED: u64 = 13;

/// One thread's account.
pub(crate) struct Meter<'s> {
    shared: &'s Shared,
    started: Instant,
    last: Instant,
    deadline: Option<Instant>,
    untold: u64,
    /// Entries walked over.
    entries: u64,
    pub counts: Counts,
}

/// What was counted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts {
    pub latencies: [Option<Box<Latency>>; Kind::COUNT],
    pub operations: u64,
    /// Bytes of keys and values that were read or written.
    pub bytes: u64,
    /// The part of them that was put.
    pub bytes_put: u64,
    /// Keys that were asked for, and those that were there.
    pub asked: u64,
    pub found: u64,
    /// When it began and when it ended: of several threads the first beginning and the last end.
    pub span: Option<(Instant, Instant)>,
}

impl<'s> Meter<'s> {
    /// The account of a thread that starts now.
    pub fn start(shared: &'s Shared, duration: Option<Duration>) -> Meter<'s> {
        let now = Instant::now();
        Meter {
            shared,
            started: now,
            last: now,
            deadline: duration.map(|duration| now + duration),
            untold: 0,
            entries: 0,
            counts: Counts::default(),
        }
    }

    /// Whether there is time for more.
    pub fn goes_on(&self) -> bool {
        !self.shared.stop.load(Ordering::Relaxed) && self.deadline.is_none_or(|deadline| self.last < deadline)
    }

    /// How many threads of this phase have ended.
    pub fn ended_threads(&self) -> u64 {
        self.shared.ended.load(Ordering::Acquire)
    }

    /// An operation has ended. One that stands for several (a batch) is timed as one.
    pub fn finished(&mut self, kind: Kind, operations: u64, bytes: u64) {
        let duration_ns = self.lap_ns();
        self.latency(kind).add(duration_ns);
        self.count(operations, bytes);
    }

    /// An entry of a walk has been read. The first is timed, and from then on one in thirteen; what is between them counts only for the
    /// longest, all of it together, as any one of these may have been what took so long.
    pub fn finished_entry(&mut self, bytes: u64) {
        match self.entries % ENTRIES_FOR_ONE_TIMED {
            0 => {
                let duration_ns = self.lap_ns();
                self.latency(Kind::Read).add(duration_ns);
            }
            last if last == ENTRIES_FOR_ONE_TIMED - 1 => {
                let duration_ns = self.lap_ns();
                self.latency(Kind::Read).add_to_longest(duration_ns);
            }
            _ => {}
        }
        self.entries += 1;
        self.count(1, bytes);
    }

    /// How long it is since the last one, which ends now.
    fn lap_ns(&mut self) -> u64 {
        let now = Instant::now();
        let duration_ns = now.duration_since(self.last).as_nanos() as u64;
        self.last = now;
        duration_ns
    }

    fn latency(&mut self, kind: Kind) -> &mut Latency {
        self.counts.latencies[kind as usize].get_or_insert_default()
    }

    fn count(&mut self, operations: u64, bytes: u64) {
        self.counts.operations += operations;
        self.counts.bytes += bytes;
        self.untold += operations;
        if self.untold >= TOLD_AT_ONCE {
            self.shared.done.fetch_add(self.untold, Ordering::Relaxed);
            self.untold = 0;
        }
    }

    /// The same for one that put all its bytes.
    pub fn finished_put(&mut self, kind: Kind, operations: u64, bytes: u64) {
        self.finished(kind, operations, bytes);
        self.counts.bytes_put += bytes;
    }

    /// A key was asked for.
    pub fn asked(&mut self, found: bool) {
        self.counts.asked += 1;
        self.counts.found += u64::from(found);
    }

    /// The account, closed.
    pub fn end(mut self) -> Counts {
        self.counts.span = Some((self.started, Instant::now()));
        self.counts
    }
}

impl Counts {
    /// How long it took.
    pub fn elapsed(&self) -> Duration {
        self.span.map_or(Duration::ZERO, |(began, ended)| ended.duration_since(began))
    }

    /// Everything of another thread's added.
    pub fn add(&mut self, other: &Counts) {
        for (latency, other) in self.latencies.iter_mut().zip(&other.latencies) {
            if let Some(other) = other {
                latency.get_or_insert_default().add_all(other);
            }
        }
        self.operations += other.operations;
        self.bytes += other.bytes;
        self.bytes_put += other.bytes_put;
        self.asked += other.asked;
        self.found += other.found;
        self.span = match (self.span, other.span) {
            (Some(one), Some(other)) => Some((one.0.min(other.0), one.1.max(other.1))),
            (one, other) => one.or(other),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;

    use super::*;

    #[test]
    fn of_a_walk_s_entries_one_in_thirteen_is_timed_and_all_count() {
        const PAUSE: Duration = Duration::from_millis(2);
        let shared = Shared::default();
        let mut meter = Meter::start(&shared, None);
        for entry in 0..ENTRIES_FOR_ONE_TIMED * 100 {
            // Never one that is timed alone.
            if entry == ENTRIES_FOR_ONE_TIMED * 50 + 5 {
                sleep(PAUSE);
            }
            meter.finished_entry(100);
        }
        let counts = meter.end();
        assert!(counts.elapsed() >= PAUSE);
        assert_eq!((counts.operations, counts.bytes), (1300, 130_000));
        let latency = counts.latencies[Kind::Read as usize].as_ref().unwrap();
        assert_eq!(latency.count(), 100);
        assert!(latency.longest_ns() >= PAUSE.as_nanos() as u64, "a pause was not seen");
    }

    /// (With more threads than processors those that came late were quicker than all together.)
    #[test]
    fn several_threads_take_from_first_beginning_to_last_end() {
        let start = Instant::now();
        let of = |from_ms, to_ms| {
            let at = |ms| start + Duration::from_millis(ms);
            Counts { span: Some((at(from_ms), at(to_ms))), ..Counts::default() }
        };
        let mut all = Counts::default();
        assert_eq!(all.elapsed(), Duration::ZERO);
        for counts in [of(20, 50), of(10, 30), of(40, 60)] {
            all.add(&counts);
        }
        assert_eq!(all.elapsed(), Duration::from_millis(50));
    }
}
