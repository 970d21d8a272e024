//! [`Snapshot`]: a store as it was at one moment.

use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use slmdb_engine::{EngineSnapshot, KeyOrder, Result, Slice};

use crate::own::Own;
use crate::range::{bounds_of, bounds_of_prefix};
use crate::{Cursor, Range};

/// The store as it was when [`Db::snapshot`](crate::Db::snapshot) was called, whatever is written, deleted, flushed or
/// compacted since. Clones are cheap and mean the same snapshot; they may be used from any number of threads at once.
///
/// It may be held for as long as one likes: writers go on, and no MemTable is kept for it. What it costs: of records that
/// it sees and that have been replaced since, each takes some hundred bytes of memory
/// ([`Stats::replaced_records_bytes`](crate::Stats::replaced_records_bytes)), and its value stays on disk. All of that is
/// given back when the last clone goes, and what cursors and iterators of it still see, when they go. It does not outlive
/// the process. As long as it is held the store's `LOCK` is, too.
///
/// ```
/// # fn main() -> slmdb::Result<()> {
/// # let directory = tempfile::tempdir().unwrap();
/// # let db = slmdb::Db::open(directory.path().join("db"))?;
/// db.put("apple", "red")?;
/// let before = db.snapshot()?;
/// db.put("apple", "green")?;
/// db.delete("pear")?;
/// assert_eq!(before.get("apple")?.as_deref(), Some(b"red".as_slice()));
/// assert_eq!(db.get("apple")?.as_deref(), Some(b"green".as_slice()));
/// assert_eq!(before.iter()?.count(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Snapshot {
    inner: Arc<Own<Arc<dyn EngineSnapshot>>>,
    sequence_number: u64,
    order: KeyOrder,
}

impl Snapshot {
    pub(crate) fn new(inner: Arc<dyn EngineSnapshot>, order: KeyOrder) -> Snapshot {
        Snapshot { sequence_number: inner.sequence_number(), inner: Arc::new(Own::new(inner)), order }
    }

    /// The number of the last write that it sees; writes are numbered from 1, each entry of a batch by itself.
    pub fn sequence_number(&self) -> u64 {
        self.sequence_number
    }

    /// The value that `key` had; as [`Db::get`](crate::Db::get).
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        self.inner.get()?.get(key.as_ref())
    }

    /// Whether `key` had a value; as [`Db::contains_key`](crate::Db::contains_key).
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.inner.get()?.contains_key(key.as_ref())
    }

    /// The entries with keys in a range, from either end; as [`Db::range`](crate::Db::range).
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<Range> {
        Ok(Range::new(self.inner.get()?.cursor()?, self.order.clone(), bounds_of(&range)))
    }

    /// The entries whose keys start with `prefix`; as [`Db::prefix`](crate::Db::prefix).
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Range> {
        let bounds = bounds_of_prefix(prefix.as_ref(), &self.order)?;
        Ok(Range::new(self.inner.get()?.cursor()?, self.order.clone(), bounds))
    }

    /// All entries; as [`Snapshot::range`].
    pub fn iter(&self) -> Result<Range> {
        Ok(Range::new(self.inner.get()?.cursor()?, self.order.clone(), (Bound::Unbounded, Bound::Unbounded)))
    }

    /// A position that moves over the entries. It may outlive the snapshot.
    pub fn cursor(&self) -> Result<Cursor> {
        Ok(Cursor::new(self.inner.get()?.cursor()?))
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Snapshot").field("sequence_number", &self.sequence_number()).finish_non_exhaustive()
    }
}
