//! [`LifetimeCounters`]: counters of a store, since it was opened and since it was made.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use slmdb_engine::context::StoreContext;
use slmdb_manifest::Counters;
use slmdb_pmem::{FlushCounters, Medium};

use crate::index::Index;

/// Adds the counters since the opening to those that the MANIFEST had.
pub(crate) struct LifetimeCounters<M: Medium> {
    context: Arc<StoreContext>,
    index: Arc<Index<M>>,
    before: Counters,
}

impl<M: Medium> LifetimeCounters<M> {
    /// For a store whose MANIFEST has the counters `before`.
    pub(crate) fn new(context: &Arc<StoreContext>, index: &Arc<Index<M>>, before: Counters) -> LifetimeCounters<M> {
        LifetimeCounters { context: context.clone(), index: index.clone(), before }
    }

    /// Counters since the store was opened.
    pub(crate) fn since_open(&self) -> Counters {
        let FlushCounters { persists, lines_flushed, media_bytes, bytes_asked } = self.index.pool.medium().counters();
        Counters {
            user_bytes_put: self.context.counted.user_bytes_put.load(Ordering::Relaxed),
            file_bytes_written: self.context.counted.file_bytes_written.load(Ordering::Relaxed),
            persists,
            lines_flushed,
            media_bytes,
            fast_tier_bytes_asked: bytes_asked,
            flushes: self.context.counted.flushes.load(Ordering::Relaxed),
            compactions: self.context.counted.compactions.load(Ordering::Relaxed),
            compaction_bytes_read: self.context.counted.compaction_bytes_read.load(Ordering::Relaxed),
            compaction_bytes_written: self.context.counted.compaction_bytes_written.load(Ordering::Relaxed),
            stall_us: self.context.counted.stalls.total_ns() / 1000,
        }
    }

    /// Counters since the store was made.
    pub(crate) fn of_store(&self) -> Counters {
        self.before.plus(&self.since_open())
    }
}
