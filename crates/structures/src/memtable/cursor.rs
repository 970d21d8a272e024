//! A place in a MemTable that can be moved both ways.
//!
//! It shows every version of every key, key ascending and newest first, published or not: which of them count is for
//! the reader to say, which knows the sequence number up to which it looks. It owns its MemTable, so it may outlive the
//! flush that retires it; an entry it stands on never moves. Going back costs a search, as in LevelDB: the list has no
//! links backwards.

use std::fmt;
use std::sync::Arc;

use slmdb_pmem::Medium;

use super::entries::MemTableEntry;
use super::memtable::MemTable;
use super::skiplist::{DetachedEntry, EntryRef};
use crate::EntryKind;

/// A cursor over a MemTable; see the module.
pub struct MemTableCursor<M: Medium> {
    memtable: Arc<MemTable<M>>,
    /// Of this MemTable's list.
    place: Option<DetachedEntry>,
}

impl<M: Medium> MemTable<M> {
    /// A cursor over all versions of all keys, which keeps the MemTable alive. It is nowhere until it is moved.
    pub fn cursor(self: &Arc<Self>) -> MemTableCursor<M> {
        MemTableCursor { memtable: Arc::clone(self), place: None }
    }
}

impl<M: Medium> MemTableCursor<M> {
    /// Whether it stands on an entry. It does not at first, and after a move beyond either end.
    pub fn valid(&self) -> bool {
        self.place.is_some()
    }

    /// To the newest version of the first key that is `key` or larger.
    pub fn seek(&mut self, key: &[u8]) {
        self.stand_on(self.memtable.list().first_from(key, u64::MAX).map(EntryRef::detach));
    }

    /// To the newest version of `key` not above `at_most_sequence`, or else to the first entry of the next key.
    pub fn seek_version(&mut self, key: &[u8], at_most_sequence: u64) {
        self.stand_on(self.memtable.list().first_from(key, at_most_sequence).map(EntryRef::detach));
    }

    /// To the oldest version of the last key that is smaller than `key`.
    pub fn seek_before(&mut self, key: &[u8]) {
        self.stand_on(self.memtable.list().last_before(key, u64::MAX).map(EntryRef::detach));
    }

    /// To the first entry: the newest version of the smallest key.
    pub fn seek_first(&mut self) {
        self.stand_on(self.memtable.list().first().map(EntryRef::detach));
    }

    /// To the last entry: the oldest version of the largest key.
    pub fn seek_last(&mut self) {
        self.stand_on(self.memtable.list().last().map(EntryRef::detach));
    }

    /// To the following entry: an older version of the same key, or the newest of the next. Stays nowhere if it is.
    pub fn next(&mut self) {
        self.stand_on(self.entry_ref().and_then(EntryRef::next).map(EntryRef::detach));
    }

    /// To the preceding entry: a newer version of the same key, or the oldest of the key before. Stays nowhere if it is.
    pub fn prev(&mut self) {
        let before = self.entry_ref().and_then(|here| self.memtable.list().last_before(here.key(), here.sequence()));
        self.stand_on(before.map(EntryRef::detach));
    }

    /// The key it stands on. Panics when not [`valid`](MemTableCursor::valid).
    pub fn key(&self) -> &[u8] {
        self.here().key()
    }

    /// The sequence number it stands on. Panics when not [`valid`](MemTableCursor::valid).
    pub fn sequence(&self) -> u64 {
        self.here().sequence()
    }

    /// Put or delete. Panics when not [`valid`](MemTableCursor::valid).
    pub fn kind(&self) -> EntryKind {
        self.here().kind()
    }

    /// The value, empty for a delete. Panics when not [`valid`](MemTableCursor::valid).
    pub fn value(&self) -> &[u8] {
        self.here().value()
    }

    /// All of it, or `None` when not [`valid`](MemTableCursor::valid).
    pub fn entry(&self) -> Option<MemTableEntry<'_>> {
        self.entry_ref().map(MemTableEntry::of)
    }

    /// The MemTable it is in.
    pub fn memtable(&self) -> &Arc<MemTable<M>> {
        &self.memtable
    }

    /// Moves to an entry, which will be read.
    fn stand_on(&mut self, place: Option<DetachedEntry>) {
        self.place = place;
        if place.is_some() {
            self.memtable.arena().note_read();
        }
    }

    fn here(&self) -> EntryRef<'_> {
        self.entry_ref().expect("the cursor stands on no entry")
    }

    fn entry_ref(&self) -> Option<EntryRef<'_>> {
        // SAFETY: a cursor's place is only ever set from its own MemTable's list.
        self.place.map(|place| unsafe { place.attach(self.memtable.list()) })
    }
}

impl<M: Medium> Clone for MemTableCursor<M> {
    fn clone(&self) -> Self {
        MemTableCursor { memtable: Arc::clone(&self.memtable), place: self.place }
    }
}

impl<M: Medium> fmt::Debug for MemTableCursor<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemTableCursor").field("entry", &self.entry()).finish_non_exhaustive()
    }
}
