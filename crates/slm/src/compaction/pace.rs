//! How far compactions slow writers: the quantities of the store for the [controller](super::controller), and its
//! decision for [`slmdb_engine::stall::pacing`].

use std::sync::Arc;

use slmdb_engine::store::parts::Parts;

use crate::compaction::controller::Situation;
use crate::selection::live_key_ratio::garbage_part;
use crate::state::SlmState;

/// Garbage of this many MemTables slows no writer, however small the store.
const MEMTABLES_OF_GARBAGE: u64 = 2;

/// How far compactions slow writers.
pub(crate) struct CompactionPace {
    pub(crate) store: Arc<Parts>,
    pub(crate) state: Arc<SlmState>,
}

impl CompactionPace {
    /// Sets the write stall after table files have changed.
    /// LOCKS: catalog, compactions
    pub(crate) fn set(&self) {
        let (situation, running) = self.situation();
        let threads = self.store.context.options.compaction.threads_to_start();
        self.store.set_compaction_pace(situation.pace(running), running, threads);
    }

    /// What the store has, and how many compactions run.
    /// LOCKS: catalog, compactions
    pub(crate) fn situation(&self) -> (Situation, usize) {
        let droppable_through = self.state.checkpoints.deletes_droppable_through();
        let (mut all_bytes, mut garbage_bytes) = (0.0, 0.0);
        let mut beside_bytes = 0.0;
        let catalog = self.store.catalog.lock();
        let compactions = self.state.compactions.inner.lock();
        for (number, file) in &catalog.state().files {
            let (length_bytes, garbage_part) = (file.length_bytes as f64, garbage_part(file, droppable_through));
            all_bytes += length_bytes;
            garbage_bytes += length_bytes * garbage_part;
            if compactions.busy.contains(number) {
                beside_bytes += length_bytes * (1.0 - garbage_part);
            }
        }
        let running = compactions.running;
        drop((compactions, catalog));
        let part = self.store.context.options.compaction.space_amplification_max - 1.0;
        let few_bytes = (MEMTABLES_OF_GARBAGE * self.store.context.options.memtable_bytes) as f64;
        let (needed_bytes, coming_bytes) = (all_bytes - garbage_bytes, self.coming_bytes());
        let allowed_bytes = (needed_bytes * part).max(few_bytes);
        (Situation { needed_bytes, garbage_bytes, coming_bytes, beside_bytes, allowed_bytes }, running)
    }

    /// The garbage that flushes of waiting MemTables will make.
    pub(crate) fn coming_bytes(&self) -> f64 {
        let view = self.store.writes.view.load();
        let waiting_bytes: u64 = view.memtables.iter().skip(1).map(|memtable| memtable.used_bytes()).sum();
        waiting_bytes as f64 * self.store.writes.pacing.debt_part()
    }
}
