//! Reading: one key, or a copy of a whole leaf for cursors. Without a lock.

use std::cmp::Ordering;
use std::ops::Range;

use slmdb_env::{Error, Result};
use slmdb_order::{KeyOrder, common_prefix_bytes};
use slmdb_pmem::Medium;
use slmdb_sync::epoch;

use super::directory::head_of;
use super::layout::{VALID_BITS, fingerprint};
use super::leaf::{Leaf, slots_of};
use super::record::{Record, Version};
use super::tree::HybridTree;

/// How often a reader may find a leaf changed under its eyes before the tree counts as damaged: more than any reader
/// meets.
const ATTEMPTS_MAX: u32 = 4096;

/// Room that a copy makes for keys before it has them, in bytes, at most.
const KEYS_BYTES_RESERVED: usize = 16 << 10;

/// Which leaf is to be copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place<'k> {
    /// The one with the lowest keys.
    First,
    /// The one with the highest keys.
    Last,
    /// The one that covers this key.
    At(&'k [u8]),
    /// The one that covers the keys just before this one.
    Before(&'k [u8]),
}

/// What a leaf had at one moment, in order. To be used again for the next leaf.
#[derive(Debug, Clone, Default)]
pub struct LeafCopy {
    bytes: Vec<u8>,
    entries: Vec<(Range<usize>, Version)>,
    low: Option<Vec<u8>>,
    high: Option<Vec<u8>>,
    /// For sorting.
    heads: Vec<(u64, usize)>,
    sorted: Vec<(Range<usize>, Version)>,
}

impl LeafCopy {
    /// How many keys it has.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// What it takes in memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let bounds_bytes: usize = [&self.low, &self.high].into_iter().flatten().map(Vec::capacity).sum();
        let entries = self.entries.capacity() + self.sorted.capacity();
        let heads_bytes = self.heads.capacity() * size_of::<(u64, usize)>();
        self.bytes.capacity() + entries * size_of::<(Range<usize>, Version)>() + heads_bytes + bounds_bytes
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How long its keys are together, in bytes.
    pub fn keys_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// A key and its version, by number from 0.
    pub fn entry(&self, index: usize) -> Option<(&[u8], Version)> {
        let (range, version) = self.entries.get(index)?;
        Some((&self.bytes[range.clone()], *version))
    }

    /// All keys with their versions, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&[u8], Version)> + ExactSizeIterator {
        self.entries.iter().map(|(range, version)| (&self.bytes[range.clone()], *version))
    }

    /// The lowest key that it covers. `None`: there is no leaf before it. [`Place::Before`] this goes on backwards.
    pub fn low(&self) -> Option<&[u8]> {
        self.low.as_deref()
    }

    /// The lowest key that it covers no more. `None`: there is no leaf behind it. [`Place::At`] this goes on forwards.
    pub fn high(&self) -> Option<&[u8]> {
        self.high.as_deref()
    }

    /// Takes the entries from this one on, which are those of a leaf, into their order.
    fn sort_from(&mut self, first: usize, order: &KeyOrder) {
        let LeafCopy { bytes, entries, heads, sorted, .. } = self;
        let entries = &mut entries[first..];
        let key = |entry: &(Range<usize>, Version)| &bytes[entry.0.clone()];
        if !order.is_bytewise() {
            return insert_in_order(entries, |left, right| order.compare(key(left), key(right)));
        }
        let Some(first) = entries.first().map(key) else { return };
        // Keys of a leaf begin alike. What follows that in their first bytes is mostly enough to sort them by.
        let mut prefix = first;
        for entry in &entries[1..] {
            while !key(entry).starts_with(prefix) {
                prefix = &prefix[..common_prefix_bytes(prefix, key(entry))];
            }
        }
        heads.clear();
        heads.extend(entries.iter().enumerate().map(|(at, entry)| (head_of(&key(entry)[prefix.len()..]), at)));
        let by_key = |left: usize, right: usize| key(&entries[left]).cmp(key(&entries[right]));
        heads.sort_unstable_by(|left, right| left.0.cmp(&right.0).then_with(|| by_key(left.1, right.1)));
        sorted.clear();
        sorted.extend(heads.iter().map(|&(_, at)| entries[at].clone()));
        entries.clone_from_slice(sorted);
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
        (self.low, self.high) = (None, None);
    }
}

