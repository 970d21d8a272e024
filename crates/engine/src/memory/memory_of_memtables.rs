//! What MemTables take in memory: their lists, and on `Dram` their arenas.

use slmdb_pmem::AnyMedium;
use slmdb_structures::memtable::MemTable;

use super::budget::FLOOR_PART;
use crate::Memory;
use crate::write::write_path::WritePath;

/// Adds all MemTables to what a store keeps: those that are read by all, flushed ones that a reader still has, and the spare
/// one.
/// LOCKS: arenas; memtables
pub fn with_those_of(writes: &WritePath, mut memory: Memory) -> Memory {
    let mut add = |memtable: &MemTable<AnyMedium>| {
        memory.memtable_lists_bytes += memtable.memory_bytes();
        memory.memtable_arenas_bytes += memtable.arena().dram_bytes(memtable.used_bytes());
    };
    writes.view.load().memtables.iter().for_each(|memtable| add(memtable));
    writes.arenas.for_each_retired(&mut add);
    if let Some(spare) = &writes.memtables.lock().spare {
        add(&spare.memtable);
    }
    memory
}

/// Memory that MemTables will need in addition while writes go on: for the active one when it is full, for those
/// that wait for their flush, and for at least one of these, or the cache would shrink and grow at every flush. 0
/// if nothing was written since the last flush.
/// LOCKS: memtables
pub fn to_come(writes: &WritePath) -> u64 {
    let (active, immutables) = {
        let memtables = writes.memtables.lock();
        let Some(active) = &memtables.active else { return 0 };
        (active.memtable.clone(), memtables.immutables as u64)
    };
    if active.entries() == 0 {
        return 0;
    }
    let (mut lists, mut arenas, mut used) = (0, 0, 0);
    for memtable in &writes.view.load().memtables {
        lists += memtable.memory_bytes();
        arenas += memtable.arena().dram_bytes(memtable.used_bytes());
        used += memtable.used_bytes();
    }
    let capacity = active.capacity_bytes();
    let full_list = lists.saturating_mul(capacity) / used.max(capacity / FLOOR_PART).max(1);
    let full = full_list + active.arena().dram_bytes(capacity);
    ((immutables + 1).max(2) * full).saturating_sub(lists + arenas)
}
