//! [`Window`]: what level 0 has between two keys, as it is seen at a moment.

use std::ops::{Bound, Range};

use slmdb_engine::files::location::Location;
use slmdb_engine::store::cursor::SeekTo;
use slmdb_env::Result;
use slmdb_order::{Direction, KeyOrder};
use slmdb_pmem::AnyMedium;
use slmdb_structures::EntryKind;
use slmdb_structures::hybrid_tree::{HybridTree, LeafCopy, Place, Version};

use crate::level_zero::{LevelZero, location};

/// So many leaves of each tree are copied at once, at most: more and more, as long as one window follows the other.
const LEAVES_AT_ONCE: [usize; 4] = [1, 2, 2, 4];
/// Where the keys of one window are longer together, in bytes, the next has one leaf of each tree.
const KEYS_BYTES_MAX: usize = 16 << 10;

/// Entries of level 0 between two keys, in order, and a position among them.
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// The keys of all entries, concatenated.
    keys: Vec<u8>,
    entries: Vec<Entry>,
    /// The current entry. Outside of `entries`: none.
    position: Option<usize>,
    /// Nothing before this key was looked at. `None`: there is no such bound.
    low: Option<Vec<u8>>,
    /// Nothing from this key on was looked at. `None`: there is no such bound.
    high: Option<Vec<u8>>,
    /// How many windows followed one another.
    loads: usize,
}

#[derive(Debug, Clone)]
struct Entry {
    /// Where its key is among the window's.
    key: Range<usize>,
    version: Version,
}

impl Window {
    /// Copies what a moment sees from a place on: some leaves of each tree, as far as the shorter of them goes. The map
    /// of replaced versions comes after the trees, since versions move that way only. `goes_on`: the place is where the
    /// last window ended.
    /// LOCKS: snapshots
    pub(crate) fn load(&mut self, level_zero: &LevelZero, from: SeekTo<'_>, moment: u64, goes_on: bool) -> Result<()> {
        let trees = level_zero.trees();
        let order = trees[0].order();
        let is_forward = from.direction() == Direction::Forward;
        (self.low, self.high) = match from {
            SeekTo::At(key) => (Some(key.to_vec()), None),
            SeekTo::Before(key) => (None, Some(key.to_vec())),
            SeekTo::First | SeekTo::Last => (None, None),
        };
        self.loads = if goes_on { self.loads + 1 } else { 0 };
        let has_long_keys = self.keys.len() > KEYS_BYTES_MAX;
        let leaves = LEAVES_AT_ONCE[if has_long_keys { 0 } else { self.loads.min(LEAVES_AT_ONCE.len() - 1) }];
        (self.position, self.loads) = (None, self.loads.min(LEAVES_AT_ONCE.len()));
        self.keys.clear();
        self.entries.clear();
        // What is of no use afterwards does not stay in memory: there may be thousands of cursors.
        let (mut copy, mut found) = (LeafCopy::default(), [const { Vec::new() }; 3]);
        for (tree, found) in trees.into_iter().zip(&mut found) {
            self.add_leaves(tree, from, leaves, moment, &mut copy, found)?;
        }
        let low = self.low.as_deref().map_or(Bound::Unbounded, Bound::Included);
        let high = self.high.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let [of_mutable, of_immutable, replaced] = &mut found;
        for (key, version) in level_zero.snapshots.replaced_in((low, high), moment) {
            replaced.push(add_key(&mut self.keys, &key, version));
        }
        for found in [&mut *of_mutable, &mut *of_immutable] {
            let is_beyond = |entry: &Entry| {
                let key = &self.keys[entry.key.clone()];
                if is_forward { !order.is_up_to(key, high) } else { !order.is_from(key, low) }
            };
            while found.last().is_some_and(is_beyond) {
                found.pop();
            }
            if !is_forward {
                found.reverse();
            }
        }
        if of_immutable.is_empty() {
            std::mem::swap(&mut self.entries, of_mutable);
        } else {
            merge(&self.keys, [of_mutable, of_immutable], order, &mut self.entries);
        }
        if !replaced.is_empty() {
            of_mutable.clear();
            merge(&self.keys, [&self.entries, replaced], order, of_mutable);
            std::mem::swap(&mut self.entries, of_mutable);
        }
        self.position = if is_forward { Some(0) } else { self.entries.len().checked_sub(1) };
        Ok(())
    }

