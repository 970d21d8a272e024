//! Walking a list.

use std::sync::Arc;

use slmdb_env::Result;
use slmdb_pmem::Medium;

use super::entry::Place;
use super::open::List;
use crate::EntryKind;

/// A position among all versions in a list, or on none. Key, sequence number and kind were checked when it moved there;
/// after an error it is on no entry.
pub struct ListCursor<M: Medium> {
    list: Arc<List<M>>,
}

impl<M: Medium> ListCursor<M> {
    /// A cursor on no entry.
    pub fn new(list: Arc<List<M>>) -> ListCursor<M> {
        ListCursor { list }
    }

    /// Its list.
    pub fn list(&self) -> &Arc<List<M>> {
        &self.list
    }

    /// Moves to the first entry with a key at or after `key`: the newest version of its key.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        let _ = key;
        todo!()
    }

    /// Moves to the last entry with a key before `key`: the oldest version of its key.
    pub fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let _ = key;
        todo!()
    }

    /// Moves to the first entry.
    pub fn seek_first(&mut self) -> Result<()> {
        todo!()
    }

    /// Moves to the last entry.
    pub fn seek_last(&mut self) -> Result<()> {
        todo!()
    }

    /// Moves to the next entry, and from the last one to none. On no entry it stays there.
    pub fn next(&mut self) -> Result<()> {
        todo!()
    }

    /// Moves to the previous entry, and from the first one to none. On no entry it stays there.
    pub fn prev(&mut self) -> Result<()> {
        todo!()
    }

    /// Whether it is on an entry.
    pub fn valid(&self) -> bool {
        todo!()
    }

    /// The current key. REQUIRES: valid; else it is empty.
    pub fn key(&self) -> &[u8] {
        todo!()
    }

    /// The current entry's sequence number. REQUIRES: valid.
    pub fn sequence(&self) -> u64 {
        todo!()
    }

    /// Whether the current entry is a put or a delete. REQUIRES: valid.
    pub fn kind(&self) -> EntryKind {
        todo!()
    }

    /// The length of the current value in bytes. Reads no value. REQUIRES: valid.
    pub fn value_bytes(&self) -> u64 {
        todo!()
    }

    /// The current value, checked; empty for a delete. REQUIRES: valid.
    pub fn value(&self) -> Result<&[u8]> {
        todo!()
    }

    /// Where the current entry lies, for another list over it. The value is not checked. REQUIRES: valid.
    pub fn place(&self) -> Place {
        todo!()
    }
}
