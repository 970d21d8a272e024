//! What a store keeps in plain memory, and what the [memory budget](crate::memory::budget) leaves for the block cache.

use super::parts::Parts;
use crate::Memory;
use crate::batch::Totals;
use crate::memory::budget::{CURSOR_BYTES, Told};
use crate::memory::memory_of_memtables;

impl Parts {
    /// What the store keeps in plain memory now.
    /// LOCKS: snapshots; catalog; those of [`TierState::count_memory`](super::tier_state::TierState::count_memory); arenas; memtables
    pub fn memory(&self) -> Memory {
        let (moments, budget) = (self.state.moments(), &self.context.budget);
        let mut memory = Memory {
            block_cache_bytes: self.tables.cache_memory_bytes(),
            open_tables_bytes: self.tables.readers_memory_bytes(),
            index_bytes: self.state.pool().dram_bytes(),
            replaced_records_bytes: moments.kept_bytes(),
            cursors_bytes: moments.open() as u64 * CURSOR_BYTES + budget.cursor_blocks.bytes(),
            catalog_bytes: self.catalog.lock().state().memory_bytes(),
            background_bytes: budget.background.bytes().max(budget.left_with_threads()),
            ..Memory::default()
        };
        self.state.count_memory(&mut memory);
        memory_of_memtables::with_those_of(&self.writes, memory)
    }

    /// Gives the block cache what the rest leaves of the memory budget.
    /// LOCKS: those of [`Parts::memory`]
    pub fn share_memory(&self) {
        let memory = self.memory();
        let memtables_bytes = memory.memtable_lists_bytes + memory.memtable_arenas_bytes;
        let rest_bytes = memory.total_bytes() - memory.block_cache_bytes - memtables_bytes;
        let memtables_bytes = memtables_bytes + memory_of_memtables::to_come(&self.writes);
        self.context.budget.share(self.tables.caches(), Told { memtables_bytes, rest_bytes });
        if let Some(shared) = &self.context.options.shared {
            shared.memtables().look_at(&*self.writes);
        }
    }

    /// Takes note of memory that cursors and snapshots have freed. The cache may have it.
    /// LOCKS: those of [`Parts::memory`]
    pub fn readers_freed(&self, freed_bytes: u64) {
        if self.context.budget.readers_freed(freed_bytes, self.state.moments().open() == 0) {
            self.share_memory();
        }
    }

    /// Takes note that a flush has ended: its buffers are free, and its MemTable's list, unless a reader has it.
    /// LOCKS: those of [`Parts::memory`]
    pub(super) fn flush_freed(&self, totals: &Totals, list_bytes: u64) {
        self.context.budget.flush_ended(totals, list_bytes);
        self.share_memory();
    }
}
