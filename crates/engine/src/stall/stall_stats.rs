//! [`Waits`]: how long writers have waited, and for what.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::stats;

/// What a writer waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitFor {
    /// Nothing but that flushes catch up: it is slowed.
    Pace,
    /// Nothing but that compactions catch up: it is slowed.
    Compaction,
    /// The queue of Immutable MemTables is full: for the oldest to be flushed.
    Flush,
    /// A new MemTable to be made.
    MemTable,
    /// Space to be set aside for its flush.
    Space,
}

impl WaitFor {
    /// How many there are.
    pub const COUNT: usize = 5;
}

/// Counters, in nanoseconds.
#[derive(Debug, Default)]
pub struct Waits {
    total: [AtomicU64; WaitFor::COUNT],
    longest: AtomicU64,
}

impl Waits {
    /// Counts one wait.
    pub fn add(&self, cause: WaitFor, ns: u64) {
        self.total[cause as usize].fetch_add(ns, Ordering::Relaxed);
        self.longest.fetch_max(ns, Ordering::Relaxed);
    }

    /// All waits together, in nanoseconds.
    pub fn total_ns(&self) -> u64 {
        self.total.iter().map(|total| total.load(Ordering::Relaxed)).sum()
    }

    /// As `stats` shows them.
    pub fn told(&self) -> stats::Waits {
        let us = |cause: WaitFor| self.total[cause as usize].load(Ordering::Relaxed) / 1000;
        stats::Waits {
            pace_us: us(WaitFor::Pace),
            compaction_us: us(WaitFor::Compaction),
            flush_us: us(WaitFor::Flush),
            memtable_us: us(WaitFor::MemTable),
            space_us: us(WaitFor::Space),
            longest_us: self.longest.load(Ordering::Relaxed) / 1000,
        }
    }
}
