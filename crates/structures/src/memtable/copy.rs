//! A MemTable over a copy of recovered logs.

use slmdb_env::Result;
use slmdb_pmem::{Arena, Medium};

use super::gathered::Gathered;
use super::memtable::{MemTable, MemTableOptions};
use super::sort::{Sortable, Sorter};
use crate::log::{FRONT_SLOT, Log, LoggedEntry, RecordForm};

impl<M: Medium> MemTable<M> {
    /// A new MemTable in this arena that holds all entries of recovered logs, which come oldest first, and takes more. See
    /// [`Log::copied_from`] for what counts when.
    pub fn copied_from(
        arena: Arena<M>,
        generation: u64,
        store_uuid: [u8; 16],
        options: &MemTableOptions,
        recovered: &[&Log<M>],
    ) -> Result<MemTable<M>> {
        let mut gathered = Gathered::default();
        let (form, take) = (options.links.form(), |entry: LoggedEntry<'_>| gathered.add(&entry));
        let log = Log::copied_from(arena, generation, store_uuid, form, recovered, take)?;
        let mut copy = MemTable::over(log, &options.order, &options.expected_prefix);
        let entries = gathered.sorted(&Sorter { bytes: copy.bytes().bytes, heads: copy.list().heads() });
        copy.build(&entries, &gathered);
        copy.delete_ranges(std::mem::take(&mut gathered.deleted));
        if copy.form() == RecordForm::WithSlots {
            copy.persist_links(&entries, &gathered);
        }
        Ok(copy)
    }

    /// Chains entries that are in the list's order. Nothing of it counts yet, so one fence is enough.
    fn persist_links(&self, entries: &[Sortable], gathered: &Gathered) {
        let mut before = FRONT_SLOT;
        for slot in entries.iter().map(|entry| gathered.slot(entry.index())) {
            self.arena().store_word(before, slot);
            before = slot;
        }
        self.arena().flush(FRONT_SLOT, self.used_bytes() - FRONT_SLOT);
        self.arena().fence();
    }
}
