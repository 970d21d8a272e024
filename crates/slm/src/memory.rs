//! What a store keeps in plain memory, and what the memory budget leaves for the block cache
//! ([`slmdb_engine::memory::budget`]).

use std::sync::Arc;

use slmdb_engine::Memory;
use slmdb_engine::batch::Totals;
use slmdb_engine::context::StoreContext;
use slmdb_engine::files::catalog::Catalog;
use slmdb_engine::files::table_cache::Tables;
use slmdb_engine::memory::budget::CURSOR_BYTES;
use slmdb_engine::memory::memory_of_memtables;
use slmdb_engine::write::write_path::WritePath;
use slmdb_pmem::Medium;

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
        let memory = Memory {
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
        memory_of_memtables::with_those_of(&self.writes, memory)
    }

    /// Takes note of memory that cursors and snapshots have freed. The cache may have it.
    pub(crate) fn kept_freed(&self, freed_bytes: u64) {
        if self.context.budget.readers_freed(freed_bytes, self.index.snapshots.open() == 0) {
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
        let rest = memory.total_bytes() - memory.block_cache_bytes + memory_of_memtables::to_come(&self.writes);
        self.context.budget.share(&self.tables, rest);
    }
}
