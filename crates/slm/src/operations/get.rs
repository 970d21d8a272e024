//! Point reads (paper, section 4 «Get»): MemTable, Immutable MemTables, index, one block.
//!
//! This order makes reads right while flushes go on. A MemTable leaves the readers' list only after the index points
//! to all of its entries (INV-9). So a reader that takes the list first and looks in the index afterwards misses
//! nothing. The index knows every key that has a value in a table file. A key that it does not know is missing, and
//! no block is read.
//!
//! A read at a snapshot's moment goes the same way and passes over newer versions. A version that the index has
//! replaced since is in the map of replaced records ([`slmdb_engine::read::snapshots`]).
//!
//! After the look into the index, a compaction may move the entry and remove its file before the block is read. Then
//! the file is gone from the store, and the key is looked up again.

use std::sync::Arc;

use slmdb_engine::context::StoreContext;
use slmdb_engine::files::catalog::Catalog;
use slmdb_engine::files::location::Location;
use slmdb_engine::files::obsolete_files::ObsoleteFiles;
use slmdb_engine::files::table_cache::Tables;
use slmdb_engine::write::write_path::WritePath;
use slmdb_env::Result;
use slmdb_pmem::Medium;
use slmdb_structures::EntryKind;
use slmdb_sync::epoch;
use slmdb_table::Slice;

use crate::index::Index;
use crate::index::location::location;
use crate::memory::MemoryShare;
use crate::operations::ask_ahead::range_lengths::RangeLengths;
use crate::selection::naming::CandidateNaming;
use crate::space::reclaim::SpaceReclaim;

/// The moment that a read sees.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Moment {
    /// The present one.
    Now,
    /// One that is [registered](slmdb_engine::read::snapshot_registry).
    At(u64),
}

/// Where the newest version of a key is.
enum Newest {
    InMemTable(Slice),
    InTable(Location),
    Missing,
}

/// What readers need of the store.
pub(crate) struct Reader<M: Medium> {
    pub(crate) context: Arc<StoreContext>,
    pub(crate) writes: Arc<WritePath<M>>,
    pub(crate) index: Arc<Index<M>>,
    pub(crate) tables: Arc<Tables>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) memory: Arc<MemoryShare<M>>,
    pub(crate) obsolete: Arc<ObsoleteFiles>,
    pub(crate) reclaim: Arc<SpaceReclaim<M>>,
    pub(crate) naming: Arc<CandidateNaming>,
    pub(crate) cold_ranges: RangeLengths,
}

impl<M: Medium + Clone> Reader<M> {
    /// See [`slmdb_engine::Engine::get`].
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Slice>> {
        self.get_at(key, Moment::Now)
    }

    /// See [`slmdb_engine::Engine::contains_key`].
    pub(crate) fn contains_key(&self, key: &[u8]) -> Result<bool> {
        self.contains_key_at(key, Moment::Now)
    }

    /// The value of `key` at a moment.
    /// LOCKS: snapshots; file numbers; catalog (if the file is gone)
    pub(crate) fn get_at(&self, key: &[u8], moment: Moment) -> Result<Option<Slice>> {
        let mut before = None;
        loop {
            let location = match self.newest(key, moment, |value| Slice::from(value))? {
                Newest::InMemTable(value) => return Ok(Some(value)),
                Newest::Missing => return Ok(None),
                Newest::InTable(location) => location,
            };
            match self.tables.value(key, location) {
                // A compaction has moved the entry, so the index has a new place. If it is the same, the error is real.
                Err(_) if self.catalog.is_gone(location.file) && before != Some(location) => before = Some(location),
                value => return value.map(Some),
            }
        }
    }

    /// Whether `key` has a value at a moment.
    pub(crate) fn contains_key_at(&self, key: &[u8], moment: Moment) -> Result<bool> {
        Ok(!matches!(self.newest(key, moment, |_| Slice::default())?, Newest::Missing))
    }

    fn newest(&self, key: &[u8], moment: Moment, take: impl Fn(&[u8]) -> Slice) -> Result<Newest> {
        let up_to = match moment {
            Moment::Now => self.writes.publication.published(),
            Moment::At(moment) => moment,
        };
        for memtable in &self.writes.view.load().memtables {
            if let Some(found) = memtable.get(key, up_to) {
                return Ok(match found.kind {
                    EntryKind::Put => Newest::InMemTable(take(found.value)),
                    EntryKind::Delete => Newest::Missing,
                });
            }
        }
        let guard = epoch::pin();
        let indexed = self.index.tree.get(key, &guard)?.map(|record| location(&record));
        let location = match moment {
            Moment::Now => indexed,
            // The version that it sees may have moved from the index to the map, never the other way.
            Moment::At(moment) => indexed
                .filter(|location| location.sequence <= moment)
                .or_else(|| self.index.snapshots.replaced(key, moment)),
        };
        Ok(location.map_or(Newest::Missing, Newest::InTable))
    }
}