    /// Copies some leaves of a tree from a place on, the nearest key first. The window ends where they end, if not before.
    fn add_leaves(
        &mut self,
        tree: &HybridTree<AnyMedium>,
        from: SeekTo<'_>,
        leaves: usize,
        moment: u64,
        copy: &mut LeafCopy,
        found: &mut Vec<Entry>,
    ) -> Result<()> {
        let order = tree.order();
        let is_forward = from.direction() == Direction::Forward;
        let mut end = match from {
            SeekTo::At(key) | SeekTo::Before(key) => Some(key.to_vec()),
            SeekTo::First | SeekTo::Last => None,
        };
        // Forwards the tree copies several leaves by itself.
        let (calls, leaves) = if is_forward { (1, leaves) } else { (leaves, 1) };
        for _ in 0..calls {
            let place = match (end.as_deref(), is_forward) {
                (None, true) => Place::First,
                (None, false) => Place::Last,
                (Some(key), true) => Place::At(key),
                (Some(key), false) => Place::Before(key),
            };
            // A tree without leaves ends nothing.
            if !tree.copy_leaves(place, leaves, copy)? {
                return Ok(());
            }
            found.reserve(copy.len());
            self.keys.reserve(copy.keys_bytes());
            // It may cover keys on the other side of its bound, too.
            let is_seen = |key: &[u8]| end.as_deref().is_some_and(|end| order.compare(key, end).is_lt() == is_forward);
            let mut add = |(key, version): (&[u8], Version)| {
                if version.sequence <= moment {
                    found.push(add_key(&mut self.keys, key, version));
                }
            };
            if is_forward {
                copy.iter().skip_while(|(key, _)| is_seen(key)).for_each(&mut add);
            } else {
                copy.iter().rev().skip_while(|(key, _)| is_seen(key)).for_each(&mut add);
            }
            let bound = if is_forward { copy.high() } else { copy.low() };
            let Some(bound) = bound else { return Ok(()) };
            end = Some(bound.to_vec());
            let is_enough = match if is_forward { &self.high } else { &self.low } {
                Some(other) => order.compare(bound, other).is_lt() != is_forward,
                None => false,
            };
            if is_enough {
                return Ok(());
            }
        }
        *(if is_forward { &mut self.high } else { &mut self.low }) = end;
        Ok(())
    }

    /// What it takes in memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let bounds_bytes: usize = [&self.low, &self.high].into_iter().flatten().map(Vec::capacity).sum();
        self.keys.capacity() + self.entries.capacity() * size_of::<Entry>() + bounds_bytes
    }

    /// The current entry.
    #[inline]
    pub(crate) fn current(&self) -> Option<(&[u8], Version)> {
        self.entries.get(self.position?).map(|entry| (&self.keys[entry.key.clone()], entry.version))
    }

    /// The current entry and those behind it that are no deletes, in key order, each with where its value lies.
    #[inline]
    pub(crate) fn puts_forward(&self) -> impl Iterator<Item = (&[u8], Location)> + Clone {
        let behind = self.position.and_then(|position| self.entries.get(position..)).unwrap_or_default();
        behind.iter().filter_map(|entry| self.put(entry))
    }

    /// The same of those before it, the nearest first.
    #[inline]
    pub(crate) fn puts_backward(&self) -> impl Iterator<Item = (&[u8], Location)> + Clone {
        let before = self.position.and_then(|position| self.entries.get(..=position)).unwrap_or_default();
        before.iter().rev().filter_map(|entry| self.put(entry))
    }

    #[inline]
    fn put(&self, entry: &Entry) -> Option<(&[u8], Location)> {
        let is_put = entry.version.kind == EntryKind::Put;
        is_put.then(|| (&self.keys[entry.key.clone()], location(&entry.version)))
    }

    /// Moves on by one entry.
    #[inline]
    pub(crate) fn pass(&mut self, is_forward: bool) {
        self.position = self.position.and_then(|at| if is_forward { Some(at + 1) } else { at.checked_sub(1) });
    }

    /// Nothing before this key was looked at. `None`: there is nothing before.
    pub(crate) fn low(&self) -> Option<&[u8]> {
        self.low.as_deref()
    }

    /// Nothing from this key on was looked at. `None`: there is nothing behind.
    pub(crate) fn high(&self) -> Option<&[u8]> {
        self.high.as_deref()
    }
}

/// Adds a key to those of a window.
#[inline]
fn add_key(keys: &mut Vec<u8>, key: &[u8], version: Version) -> Entry {
    let start = keys.len();
    keys.extend_from_slice(key);
    Entry { key: start..keys.len(), version }
}

/// Merges entries that are in order. Of two versions of a key the newer stays. It does not sort, because sorting may
/// panic if a comparator is no total order (INV-25).
fn merge(keys: &[u8], [left, right]: [&[Entry]; 2], order: &KeyOrder, merged: &mut Vec<Entry>) {
    merged.reserve_exact(left.len() + right.len());
    let mut right = right.iter().peekable();
    for entry in left {
        let compare = |other: &Entry| order.compare(&keys[other.key.clone()], &keys[entry.key.clone()]);
        while let Some(before) = right.next_if(|other| compare(other).is_lt()) {
            merged.push(before.clone());
        }
        match right.next_if(|other| compare(other).is_eq()) {
            Some(other) if other.version.sequence > entry.version.sequence => merged.push(other.clone()),
            _ => merged.push(entry.clone()),
        }
    }
    merged.extend(right.cloned());
}
