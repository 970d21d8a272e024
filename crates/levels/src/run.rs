//! [`Run`]: a sorted list of entries that never changes.
//!
//! Entries are in key order, versions of one key newest first. All versions of a key that a level has are in one run of
//! it (level 0 aside).

use std::sync::Arc;

use slmdb_engine::read::merge::Source;
use slmdb_env::Result;
use slmdb_table::{EntryKind, Slice};

use crate::version::Approximation;

/// What is known of a run without reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRecord {
    /// All entries in it, deletes included.
    pub entries: u64,
    /// The deletes among them. A table file does not count those that a newer version stands before.
    pub deletes: u64,
    /// What it takes where it lies, in bytes.
    pub bytes: u64,
    /// The smallest key in it, in the store's order.
    pub smallest_key: Arc<[u8]>,
    /// The largest key in it.
    pub largest_key: Arc<[u8]>,
    /// The lowest sequence number in it.
    pub lowest_sequence: u64,
    /// The highest sequence number in it.
    pub highest_sequence: u64,
    /// When it was made, in nanoseconds since 1970 UTC.
    pub created_unix_ns: u64,
}

/// A version of a key that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Whether it sets the key or removes it.
    pub kind: EntryKind,
    /// Its sequence number.
    pub sequence: u64,
    /// The value; empty for a delete.
    pub value: Slice,
}

/// A sorted list of entries that never changes.
pub trait Run: Send + Sync + 'static {
    /// A position in the run.
    type Cursor: RunCursor;
    /// The run's entries from the first to the last.
    type Source: EntrySource;

    /// Its number. No two runs of a store have the same, and none is used again.
    fn number(&self) -> u32;

    /// What is known of it.
    fn record(&self) -> &RunRecord;

    /// Whether it is a table file. The MANIFEST has others among its lists.
    fn is_file(&self) -> bool {
        true
    }

    /// The newest version of `key` up to this sequence number. Deletes are found, too.
    fn get(&self, key: &[u8], sequence_max: u64) -> Result<Option<Found>>;

    /// A cursor on no entry.
    fn cursor(self: &Arc<Self>) -> Result<Self::Cursor>;

    /// All entries, before the first of them. For merging: of a file so many bytes are read at a time.
    fn source(self: &Arc<Self>, window_bytes: usize) -> Result<Self::Source>;

    /// How much stands before `key`, about.
    fn before(&self, key: &[u8]) -> Result<Approximation>;
}

/// A position among all versions in a run. After an error it is on no entry.
pub trait RunCursor: Send {
    /// Moves to the first entry with a key at or after `key`: the newest version of its key.
    fn seek(&mut self, key: &[u8]) -> Result<()>;
    /// Moves to the last entry with a key before `key`: the oldest version of its key.
    fn seek_before(&mut self, key: &[u8]) -> Result<()>;
    /// Moves to the first entry.
    fn seek_first(&mut self) -> Result<()>;
    /// Moves to the last entry.
    fn seek_last(&mut self) -> Result<()>;
    /// Moves to the next entry, and from the last one to none. REQUIRES: valid.
    fn next(&mut self) -> Result<()>;
    /// Moves to the previous entry, and from the first one to none. REQUIRES: valid.
    fn prev(&mut self) -> Result<()>;
    /// Whether it is on an entry.
    fn valid(&self) -> bool;
    /// The current key. REQUIRES: valid.
    fn key(&self) -> &[u8];
    /// The current entry's sequence number. REQUIRES: valid.
    fn sequence(&self) -> u64;
    /// Whether the current entry is a put or a delete. REQUIRES: valid.
    fn kind(&self) -> EntryKind;
    /// The current value, lent until the cursor moves; empty for a delete. REQUIRES: valid.
    fn value_ref(&mut self) -> Result<&[u8]>;
    /// The same, shared. REQUIRES: valid.
    fn value(&mut self) -> Result<Slice>;
}

/// Entries for a [merge](crate::merge()). A run gives one. So does a chunk of whatever an engine has above its levels.
pub trait EntrySource: Source {
    /// Whether the current entry is a put or a delete.
    fn kind(&self) -> EntryKind;
    /// The current value's length in bytes. Reads no value.
    fn value_bytes(&self) -> u64;
    /// The current value, lent until the source advances; empty for a delete. Only this reads it.
    fn value(&mut self) -> Result<&[u8]>;
}

impl<S: EntrySource + ?Sized> EntrySource for Box<S> {
    #[inline]
    fn kind(&self) -> EntryKind {
        (**self).kind()
    }

    #[inline]
    fn value_bytes(&self) -> u64 {
        (**self).value_bytes()
    }

    #[inline]
    fn value(&mut self) -> Result<&[u8]> {
        (**self).value()
    }
}
