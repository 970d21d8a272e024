//! How many entries of a MemTable are in a range, about, without reading them all.
//!
//! One node in four of a skiplist goes one level higher, so a node of level n stands for 4^n entries. The highest level
//! that has enough of them in the range is read: some hundred nodes, by which the number is known to some per cent. If
//! even the lowest has fewer, the number is exact.

use std::ops::Bound;

use slmdb_pmem::Medium;

use super::entries::MemTableEntry;
use super::memtable::MemTable;
use super::skiplist::{BRANCHING, EntryRef};

/// So many nodes of a level are enough.
const ENOUGH: usize = 256;
/// As many are read of a level, at most. (It has [`BRANCHING`] times as many as the one above it, on average.)
const READ_MAX: usize = 8 * ENOUGH * BRANCHING;

impl<M: Medium> MemTable<M> {
    /// Entries with keys from a range, in order, each version of a key for itself; and how many each stands for. If there
    /// are no more than a few hundred, all are given, and each stands for itself.
    pub fn sample(&self, range: (Bound<&[u8]>, Bound<&[u8]>)) -> (Vec<MemTableEntry<'_>>, u64) {
        let order = self.list().heads().order();
        let from = match range.0 {
            Bound::Included(key) | Bound::Excluded(key) => Some(key),
            Bound::Unbounded => None,
        };
        let is_excluded = |key: &[u8]| range.0 == Bound::Excluded(key);
        for level in (0..self.list().height()).rev() {
            let found: Vec<EntryRef<'_>> = self
                .list()
                .level_from(level, from)
                .skip_while(|entry| is_excluded(entry.key()))
                .take_while(|entry| order.is_up_to(entry.key(), range.1))
                .take(READ_MAX)
                .collect();
            if found.len() >= ENOUGH || level == 0 {
                let entries = found.into_iter().map(|entry| MemTableEntry {
                    key: entry.key(),
                    sequence: entry.sequence(),
                    kind: entry.kind(),
                    value: entry.value(),
                });
                return (entries.collect(), (BRANCHING as u64).pow(level as u32));
            }
        }
        (Vec::new(), 1)
    }
}