/// A walk over the leaves of a tree, in order. The tree is not changed meanwhile, or only loses keys.
pub struct Leaves<'t, M: Medium> {
    tree: &'t HybridTree<M>,
    /// The lowest key of the next leaf. `None`: the first leaf.
    next: Option<Vec<u8>>,
    /// How many there still can be.
    left: u64,
}

impl<M: Medium> Leaves<'_, M> {
    /// The lowest key of the leaf that comes next. `None`: that is the first one, or the walk is at its end.
    pub fn next_key(&self) -> Option<&[u8]> {
        self.next.as_deref()
    }

    /// Copies the next leaf. Returns whether there was one. [`Error::Invalid`] if more leaves come than the tree has: then
    /// the comparator is no order, and the walk would go in a circle.
    pub fn copy_next(&mut self, copy: &mut LeafCopy) -> Result<bool> {
        let place = self.next.as_deref().map_or(Place::First, Place::At);
        if self.left == 0 || !self.tree.copy_leaf(place, copy)? {
            return Ok(false);
        }
        self.left -= 1;
        self.next = copy.high().map(<[u8]>::to_vec);
        match (&self.next, self.left) {
            (Some(_), 0) => Err(Error::invalid("the comparator is no total order")),
            (None, _) => {
                self.left = 0;
                Ok(true)
            }
            (Some(_), _) => Ok(true),
        }
    }
}

