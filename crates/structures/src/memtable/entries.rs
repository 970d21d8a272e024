//! What a MemTable gives to its readers.

use super::skiplist::EntryRef;
use crate::EntryKind;

/// The version of a key that [`MemTable::get`](super::MemTable::get) found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found<'a> {
    /// Put, or a delete that hides whatever is older.
    pub kind: EntryKind,
    /// The version's sequence number.
    pub sequence: u64,
    /// The value, in the arena; empty for a delete.
    pub value: &'a [u8],
}

/// One version of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemTableEntry<'a> {
    /// The whole key, in the arena.
    pub key: &'a [u8],
    /// Its sequence number.
    pub sequence: u64,
    /// Put or delete.
    pub kind: EntryKind,
    /// The value, in the arena; empty for a delete.
    pub value: &'a [u8],
}

/// Iterator of [`MemTable::all_entries`](super::MemTable::all_entries).
#[derive(Debug, Clone)]
pub struct AllEntries<'a> {
    next: Option<EntryRef<'a>>,
}

impl<'a> AllEntries<'a> {
    /// From the first entry of a list on.
    pub(super) fn new(first: Option<EntryRef<'a>>) -> AllEntries<'a> {
        AllEntries { next: first }
    }
}

impl<'a> Iterator for AllEntries<'a> {
    type Item = MemTableEntry<'a>;

    fn next(&mut self) -> Option<MemTableEntry<'a>> {
        let entry = self.next?;
        self.next = entry.next();
        Some(MemTableEntry { key: entry.key(), sequence: entry.sequence(), kind: entry.kind(), value: entry.value() })
    }
}

/// Iterator of [`MemTable::newest_entries`](super::MemTable::newest_entries).
#[derive(Debug, Clone)]
pub struct NewestEntries<'a> {
    next: Option<EntryRef<'a>>,
}

impl<'a> NewestEntries<'a> {
    /// From the first entry of a list on.
    pub(super) fn new(first: Option<EntryRef<'a>>) -> NewestEntries<'a> {
        NewestEntries { next: first }
    }
}

impl<'a> Iterator for NewestEntries<'a> {
    type Item = MemTableEntry<'a>;

    fn next(&mut self) -> Option<MemTableEntry<'a>> {
        let newest = self.next?;
        let key = newest.key();
        let mut following = newest.next();
        while following.is_some_and(|older| older.key() == key) {
            following = following.and_then(EntryRef::next);
        }
        self.next = following;
        Some(MemTableEntry { key, sequence: newest.sequence(), kind: newest.kind(), value: newest.value() })
    }
}
