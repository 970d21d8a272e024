//! [`LifetimeCounters`]: counters of a store, since it was opened and since it was made.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use slmdb_manifest::Counters;
use slmdb_pmem::{AnyMedium, FlushCounters, Medium, Pool};

use crate::context::StoreContext;

/// Adds the counters since the opening to those that the MANIFEST had.
pub struct LifetimeCounters {
    context: Arc<StoreContext>,
    pool: Arc<Pool<AnyMedium>>,
    before: Counters,
}

impl LifetimeCounters {
    /// For a store whose MANIFEST had the counters `before` when it was opened.
    pub fn new(context: &Arc<StoreContext>, pool: &Arc<Pool<AnyMedium>>, before: Counters) -> LifetimeCounters {
        LifetimeCounters { context: context.clone(), pool: pool.clone(), before }
    }

    /// Counters since the store was opened.
    pub fn since_open(&self) -> Counters {
        let FlushCounters { persists, lines_flushed, media_bytes, bytes_asked, .. } = self.pool.medium().counters();
        let counted = &self.context.counted;
        Counters {
            user_bytes_put: counted.user_bytes_put.load(Ordering::Relaxed),
            file_bytes_written: counted.file_bytes_written.load(Ordering::Relaxed),
            persists,
            lines_flushed,
            media_bytes,
            fast_tier_bytes_asked: bytes_asked,
            flushes: counted.flushes.load(Ordering::Relaxed),
            compactions: counted.compactions.load(Ordering::Relaxed),
            compaction_bytes_read: counted.compaction_bytes_read.load(Ordering::Relaxed),
            compaction_bytes_written: counted.compaction_bytes_written.load(Ordering::Relaxed),
            stall_us: counted.stalls.total_ns() / 1000,
        }
    }

    /// Reads of the fast tier that somebody waited for, since the store was opened. Counted only while its latencies are
    /// emulated, and kept in no MANIFEST.
    pub fn fast_tier_reads(&self) -> u64 {
        self.pool.medium().counters().reads
    }

    /// Counters since the store was made.
    pub fn of_store(&self) -> Counters {
        self.before.plus(&self.since_open())
    }
}
