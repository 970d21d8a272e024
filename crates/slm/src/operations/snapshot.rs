//! [`SlmSnapshot`]: the store as it was at one moment, for as long as the snapshot is held.
//!
//! A snapshot keeps its moment registered and nothing else: no MemTable, no file. [`slmdb_engine::read::snapshots`] says what
//! that means for flushes, and why every read finds its version.

use std::sync::Arc;

use slmdb_engine::read::snapshot_registry::SnapshotKind;
use slmdb_engine::{EngineCursor, EngineSnapshot};
use slmdb_env::Result;
use slmdb_pmem::Medium;
use slmdb_table::Slice;

use crate::operations::get::Moment;
use crate::operations::get::Reader;
use crate::operations::range_query::Cursor;

/// See [`EngineSnapshot`].
pub(crate) struct SlmSnapshot<M: Medium + Clone> {
    reader: Arc<Reader<M>>,
    moment: u64,
}

impl<M: Medium + Clone> SlmSnapshot<M> {
    /// A snapshot of the present moment.
    /// LOCKS: snapshots
    pub(crate) fn new(reader: Arc<Reader<M>>) -> SlmSnapshot<M> {
        let moment = reader.index.snapshots.register(SnapshotKind::Snapshot, || reader.writes.publication.published());
        SlmSnapshot { reader, moment }
    }
}

impl<M: Medium + Clone> EngineSnapshot for SlmSnapshot<M> {
    fn sequence_number(&self) -> u64 {
        self.moment
    }

    fn get(&self, key: &[u8]) -> Result<Option<Slice>> {
        self.reader.get_at(key, Moment::At(self.moment))
    }

    fn contains_key(&self, key: &[u8]) -> Result<bool> {
        self.reader.contains_key_at(key, Moment::At(self.moment))
    }

    fn cursor(&self) -> Result<Box<dyn EngineCursor>> {
        Ok(Box::new(Cursor::at(self.reader.clone(), self.moment)))
    }
}

impl<M: Medium + Clone> Drop for SlmSnapshot<M> {
    fn drop(&mut self) {
        self.reader.release(self.moment, SnapshotKind::Snapshot);
    }
}

impl<M: Medium + Clone> Reader<M> {
    /// Ends the registration of a cursor or a snapshot, and gives back what was kept for it alone.
    /// LOCKS: snapshots; those of `ObsoleteFiles::remove_unpinned`; compactions; memtables; arenas
    pub(crate) fn release(&self, moment: u64, holder: SnapshotKind) {
        let kept_bytes = self.index.snapshots.kept_bytes();
        if !self.index.snapshots.release(moment, holder).is_empty() {
            self.obsolete.remove_unpinned();
            // Versions that it saw may be garbage now, and files may be gone.
            self.reclaim.space_came_back();
        }
        // Nothing of a failed store is deleted (INV-27), and a closed one belongs to the next opening.
        let is_open = self.context.check_writable().is_ok();
        let reclaimed = if is_open { self.writes.arenas.reader_has_gone() } else { Ok(0) };
        let lists_bytes = reclaimed.unwrap_or_else(|error| {
            tracing::warn!(%error, "the arena of a flushed MemTable stays for now");
            0
        });
        self.memory.kept_freed(kept_bytes.saturating_sub(self.index.snapshots.kept_bytes()) + lists_bytes);
    }
}
