//! How far compactions slow writers ([`slmdb_engine::stall::pacing`]): the debt is garbage in table files.

use std::sync::Arc;

use slmdb_engine::CompactionPolicy;
use slmdb_engine::context::StoreContext;
use slmdb_engine::files::catalog::Catalog;
use slmdb_engine::stall::stall_stats::StallCause;
use slmdb_engine::write::write_path::WritePath;
use slmdb_pmem::Medium;

use crate::compaction::queue::CompactionQueue;
use crate::recovery::checkpoint_schedule::Checkpoints;
use crate::selection::live_key_ratio::garbage_part;

/// While nothing is being compacted, debt above this slows writers no further: waiting would not reduce it.
const DEBT_AT_REST_MAX: f64 = 0.75;
/// Garbage of this many MemTables slows no writer, however small the store.
const MEMTABLES_OF_GARBAGE: u64 = 2;

/// How far compactions slow writers.
pub(crate) struct CompactionPace<M: Medium> {
    pub(crate) context: Arc<StoreContext>,
    pub(crate) writes: Arc<WritePath<M>>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) compactions: Arc<CompactionQueue>,
    pub(crate) checkpoints: Arc<Checkpoints>,
}

impl<M: Medium + Clone> CompactionPace<M> {
    /// Sets the write stall after table files have changed.
    /// LOCKS: catalog, compactions
    pub(crate) fn set(&self) {
        let debt = match self.context.options.compaction.policy {
            _ if self.compactions.is_busy() => self.garbage_debt(),
            CompactionPolicy::Gain => self.garbage_debt().min(DEBT_AT_REST_MAX),
            _ => 0.0,
        };
        self.writes.pacing.set_compaction_debt(debt);
        let is_limited = self.writes.pacing.is_limited_by(StallCause::Compaction);
        self.context.events.paced(StallCause::Compaction, is_limited, || self.context.env.monotonic_ns());
    }

    /// Garbage in table files, plus what running compactions will have written when their inputs go, as part of what is
    /// allowed: the peak to come.
    /// LOCKS: catalog, compactions
    pub(crate) fn garbage_debt(&self) -> f64 {
        let droppable_through = self.checkpoints.deletes_droppable_through();
        let (mut all_bytes, mut garbage_bytes) = (0.0, 0.0);
        let mut beside_bytes = 0.0;
        let catalog = self.catalog.lock();
        let compactions = self.compactions.inner.lock();
        for (number, file) in &catalog.state().files {
            let (length_bytes, garbage_part) = (file.length_bytes as f64, garbage_part(file, droppable_through));
            all_bytes += length_bytes;
            garbage_bytes += length_bytes * garbage_part;
            if compactions.busy.contains(number) {
                beside_bytes += length_bytes * (1.0 - garbage_part);
            }
        }
        drop((compactions, catalog));
        let part = self.context.options.compaction.space_amplification_max - 1.0;
        let few_bytes = (MEMTABLES_OF_GARBAGE * self.context.options.memtable_bytes) as f64;
        (garbage_bytes + beside_bytes) / ((all_bytes - garbage_bytes) * part).max(few_bytes)
    }
}
