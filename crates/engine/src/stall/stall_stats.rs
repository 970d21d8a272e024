//! [`StallCounters`]: how long writers have waited, and for what.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::stats;

/// What a writer waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StallCause {
    /// For flushes to catch up: it is slowed.
    Pace,
    /// For compactions to catch up: it is slowed.
    Compaction,
    /// For the oldest Immutable MemTable to be flushed, because the queue is full.
    Flush,
    /// For a new MemTable to be made.
    MemTable,
    /// For space to be set aside for its flush.
    Space,
}

impl StallCause {
    /// Number of causes.
    pub const COUNT: usize = 5;
}

/// Counters, in nanoseconds.
#[derive(Debug, Default)]
pub struct StallCounters {
    total: [AtomicU64; StallCause::COUNT],
    compaction_idle: AtomicU64,
    longest: AtomicU64,
}

impl StallCounters {
    /// Counts one wait.
    pub fn add(&self, cause: StallCause, ns: u64) {
        self.total[cause as usize].fetch_add(ns, Ordering::Relaxed);
        self.longest.fetch_max(ns, Ordering::Relaxed);
    }

    /// Counts what of a wait for compactions fell in a time in which fewer ran than may.
    pub fn add_compaction_idle(&self, ns: u64) {
        self.compaction_idle.fetch_add(ns, Ordering::Relaxed);
    }

    /// All waits together, in nanoseconds.
    pub fn total_ns(&self) -> u64 {
        self.total.iter().map(|total| total.load(Ordering::Relaxed)).sum()
    }

    /// The counters for `stats`.
    pub fn stats(&self) -> stats::StallStats {
        let us = |cause: StallCause| self.total[cause as usize].load(Ordering::Relaxed) / 1000;
        stats::StallStats {
            pace_us: us(StallCause::Pace),
            compaction_us: us(StallCause::Compaction),
            compaction_idle_while_paced_us: self.compaction_idle.load(Ordering::Relaxed) / 1000,
            flush_us: us(StallCause::Flush),
            memtable_us: us(StallCause::MemTable),
            space_us: us(StallCause::Space),
            longest_us: self.longest.load(Ordering::Relaxed) / 1000,
        }
    }
}
