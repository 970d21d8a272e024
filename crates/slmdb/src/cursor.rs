//! [`Cursor`]: a position that moves over the entries of a store.

use slmdb_engine::{EngineCursor, Result, Slice};

use crate::own::Own;

/// A position in the store as it was when the cursor was made, whatever is written, flushed or deleted since.
///
/// It is on an entry ([`Cursor::valid`]) or on none: at first, beyond either end, and after an error. It keeps what it
/// sees alive (the MemTables that there were when it was made, replaced records), and the store's `LOCK`; it does not hold
/// up writers. To look at one moment for long, take a [`Snapshot`](crate::Snapshot), which keeps no MemTables, and cursors
/// of it.
pub struct Cursor {
    inner: Own<Box<dyn EngineCursor>>,
}

impl Cursor {
    pub(crate) fn new(inner: Box<dyn EngineCursor>) -> Cursor {
        Cursor { inner: Own::new(inner) }
    }

    /// To the first entry whose key is at or after `key`.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.inner.get_mut()?.seek(key.as_ref())
    }

    /// To the last entry whose key is before `key`.
    pub fn seek_before(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.inner.get_mut()?.seek_before(key.as_ref())
    }

    /// To the first entry.
    pub fn seek_first(&mut self) -> Result<()> {
        self.inner.get_mut()?.seek_first()
    }

    /// To the last entry.
    pub fn seek_last(&mut self) -> Result<()> {
        self.inner.get_mut()?.seek_last()
    }

    /// To the next entry in key order; on none it stays on none.
    #[allow(clippy::should_implement_trait)] // a cursor's step, not an iterator's
    pub fn next(&mut self) -> Result<()> {
        self.inner.get_mut()?.next()
    }

    /// To the previous entry in key order; on none it stays on none.
    pub fn prev(&mut self) -> Result<()> {
        self.inner.get_mut()?.prev()
    }

    /// Whether the cursor is on an entry.
    pub fn valid(&self) -> bool {
        self.inner.get().is_ok_and(|cursor| cursor.valid())
    }

    /// The key of the entry it is on; empty when it is on none.
    pub fn key(&self) -> &[u8] {
        self.inner.get().map_or(&[], |cursor| cursor.key())
    }

    /// The value of the entry it is on; a block is read only now. [`crate::Error::Invalid`] when it is on none.
    pub fn value(&mut self) -> Result<Slice> {
        self.inner.get_mut()?.value()
    }

    /// The value of the entry it is on, lent until the cursor moves; otherwise as [`Cursor::value`]. It is the quicker way for who looks
    /// at a value and goes on.
    pub fn value_ref(&mut self) -> Result<&[u8]> {
        self.inner.get_mut()?.value_ref()
    }
}

impl std::fmt::Debug for Cursor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Cursor").field("valid", &self.valid()).finish_non_exhaustive()
    }
}
