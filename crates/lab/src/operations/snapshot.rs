//! [`LabSnapshot`]: the store as it was at one moment, for as long as the snapshot is held.

use std::sync::Arc;

use slmdb_engine::read::snapshot_registry::SnapshotKind;
use slmdb_engine::{EngineCursor, EngineSnapshot};
use slmdb_env::Result;
use slmdb_pmem::Medium;
use slmdb_table::Slice;

use super::get::{Moment, Reader};
use super::range_query::Cursor;

/// See [`EngineSnapshot`]. It keeps its moment registered and nothing else.
pub(crate) struct LabSnapshot<M: Medium + Clone> {
    reader: Arc<Reader<M>>,
    moment: u64,
}

impl<M: Medium + Clone> LabSnapshot<M> {
    /// A snapshot of the present moment.
    /// LOCKS: snapshots
    pub(crate) fn new(reader: Arc<Reader<M>>) -> LabSnapshot<M> {
        let published = || reader.writes.publication.published();
        let moment = reader.level_zero.snapshots.register(SnapshotKind::Snapshot, published);
        LabSnapshot { reader, moment }
    }
}

impl<M: Medium + Clone> EngineSnapshot for LabSnapshot<M> {
    fn sequence_number(&self) -> u64 {
        self.moment
    }

    fn get(&self, key: &[u8]) -> Result<Option<Slice>> {
        self.reader.get(key, Moment::At(self.moment))
    }

    fn contains_key(&self, key: &[u8]) -> Result<bool> {
        self.reader.contains_key(key, Moment::At(self.moment))
    }

    fn cursor(&self) -> Result<Box<dyn EngineCursor>> {
        Ok(Box::new(Cursor::at(self.reader.clone(), self.moment)))
    }
}

impl<M: Medium + Clone> Drop for LabSnapshot<M> {
    fn drop(&mut self) {
        self.reader.release(self.moment, SnapshotKind::Snapshot, 0);
    }
}
