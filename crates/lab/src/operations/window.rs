//! [`Window`]: what level 0 has between two keys, as it is seen at a moment.

use std::collections::BTreeMap;
use std::ops::Bound;

use slmdb_engine::read::ordered_key::OrderedKey;
use slmdb_env::Result;
use slmdb_order::KeyOrder;
use slmdb_pmem::Medium;
use slmdb_structures::hybrid_tree::{LeafCopy, Place, Version};

use crate::level_zero::{LevelZero, newer};

/// What the allocator adds to an allocation, about.
const ALLOCATION_BYTES: usize = 16;

/// Where a window begins, and in which direction it goes on.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WindowFrom<'k> {
    /// At the smallest key, forwards.
    First,
    /// At the largest key, backwards.
    Last,
    /// At this key, forwards.
    At(&'k [u8]),
    /// Just before this key, backwards.
    Before(&'k [u8]),
}

/// Entries of level 0 between two keys, in order, and a position among them.
#[derive(Debug, Default)]
pub(crate) struct Window {
    entries: Vec<(Vec<u8>, Version)>,
    /// The current entry. Outside of `entries`: none.
    position: Option<usize>,
    /// Nothing before this key was looked at. `None`: there is no such bound.
    low: Option<Vec<u8>>,
    /// Nothing from this key on was looked at. `None`: there is no such bound.
    high: Option<Vec<u8>>,
    copies: [LeafCopy; 2],
}

impl Window {
    /// Copies what a moment sees from a place on: one leaf of each tree, as far as the shorter of them goes. The map of
    /// replaced versions comes after the trees, since versions move that way only.
    /// LOCKS: snapshots
    pub(crate) fn load<M: Medium>(
        &mut self,
        level_zero: &LevelZero<M>,
        from: WindowFrom<'_>,
        moment: u64,
    ) -> Result<()> {
        let trees = level_zero.trees();
        let order = trees[0].order();
        let (place, is_forward) = match from {
            WindowFrom::First => (Place::First, true),
            WindowFrom::Last => (Place::Last, false),
            WindowFrom::At(key) => (Place::At(key), true),
            WindowFrom::Before(key) => (Place::Before(key), false),
        };
        (self.low, self.high) = match from {
            WindowFrom::At(key) => (Some(key.to_vec()), None),
            WindowFrom::Before(key) => (None, Some(key.to_vec())),
            WindowFrom::First | WindowFrom::Last => (None, None),
        };
        for (tree, copy) in trees.into_iter().zip(&mut self.copies) {
            // A tree without leaves ends nothing.
            if tree.copy_leaf(place, copy)? {
                if is_forward {
                    lower(&mut self.high, copy.high(), order);
                } else {
                    raise(&mut self.low, copy.low(), order);
                }
            } else {
                *copy = LeafCopy::default();
            }
        }
        self.merge(level_zero, order, moment);
        self.position = if is_forward { Some(0) } else { self.entries.len().checked_sub(1) };
        Ok(())
    }

    /// Merges the copies and the map of replaced versions within the bounds.
    fn merge<M: Medium>(&mut self, level_zero: &LevelZero<M>, order: &KeyOrder, moment: u64) {
        let low = self.low.as_deref().map_or(Bound::Unbounded, Bound::Included);
        let high = self.high.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let is_within = |key: &[u8]| {
            let is_behind_low = self.low.as_deref().is_none_or(|low| order.compare(key, low).is_ge());
            is_behind_low && order.is_up_to(key, high)
        };
        let mut found: BTreeMap<OrderedKey, Option<Version>> = BTreeMap::new();
        let mut add = |key: &[u8], version: Version| {
            let newest = found.entry(OrderedKey::new(key.into(), order)).or_default();
            *newest = newer(*newest, Some(version));
        };
        for (key, version) in self.copies.iter().flat_map(LeafCopy::iter) {
            if version.sequence <= moment && is_within(key) {
                add(key, version);
            }
        }
        for (key, version) in level_zero.snapshots.replaced_in((low, high), moment) {
            add(&key, version);
        }
        let entries = found.into_iter().filter_map(|(key, version)| Some((key.key.to_vec(), version?)));
        self.entries = entries.collect();
    }

    /// What it takes in memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let keys_bytes: usize = self.entries.iter().map(|(key, _)| key.capacity() + ALLOCATION_BYTES).sum();
        let entries_bytes = self.entries.capacity() * size_of::<(Vec<u8>, Version)>();
        keys_bytes + entries_bytes + self.copies.iter().map(LeafCopy::memory_bytes).sum::<usize>()
    }

    /// The current entry.
    pub(crate) fn current(&self) -> Option<(&[u8], Version)> {
        let (key, version) = self.entries.get(self.position?)?;
        Some((key, *version))
    }

    /// Moves on by one entry.
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

/// Lowers an upper bound to another, if that is lower.
fn lower(bound: &mut Option<Vec<u8>>, other: Option<&[u8]>, order: &KeyOrder) {
    if let Some(other) = other.filter(|other| bound.as_deref().is_none_or(|bound| order.compare(other, bound).is_lt()))
    {
        *bound = Some(other.to_vec());
    }
}

/// Raises a lower bound to another, if that is higher.
fn raise(bound: &mut Option<Vec<u8>>, other: Option<&[u8]>, order: &KeyOrder) {
    if let Some(other) = other.filter(|other| bound.as_deref().is_none_or(|bound| order.compare(other, bound).is_gt()))
    {
        *bound = Some(other.to_vec());
    }
}
