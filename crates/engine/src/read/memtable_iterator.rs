//! One MemTable as a cursor sees it: the newest version of every key that its moment covers.

use std::sync::Arc;

use slmdb_order::CycleDetector;
use slmdb_pmem::AnyMedium;
use slmdb_structures::EntryKind;
use slmdb_structures::memtable::{DeletedRanges, MemTable, MemTableCursor};

/// A position among the versions of one MemTable that are visible at a moment, at most one per key.
pub struct MemTableSource {
    cursor: MemTableCursor<AnyMedium>,
    /// The ranges that the MemTable deletes.
    deleted: Option<Arc<DeletedRanges>>,
    moment: u64,
    /// The key that is left behind, while the next one is looked for.
    passed: Vec<u8>,
    /// The keys passed on the way back, while a visible one is looked for.
    cycle_detector: CycleDetector,
    /// Whether it went round in a circle, because the comparator is no total order (INV-25). It is then on no entry.
    is_lost: bool,
}

impl MemTableSource {
    /// On no entry yet. It sees what was written up to `moment`.
    pub fn new(memtable: &Arc<MemTable<AnyMedium>>, moment: u64) -> MemTableSource {
        MemTableSource {
            cursor: memtable.cursor(),
            deleted: memtable.deleted_ranges(),
            moment,
            passed: Vec::new(),
            cycle_detector: CycleDetector::default(),
            is_lost: false,
        }
    }

    /// Whether it is on an entry.
    pub fn valid(&self) -> bool {
        self.cursor.valid() && !self.is_lost
    }

    /// The current key. REQUIRES: valid.
    pub fn key(&self) -> &[u8] {
        self.cursor.key()
    }

    /// The current entry's sequence number. REQUIRES: valid.
    pub fn sequence(&self) -> u64 {
        self.cursor.sequence()
    }

    /// Whether the current entry is a put or a delete. (A put whose range was deleted since is a delete.) REQUIRES: valid.
    pub fn kind(&self) -> EntryKind {
        let hidden_from =
            self.deleted.as_ref().and_then(|deleted| deleted.next_over(self.cursor.key(), self.cursor.sequence()));
        if hidden_from.is_some_and(|sequence| sequence <= self.moment) { EntryKind::Delete } else { self.cursor.kind() }
    }

    /// Whether the MemTable deletes a range that has a key, which hides it in whatever is older.
    pub fn hides(&self, key: &[u8]) -> bool {
        self.deleted.as_ref().is_some_and(|deleted| deleted.hide(key, self.moment))
    }

    /// Whether the MemTable deletes ranges.
    pub fn has_deleted_ranges(&self) -> bool {
        self.deleted.is_some()
    }

    /// The current entry's value. REQUIRES: valid.
    pub fn value(&self) -> &[u8] {
        self.cursor.value()
    }

    /// Moves to the first visible key at or after `key`.
    pub fn seek(&mut self, key: &[u8]) {
        self.cursor.seek(key);
        self.settle_forward();
    }

    /// Moves to the last visible key before `key`.
    pub fn seek_before(&mut self, key: &[u8]) {
        self.cursor.seek_before(key);
        self.settle_backward();
    }

    /// Moves to the first visible key.
    pub fn seek_first(&mut self) {
        self.cursor.seek_first();
        self.settle_forward();
    }

    /// Moves to the last visible key.
    pub fn seek_last(&mut self) {
        self.cursor.seek_last();
        self.settle_backward();
    }

    /// Moves to the next visible key. REQUIRES: valid.
    pub fn next(&mut self) {
        self.remember_key();
        while self.cursor.valid() && self.cursor.key() == self.passed {
            self.cursor.next();
        }
        self.settle_forward();
    }

    /// Moves to the previous visible key. REQUIRES: valid.
    pub fn prev(&mut self) {
        self.remember_key();
        self.cursor.seek_before(&self.passed);
        self.settle_backward();
    }

    fn remember_key(&mut self) {
        self.passed.clear();
        self.passed.extend_from_slice(self.cursor.key());
    }

    /// Moves on to the first visible version. Versions of a key come newest first, so the first that is not too new is
    /// the right one.
    fn settle_forward(&mut self) {
        self.is_lost = false;
        while self.cursor.valid() && self.cursor.sequence() > self.moment {
            self.cursor.next();
        }
    }

    /// Moves from any version of a key to its newest visible one, or to that of an earlier key.
    fn settle_backward(&mut self) {
        self.is_lost = false;
        self.cycle_detector.begin();
        while self.cursor.valid() {
            self.remember_key();
            if !self.cycle_detector.visit(&self.passed) {
                self.is_lost = true;
                return;
            }
            self.cursor.seek(&self.passed);
            self.settle_forward();
            if self.cursor.valid() && self.cursor.key() == self.passed {
                return;
            }
            self.cursor.seek_before(&self.passed);
        }
    }
}
