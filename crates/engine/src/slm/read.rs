//! Point reads (paper, section 4 «Get»): MemTable, Immutable MemTables, index, one block.
//!
//! The order is what makes them right while flushes go on: a MemTable leaves the readers' list only after the index
//! points to all that was in it, so whoever takes the list first and looks in the index afterwards misses nothing. The
//! index knows every key that has a value in a table file; a key that it does not know is missing, and no block is read.
//!
//! Between index and block a compaction may have moved the entry and removed the file. Then the file is gone from the
//! store, and the key is looked up again: the entry, or what replaced it, is somewhere else.

use std::ops::Bound;

use slmdb_env::Result;
use slmdb_pmem::Medium;
use slmdb_structures::EntryKind;
use slmdb_table::Slice;

use super::flush::location;
use super::snapshots::Location;
use super::store::Store;

/// Where the newest version of a key is.
enum Newest {
    InMemTable(Slice),
    InTable(Location),
    Missing,
}

impl<M: Medium + Clone> Store<M> {
    /// See [`crate::Engine::get`].
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Slice>> {
        let mut before = None;
        loop {
            let location = match self.newest(key, |value| Slice::from(value))? {
                Newest::InMemTable(value) => return Ok(Some(value)),
                Newest::Missing => return Ok(None),
                Newest::InTable(location) => location,
            };
            match self.tables.value(key, location) {
                // The same place again is none that a compaction has left behind.
                Err(_) if self.is_gone(location.file) && before != Some(location) => before = Some(location),
                value => return value.map(Some),
            }
        }
    }

    /// See [`crate::Engine::contains_key`].
    pub(crate) fn contains_key(&self, key: &[u8]) -> Result<bool> {
        Ok(!matches!(self.newest(key, |_| Slice::default())?, Newest::Missing))
    }

    /// Where the version of `key` is that a moment sees, if it is in a table file. The index is asked first: a version may
    /// move from there to the map of replaced records in between, never the other way.
    pub(super) fn location_at(&self, key: &[u8], moment: u64) -> Result<Option<Location>> {
        let in_index = {
            let guard = crossbeam_epoch::pin();
            self.tree.get(key, &guard)?.map(|record| location(&record))
        };
        let seen = in_index.filter(|location| location.sequence <= moment);
        Ok(seen.or_else(|| {
            let this = (Bound::Included(key), Bound::Included(key));
            self.snapshots.replaced_in(this, moment).pop().map(|(_, location)| location)
        }))
    }

    fn newest(&self, key: &[u8], take: impl Fn(&[u8]) -> Slice) -> Result<Newest> {
        let published = self.publication.published();
        for memtable in &self.view.load().memtables {
            if let Some(found) = memtable.get(key, published) {
                return Ok(match found.kind {
                    EntryKind::Put => Newest::InMemTable(take(found.value)),
                    EntryKind::Delete => Newest::Missing,
                });
            }
        }
        let guard = crossbeam_epoch::pin();
        Ok(self.tree.get(key, &guard)?.map_or(Newest::Missing, |record| Newest::InTable(location(&record))))
    }
}
