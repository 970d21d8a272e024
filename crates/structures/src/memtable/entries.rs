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

impl<'a> MemTableEntry<'a> {
    #[inline]
    pub(super) fn of(entry: EntryRef<'a>) -> MemTableEntry<'a> {
        MemTableEntry { key: entry.key(), sequence: entry.sequence(), kind: entry.kind(), value: entry.value() }
    }
}

/// How many entries before its turn an entry is asked for.
const AHEAD: usize = 4;
/// How much of an entry is asked for, in bytes: of what is longer the beginning, and the processor goes on by itself.
const AHEAD_BYTES_MAX: usize = 2048;

/// Iterator of [`MemTable::all_entries`](super::MemTable::all_entries).
///
/// Entries lie in the arena in the order in which they came, so each is a wait for memory. The iterator has the processor
/// fetch them some entries ahead, while its caller works.
#[derive(Debug, Clone)]
pub struct AllEntries<'a> {
    next: Option<EntryRef<'a>>,
    /// The last entry that has been asked for.
    ahead: Option<EntryRef<'a>>,
}

impl<'a> AllEntries<'a> {
    /// From the first entry of a list on.
    pub(super) fn new(first: Option<EntryRef<'a>>) -> AllEntries<'a> {
        let mut entries = AllEntries { next: first, ahead: first };
        for _ in 0..AHEAD {
            entries.ask();
        }
        entries
    }

    /// Asks for the entry behind the last one that has been asked for.
    #[inline]
    fn ask(&mut self) {
        self.ahead = self.ahead.and_then(EntryRef::next);
        if let Some(ahead) = self.ahead {
            ahead.prefetch(AHEAD_BYTES_MAX);
        }
    }

    /// The next entry, which is passed.
    #[inline]
    fn pass(&mut self) -> Option<EntryRef<'a>> {
        let entry = self.next?;
        self.next = entry.next();
        self.ask();
        Some(entry)
    }
}

impl<'a> Iterator for AllEntries<'a> {
    type Item = MemTableEntry<'a>;

    fn next(&mut self) -> Option<MemTableEntry<'a>> {
        self.pass().map(MemTableEntry::of)
    }
}

/// Iterator of [`MemTable::newest_entries`](super::MemTable::newest_entries).
#[derive(Debug, Clone)]
pub struct NewestEntries<'a>(AllEntries<'a>);

impl<'a> NewestEntries<'a> {
    /// From the first entry of a list on.
    pub(super) fn new(first: Option<EntryRef<'a>>) -> NewestEntries<'a> {
        NewestEntries(AllEntries::new(first))
    }
}

impl<'a> Iterator for NewestEntries<'a> {
    type Item = MemTableEntry<'a>;

    fn next(&mut self) -> Option<MemTableEntry<'a>> {
        let newest = self.0.pass()?;
        while self.0.next.is_some_and(|older| older.is_of_same_key(newest)) {
            self.0.pass();
        }
        Some(MemTableEntry::of(newest))
    }
}