impl<M: Medium> HybridTree<M> {
    /// The leaves from the first one on.
    pub fn leaves(&self) -> Leaves<'_, M> {
        Leaves { tree: self, next: None, left: self.published.load().directory.leaves() as u64 }
    }

    /// What the tree says of a key, deletes too. Waits for nobody.
    pub fn get(&self, key: &[u8]) -> Result<Option<Version>> {
        let guard = epoch::pin();
        let fingerprint = fingerprint(key);
        for _ in 0..ATTEMPTS_MAX {
            let state = self.published.load();
            let Some(position) = state.directory.find(key, &self.order) else { return Ok(None) };
            let offset = state.directory.leaf(position);
            Leaf::prefetch(&self.pool, offset, true);
            self.pool.note_read();
            let leaf = Leaf::known(&self.pool, offset, self.number, state.epoch)?;
            let commit = leaf.commit();
            for slot in slots_of(leaf.candidates(fingerprint) & commit & VALID_BITS) {
                self.pool.note_read();
                let record = Record::at(&*self.pool, leaf.record(slot), &guard)?;
                if !record.is_intact() {
                    return Err(self.damaged(leaf.record(slot), "a record's check does not match"));
                }
                if record.key == key {
                    return Ok(Some(record.version));
                }
            }
            pause();
            if leaf.is_still(commit) {
                return Ok(None);
            }
        }
        Err(self.damaged(self.root(), "a leaf never comes to rest"))
    }

    /// Whether the tree says anything of a key, be it a delete.
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// Copies a leaf: all its keys of one moment, each with a version that it had during the call. `false`: the tree has no
    /// leaves.
    ///
    /// The leaf at a bound may cover keys on the other side of it too, once its neighbour is gone. So a cursor passes over what it
    /// has seen already. A version that was replaced has been told to the writer's `on_replaced` before the copy could miss it.
    pub fn copy_leaf(&self, place: Place<'_>, copy: &mut LeafCopy) -> Result<bool> {
        self.copy_leaves(place, 1, copy)
    }

    /// As [`HybridTree::copy_leaf`], with leaves behind it: so many together at most, and fewer if there are no more or a
    /// writer changes one. Each is of a moment of its own during the call. The processor fetches their records side by side.
    pub fn copy_leaves(&self, place: Place<'_>, most: usize, copy: &mut LeafCopy) -> Result<bool> {
        copy.clear();
        let guard = epoch::pin();
        for _ in 0..ATTEMPTS_MAX {
            let state = self.published.load();
            let directory = &state.directory;
            let first = match place {
                Place::First => directory.first(),
                Place::Last => directory.last(),
                Place::At(key) => directory.find(key, &self.order),
                Place::Before(key) => directory.find_before(key, &self.order),
            };
            let Some(first) = first else { return Ok(false) };
            // The leaves are waited for at once; then the records of each.
            self.pool.note_read();
            let positions = || std::iter::successors(Some(first), |&last| directory.next(last)).take(most);
            if most > 1 {
                positions().for_each(|position| Leaf::prefetch(&self.pool, directory.leaf(position), true));
                for position in positions().skip(1) {
                    // Whatever is wrong with it shows when it is copied.
                    let Ok(leaf) = self.leaf(directory.leaf(position), state.epoch) else { break };
                    slots_of(leaf.commit() & VALID_BITS).for_each(|slot| self.prefetch_record(leaf.record(slot)));
                }
            }
            let mut last = None;
            for position in positions() {
                let (bytes, entries) = (copy.bytes.len(), copy.entries.len());
                let copied = self.leaf(directory.leaf(position), state.epoch);
                let copied = copied.and_then(|leaf| self.add_leaf(&leaf, most, copy, &guard));
                if !matches!(copied, Ok(true)) {
                    copy.bytes.truncate(bytes);
                    copy.entries.truncate(entries);
                    // What is wrong with a later leaf is told to who comes to it.
                    if last.is_none() {
                        copied?;
                    }
                    break;
                }
                copy.sort_from(entries, &self.order);
                last = Some(position);
            }
            if let Some(last) = last {
                copy.low = directory.low(first).map(<[u8]>::to_vec);
                copy.high = directory.high(last).map(<[u8]>::to_vec);
                return Ok(true);
            }
        }
        Err(self.damaged(self.root(), "a leaf never comes to rest"))
    }

    /// Adds the entries of a leaf to a copy, which is of up to `most` leaves. False: the leaf has changed meanwhile.
    fn add_leaf(&self, leaf: &Leaf<'_>, most: usize, copy: &mut LeafCopy, guard: &epoch::Guard) -> Result<bool> {
        let commit = leaf.commit();
        slots_of(commit & VALID_BITS).for_each(|slot| self.prefetch_record(leaf.record(slot)));
        self.pool.note_read();
        // The leaves that follow have about as many keys, about as long.
        let keys = (commit & VALID_BITS).count_ones() as usize * most;
        if copy.entries.is_empty() {
            copy.entries.reserve(keys);
        }
        for slot in slots_of(commit & VALID_BITS) {
            let record = Record::intact_at(&*self.pool, leaf.record(slot), guard)?;
            if copy.bytes.is_empty() {
                copy.bytes.reserve((keys * record.key.len()).min(KEYS_BYTES_RESERVED));
            }
            let start = copy.bytes.len();
            copy.bytes.extend_from_slice(record.key);
            copy.entries.push((start..copy.bytes.len(), record.version));
        }
        pause();
        Ok(leaf.is_still(commit))
    }

    /// The records of a leaf with their offsets, as they stand there.
    pub(super) fn records_of<'g>(
        &'g self,
        leaf: &Leaf<'_>,
        commit: u64,
        guard: &'g epoch::Guard,
        records: &mut Vec<(Record<'g>, u64)>,
    ) -> Result<()> {
        records.clear();
        for slot in slots_of(commit & VALID_BITS) {
            self.prefetch_record(leaf.record(slot));
        }
        self.pool.note_read();
        for slot in slots_of(commit & VALID_BITS) {
            let offset = leaf.record(slot);
            records.push((Record::intact_at(&*self.pool, offset, guard)?, offset));
        }
        Ok(())
    }

    /// Asks for a record that will be looked at in a moment.
    #[inline]
    pub(super) fn prefetch_record(&self, offset: u64) {
        if let Ok(pointer) = self.pool.pointer(offset, 1) {
            crate::prefetch::prefetch_range(pointer, 64);
        }
    }
}

/// Sorts the records of a leaf. An order that is none gives some order, and no panic.
pub(super) fn sort(records: &mut [(Record<'_>, u64)], order: &KeyOrder) {
    if order.is_bytewise() {
        return records.sort_unstable_by(|left, right| left.0.key.cmp(right.0.key));
    }
    insert_in_order(records, |left, right| order.compare(left.0.key, right.0.key));
}

/// Sorts without a panic, whatever `compare` says.
fn insert_in_order<T>(items: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    for end in 1..items.len() {
        let mut at = end;
        while at > 0 && compare(&items[at - 1], &items[at]) == Ordering::Greater {
            items.swap(at - 1, at);
            at -= 1;
        }
    }
}

/// Where the tests hold a reader up.
#[inline(always)]
fn pause() {
    #[cfg(test)]
    super::tests::before_second_look();
}
