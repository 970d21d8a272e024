//! The end of a flush: its MemTable goes.

use slmdb_env::Result;
use slmdb_pmem::Medium;

use super::parts::Parts;
use crate::write::memtables::Immutable;

impl<M: Medium + Clone> Parts<M> {
    /// Takes a flushed MemTable from the readers' list (INV-9), and frees what was set aside for it. REQUIRES: its flush has
    /// committed.
    /// LOCKS: catalog; memtables; those of [`Parts::memory`]; pool grant, memtables
    pub fn retire_flushed(&self, flushed: Immutable<M>, began_ns: u64) -> Result<()> {
        let Immutable { memtable, last_sequence, totals, space } = flushed;
        debug_assert!(
            self.catalog.lock().state().flushed_through >= last_sequence,
            "INV-9: the flush through {last_sequence} has not committed"
        );
        space.map_or(Ok(()), |space| space.discard(&*self.context.env))?;
        match self.catalog.fill_reserve() {
            Err(error) if !error.may_be_tried_again() => return Err(error),
            _ => {}
        }
        let (bytes, list_bytes) = (memtable.used_bytes(), memtable.memory_bytes());
        self.writes.take_from_view(&memtable);
        // Before `release_in_pool` counts the space as returned: writers that wait for it look again then.
        self.writes.arenas.retire(memtable)?;
        self.flush_freed(&totals, list_bytes);
        self.space.release_in_pool(&totals)?;
        self.writes.flush_ended(last_sequence, bytes, began_ns);
        Ok(())
    }
}
