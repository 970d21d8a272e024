//! [`PoolRun`]: a list in the pool as a run of a level.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use slmdb_engine::read::merge::Source;
use slmdb_env::Result;
use slmdb_levels::{Approximation, EntrySource, Found, RunCursor, RunRecord};
use slmdb_pmem::AnyMedium;
use slmdb_structures::list::{List, ListCursor, ListRecord, Place};
use slmdb_table::{EntryKind, Slice};

use super::segments::Segments;

/// A node and its part of the index above, in bytes.
const NODE_BYTES: u64 = 18;

/// A list in the pool as a run of a level. Dropped after it has [left](PoolRun::leave) the levels it gives back its space.
pub(crate) struct PoolRun {
    list: Arc<List<AnyMedium>>,
    record: RunRecord,
    segments: Arc<Segments>,
    has_left: AtomicBool,
}

impl PoolRun {
    /// A list that is complete.
    pub(crate) fn new(list: List<AnyMedium>, segments: Arc<Segments>) -> PoolRun {
        segments.add(&list);
        let record = record_of(list.record());
        PoolRun { list: Arc::new(list), record, segments, has_left: AtomicBool::new(false) }
    }

    /// Its list.
    pub(crate) fn list(&self) -> &List<AnyMedium> {
        &self.list
    }

    /// What is known of it.
    pub(crate) fn record(&self) -> &RunRecord {
        &self.record
    }

    /// Takes note that the MANIFEST does not have it any more, or will never have it.
    pub(crate) fn leave(&self) {
        if !self.has_left.swap(true, Ordering::Relaxed) {
            self.segments.leave(self.list.record());
        }
    }

    /// See [`slmdb_levels::Run::get`].
    pub(crate) fn get(&self, key: &[u8], sequence_max: u64) -> Result<Option<Found>> {
        let found = self.list.get(key, sequence_max)?;
        Ok(found.map(|found| Found { kind: found.kind, sequence: found.sequence, value: Slice::from(found.value) }))
    }

    /// See [`slmdb_levels::Run::before`]. The number is exact, and entries are taken to be equally long.
    pub(super) fn before(&self, key: &[u8]) -> Result<Approximation> {
        let entries = self.list.rank(key)?;
        let bytes = u128::from(self.record.bytes) * u128::from(entries) / u128::from(self.record.entries.max(1));
        Ok(Approximation { entries, bytes: bytes as u64 })
    }

    /// A cursor on no entry. REQUIRES: whoever has it has the run, too.
    pub(super) fn cursor(&self) -> PoolRunCursor {
        PoolRunCursor(ListCursor::new(self.list.clone()))
    }

    /// All entries, before the first of them. REQUIRES: as for the cursor.
    pub(super) fn source(&self) -> PoolRunSource {
        PoolRunSource { cursor: ListCursor::new(self.list.clone()), has_begun: false }
    }
}

impl Drop for PoolRun {
    fn drop(&mut self) {
        if *self.has_left.get_mut() {
            self.segments.free(&self.list);
        }
    }
}

/// The record of a list. It takes a node for each entry, and the entries themselves.
pub(crate) fn record_of(list: &ListRecord) -> RunRecord {
    RunRecord {
        entries: list.entries,
        deletes: list.deletes,
        bytes: list.data_bytes + list.entries * NODE_BYTES,
        smallest_key: list.smallest_key.clone(),
        largest_key: list.largest_key.clone(),
        lowest_sequence: list.lowest_sequence,
        highest_sequence: list.highest_sequence,
        created_unix_ns: list.created_unix_ns,
    }
}

/// A position in a list.
pub(crate) struct PoolRunCursor(ListCursor<AnyMedium>);

impl RunCursor for PoolRunCursor {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.0.seek(key)
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.0.seek_before(key)
    }

    fn seek_first(&mut self) -> Result<()> {
        self.0.seek_first()
    }

    fn seek_last(&mut self) -> Result<()> {
        self.0.seek_last()
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        self.0.next()
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        self.0.prev()
    }

    #[inline]
    fn valid(&self) -> bool {
        self.0.valid()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.0.key()
    }

    #[inline]
    fn sequence(&self) -> u64 {
        self.0.sequence()
    }

    #[inline]
    fn kind(&self) -> EntryKind {
        self.0.kind()
    }

    fn value_ref(&mut self) -> Result<&[u8]> {
        self.0.value()
    }

    fn value(&mut self) -> Result<Slice> {
        self.0.value().map(Slice::from)
    }
}

/// All entries of a list.
pub(crate) struct PoolRunSource {
    cursor: ListCursor<AnyMedium>,
    has_begun: bool,
}

impl PoolRunSource {
    /// Where the current entry lies.
    pub(crate) fn place(&self) -> Option<Place> {
        self.cursor.place()
    }
}

impl Source for PoolRunSource {
    #[inline]
    fn advance(&mut self) -> Result<bool> {
        if std::mem::replace(&mut self.has_begun, true) {
            self.cursor.next()?
        } else {
            self.cursor.seek_first()?
        }
        Ok(self.cursor.valid())
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.cursor.key()
    }

    #[inline]
    fn sequence(&self) -> u64 {
        self.cursor.sequence()
    }
}

impl EntrySource for PoolRunSource {
    #[inline]
    fn kind(&self) -> EntryKind {
        self.cursor.kind()
    }

    #[inline]
    fn value_bytes(&self) -> u64 {
        self.cursor.value_bytes()
    }

    #[inline]
    fn value(&mut self) -> Result<&[u8]> {
        self.cursor.value()
    }
}
