//! Point reads (paper, section 4 «Get»): MemTable, Immutable MemTables, index, one block.
//!
//! The order is what makes them right while flushes go on: a MemTable leaves the readers' list only after the index
//! points to all that was in it, so whoever takes the list first and looks in the index afterwards misses nothing. The
//! index knows every key that has a value in a table file; a key that it does not know is missing, and no block is read.

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
        match self.newest(key, |value| Slice::from(value))? {
            Newest::InMemTable(value) => Ok(Some(value)),
            Newest::InTable(location) => self.tables.value(key, location).map(Some),
            Newest::Missing => Ok(None),
        }
    }

    /// See [`crate::Engine::contains_key`].
    pub(crate) fn contains_key(&self, key: &[u8]) -> Result<bool> {
        Ok(!matches!(self.newest(key, |_| Slice::default())?, Newest::Missing))
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
