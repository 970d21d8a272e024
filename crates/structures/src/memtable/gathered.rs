//! [`Gathered`]: what a reading of an arena's log found, before a list is made of it.

use std::ops::Range;

use super::record::RecordHeader;
use super::sort::{Sortable, Sorter};

/// What a reading of the log found: every entry that counts, in the order of the sequence numbers.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// Where each entry begins in the arena; 0 for a void one.
    pub offsets: Vec<u32>,
    /// Where the slot of each entry is; empty where there are none.
    pub slots: Vec<u32>,
    /// Of the first entry; 0 while there is none.
    pub first_sequence: u64,
    /// Where the first record that counts starts; 0 while there is none.
    pub first_record: u64,
    /// The largest known-safe sequence number of a record that counts.
    pub known_safe_sequence: u64,
    /// Where in the arena there is what all keys begin with.
    pub shared: Range<usize>,
}

impl Gathered {
    #[inline]
    pub fn add(&mut self, offset: u32, slot: Option<u32>) {
        self.offsets.push(offset);
        self.slots.extend(slot);
    }

    pub fn add_record(&mut self, header: &RecordHeader, offset: u64) {
        if self.first_sequence == 0 {
            (self.first_sequence, self.first_record) = (header.first_sequence, offset);
        }
        self.known_safe_sequence = self.known_safe_sequence.max(header.known_safe_sequence);
    }

    /// Number of entries, void ones included.
    pub fn len(&self) -> u64 {
        self.offsets.len() as u64
    }

    /// Where the slot of an entry is.
    pub fn slot(&self, index: u32) -> u32 {
        self.slots.get(index as usize).copied().unwrap_or(0)
    }

    /// Every entry that is not void, its head beside it.
    fn sortables(&self, sorter: &Sorter<'_>) -> Vec<Sortable> {
        let entries = self.offsets.iter().zip(0..).filter(|&(&offset, _)| offset != 0);
        entries.map(|(&offset, index)| sorter.sortable(index, offset)).collect()
    }

    /// All entries that are not void, in the list's order, by sorting.
    pub fn sorted(&self, sorter: &Sorter<'_>) -> Vec<Sortable> {
        let mut entries = self.sortables(sorter);
        sorter.sort(&mut entries);
        entries
    }
}
