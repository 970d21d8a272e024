//! What the keys of a MemTable are like, without reading them all: how many are in a range, and what most begin with.
//!
//! One node in four of a skiplist goes one level higher, so a node of level n stands for 4^n entries. The highest level
//! that has enough of them in the range is read: some hundred nodes, by which the number is known to some per cent. If
//! even the lowest has fewer, the number is exact.

use std::ops::Bound;

use slmdb_pmem::Medium;

use super::entries::MemTableEntry;
use super::memtable::MemTable;
use super::skiplist::{BRANCHING, EntryRef};
use super::sort::shared_length;

/// So many nodes of a level are enough.
const ENOUGH: usize = 256;
/// As many are read of a level, at most. (It has [`BRANCHING`] times as many as the one above it, on average.)
const READ_MAX: usize = 8 * ENOUGH * BRANCHING;
/// Fewer keys say little about those that come.
const TELLING: usize = 64;

/// The longest beginning that seven of eight of these keys share. Empty if they are few. REQUIRES: they are in the order of their
/// bytes.
fn usual_prefix<'k>(keys: &[&'k [u8]]) -> &'k [u8] {
    if keys.len() < TELLING {
        return &[];
    }
    let most = keys.len() - keys.len() / 8;
    // What lies between two keys shares what they do.
    let shared = |keys: &[&'k [u8]]| &keys[0][..shared_length(keys[0], keys[most - 1])];
    keys.windows(most).map(shared).max_by_key(|shared| shared.len()).unwrap_or_default()
}

impl<M: Medium> MemTable<M> {
    /// The longest beginning that seven of eight keys share, or so. Empty if there are few keys, and where keys are not ordered by bytes.
    pub fn usual_prefix(&self) -> Vec<u8> {
        if !self.list().heads().order().is_bytewise() {
            return Vec::new();
        }
        let (entries, _) = self.sample((Bound::Unbounded, Bound::Unbounded));
        let keys: Vec<_> = entries.iter().map(|entry| entry.key).collect();
        usual_prefix(&keys).to_vec()
    }

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
                let entries = found.into_iter().map(MemTableEntry::of).collect();
                return (entries, (BRANCHING as u64).pow(level as u32));
            }
        }
        (Vec::new(), 1)
    }
}
