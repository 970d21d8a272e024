//! Walking a list.

use std::sync::Arc;

use slmdb_env::Result;
use slmdb_pmem::Medium;

use super::entry::{Front, MAXIMUM_SEQUENCE, Place};
use super::layout::Node;
use super::open::List;
use crate::EntryKind;
use crate::prefetch::prefetch_range;

/// The entries of a list may lie anywhere, so the processor is asked for them this many steps ahead,
const AHEAD: u64 = 4;
/// and for so many bytes of each.
const AHEAD_BYTES: usize = 128;

/// A position among all versions in a list, or on none. Key, sequence number and kind were checked when it moved there;
/// after an error it is on no entry.
pub struct ListCursor<M: Medium> {
    list: Arc<List<M>>,
    at: Option<(u64, Front)>,
    key: Vec<u8>,
}

impl<M: Medium> ListCursor<M> {
    /// A cursor on no entry.
    pub fn new(list: Arc<List<M>>) -> ListCursor<M> {
        ListCursor { list, at: None, key: Vec::new() }
    }

    /// Its list.
    pub fn list(&self) -> &Arc<List<M>> {
        &self.list
    }

    /// Moves to the first entry with a key at or after `key`: the newest version of its key.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.at = None;
        let index = self.list.land(key, MAXIMUM_SEQUENCE)?.index;
        self.go(Some(index))
    }

    /// Moves to the last entry with a key before `key`: the oldest version of its key.
    pub fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.at = None;
        let index = self.list.land(key, MAXIMUM_SEQUENCE)?.index;
        self.go(index.checked_sub(1))
    }

    /// Moves to the first entry.
    pub fn seek_first(&mut self) -> Result<()> {
        self.go(Some(0))
    }

    /// Moves to the last entry.
    pub fn seek_last(&mut self) -> Result<()> {
        self.go(self.list.record.entries.checked_sub(1))
    }

    /// Moves to the entry before which so many lie; to none if there is none. For a list that is damaged: after an error the others
    /// can be reached.
    pub fn seek_index(&mut self, index: u64) -> Result<()> {
        self.go(Some(index))
    }

    /// Moves to the next entry, and from the last one to none. On no entry it stays there.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<()> {
        let Some(index) = self.at.map(|(index, _)| index) else { return Ok(()) };
        self.ask_for(index + 1 + AHEAD);
        self.go(Some(index + 1))
    }

    /// Moves to the previous entry, and from the first one to none. On no entry it stays there.
    pub fn prev(&mut self) -> Result<()> {
        let Some(index) = self.at.map(|(index, _)| index) else { return Ok(()) };
        if let Some(ahead) = index.checked_sub(1 + AHEAD) {
            self.ask_for(ahead);
        }
        self.go(index.checked_sub(1))
    }

    /// Moves to the entry of this index; to none if there is none.
    fn go(&mut self, index: Option<u64>) -> Result<()> {
        self.at = None;
        let Some(index) = index.filter(|&index| index < self.list.record.entries) else { return Ok(()) };
        let node = self.list.node(self.list.bytes()?, index)?;
        let entry = self.list.checked_entry(&node)?;
        self.key.clear();
        self.key.extend_from_slice(entry.key);
        self.at = Some((index, entry.front));
        Ok(())
    }

    /// Asks the processor for the front of the entry of this index.
    #[inline]
    fn ask_for(&self, index: u64) {
        let Ok(bytes) = self.list.bytes() else { return };
        if let Some(node) = self.list.nodes(bytes, index, index + 1).first()
            && let Ok(start) = self.list.pool.pointer(Node::seeming_place(node), AHEAD_BYTES as u64)
        {
            prefetch_range(start, AHEAD_BYTES);
        }
    }

    /// Whether it is on an entry.
    pub fn valid(&self) -> bool {
        self.at.is_some()
    }

    /// The current key. REQUIRES: valid; else it is empty.
    pub fn key(&self) -> &[u8] {
        if self.valid() { &self.key } else { &[] }
    }

    /// The current entry's sequence number. REQUIRES: valid; else it is 0.
    pub fn sequence(&self) -> u64 {
        self.at.map_or(0, |(_, front)| front.sequence)
    }

    /// Whether the current entry is a put or a delete. REQUIRES: valid; else it is a delete.
    pub fn kind(&self) -> EntryKind {
        self.at.map_or(EntryKind::Delete, |(_, front)| front.kind)
    }

    /// The length of the current value in bytes. Reads no value. REQUIRES: valid; else it is 0.
    pub fn value_bytes(&self) -> u64 {
        self.at.map_or(0, |(_, front)| u64::from(front.value_bytes))
    }

    /// The current value, checked; empty for a delete. REQUIRES: valid; else it is empty.
    pub fn value(&self) -> Result<&[u8]> {
        self.at.as_ref().map_or(Ok(&[]), |(_, front)| front.value(&self.list.pool))
    }

    /// Where the current entry lies, for another list over it. The value is not checked. `None` on no entry.
    pub fn place(&self) -> Option<Place> {
        self.at.map(|(_, front)| front.place)
    }
}

impl<M: Medium> std::fmt::Debug for ListCursor<M> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let index = self.at.map(|(index, _)| index);
        formatter.debug_struct("ListCursor").field("list", &self.list.record.number).field("index", &index).finish()
    }
}
