//! What a store keeps in plain memory, and what the memory budget leaves for the block cache
//! ([`slmdb_engine::memory::budget`]).

use std::sync::Arc;

use slmdb_engine::Memory;
use slmdb_engine::batch::Totals;
use slmdb_engine::context::StoreContext;
use slmdb_engine::files::catalog::Catalog;
use slmdb_engine::files::table_cache::Tables;
use slmdb_engine::memory::budget::{CURSOR_BYTES, FLOOR_BYTES, FLOOR_PART};
use slmdb_engine::write::write_path::WritePath;
use slmdb_pmem::Medium;
use slmdb_structures::memtable::MemTable;

use crate::index::Index;
use crate::selection::candidate_list::Candidates;

/// Adds up what takes memory in a store, and gives the block cache the rest of the budget.
pub(crate) struct MemoryShare<M: Medium> {
    pub(crate) context: Arc<StoreContext>,
    pub(crate) writes: Arc<WritePath<M>>,
    pub(crate) tables: Arc<Tables>,
    pub(crate) index: Arc<Index<M>>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) candidates: Arc<Candidates>,
}

impl<M: Medium + Clone> MemoryShare<M> {
    /// What the store keeps in plain memory now.
    /// LOCKS: snapshots; catalog, compaction candidates; arenas; memtables
    pub(crate) fn memory(&self) -> Memory {
        let mut memory = Memory {
            block_cache_bytes: self.tables.cache_memory_bytes(),
            open_tables_bytes: self.tables.readers_memory_bytes(),
            index_bytes: self.index.pool.dram_bytes() + self.index.tree.memory_bytes(),
            replaced_records_bytes: self.index.snapshots.kept_bytes(),
            cursors_bytes: self.index.snapshots.open() as u64 * CURSOR_BYTES
                + self.context.budget.cursor_blocks.bytes(),
            catalog_bytes: self.catalog.lock().state().memory_bytes() + self.candidates.memory_bytes(),
            background_bytes: self.context.budget.background.bytes().max(self.context.budget.left_with_threads()),
            ..Memory::default()
        };
        let mut add = |memtable: &MemTable<M>| {
            memory.memtable_lists_bytes += memtable.memory_bytes();
            memory.memtable_arenas_bytes += memtable.arena().dram_bytes(memtable.used_bytes());
        };
        self.writes.view.load().memtables.iter().for_each(|memtable| add(memtable));
        self.writes.arenas.for_each_retired(&mut add);
        if let Some(spare) = &self.writes.memtables.lock().spare {
            add(&spare.memtable);
        }
        memory
    }

    /// Memory that MemTables will need in addition while writes go on: for the active one when it is full, for those
    /// that wait for their flush, and for at least one of these, or the cache would shrink and grow at every flush. 0
    /// if nothing was written since the last flush.
    /// LOCKS: memtables
    fn memory_to_come(&self) -> u64 {
        let (active, immutables) = {
            let memtables = self.writes.memtables.lock();
            let Some(active) = &memtables.active else { return 0 };
            (active.memtable.clone(), memtables.immutables as u64)
        };
        if active.entries() == 0 {
            return 0;
        }
        let (mut lists, mut arenas, mut used) = (0, 0, 0);
        for memtable in &self.writes.view.load().memtables {
            lists += memtable.memory_bytes();
            arenas += memtable.arena().dram_bytes(memtable.used_bytes());
            used += memtable.used_bytes();
        }
        let capacity = active.capacity_bytes();
        let full_list = lists.saturating_mul(capacity) / used.max(capacity / FLOOR_PART).max(1);
        let full = full_list + active.arena().dram_bytes(capacity);
        ((immutables + 1).max(2) * full).saturating_sub(lists + arenas)
    }

    /// Takes note of memory that cursors and snapshots have freed. The cache may have it.
    pub(crate) fn kept_freed(&self, freed_bytes: u64) {
        // After the last one, no other may come for long whose freed memory could be counted with this.
        let was_last = self.index.snapshots.open() == 0;
        let noticeable_bytes = if was_last { FLOOR_BYTES } else { self.context.budget.noticeable_bytes() };
        if freed_bytes > 0 && self.context.budget.freed_among(freed_bytes, noticeable_bytes) {
            self.share();
        }
    }

    /// Takes note that a flush has ended: its buffers are free, and its MemTable's list, unless a reader has it.
    pub(crate) fn flush_freed(&self, totals: &Totals, list_bytes: u64) {
        self.context.budget.flush_ended(totals, list_bytes);
        self.share();
    }

    /// Gives the block cache what the rest leaves of the memory budget.
    pub(crate) fn share(&self) {
        let memory = self.memory();
        let rest = memory.total_bytes() - memory.block_cache_bytes + self.memory_to_come();
        self.context.budget.share(&self.tables, rest);
    }
}
