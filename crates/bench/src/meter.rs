//! What one thread does, counted and timed.
//!
//! The clock is read once an operation: an operation lasts from the end of the one before to its own, as in db_bench. So the
//! choice of a key is in it (some nanoseconds), and no time is in none. The time also says whether the duration is over, so
//! that costs nothing more.

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

/// One thread's account.
pub(crate) struct Meter<'s> {
    shared: &'s Shared,
    started: Instant,
    last: Instant,
    deadline: Option<Instant>,
    untold: u64,
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
    /// Time of this thread.
    pub elapsed: Duration,
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
        let now = Instant::now();
        let duration_ns = now.duration_since(self.last).as_nanos() as u64;
        self.last = now;
        self.counts.latencies[kind as usize].get_or_insert_default().add(duration_ns);
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
        self.counts.elapsed = self.started.elapsed();
        self.counts
    }
}

impl Counts {
    /// Everything of another thread's added; elapsed is the longest.
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
        self.elapsed = self.elapsed.max(other.elapsed);
    }
}
