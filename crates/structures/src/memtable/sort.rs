//! Bringing the entries of an arena into the list's order without a list.
//!
//! A [`Sortable`] is 16 bytes: the head of an entry's key, then which entry it is. Most of the work is thus sorting numbers,
//! and touches no key. Entries whose heads are equal are told apart by what follows in their keys, eight bytes at a time;
//! versions of one key need nothing: the later entry, which comes first in the list, has the smaller number already.
//!
//! Under a comparator whole keys are compared, by a merge sort of our own: the standard library's may panic on a comparator
//! that is no total order.

use std::cmp::Ordering;

use super::key_heads::{Heads, head_of};
use crate::log::{ENTRY_HEADER_BYTES, entry_lengths};

/// Up to this many entries with equal heads are sorted by comparing keys.
const FEW: usize = 24;

/// An entry to be sorted. Numbers order as entries do, as far as the head goes: head ascending, then entry descending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Sortable(u128);

impl Sortable {
    /// The entry that is the `index`th of its log and begins at this offset of the arena.
    #[inline]
    pub fn new(head: u64, index: u32, offset: u32) -> Sortable {
        Sortable(u128::from(head) << 64 | u128::from(!(u64::from(index) << 32 | u64::from(offset))))
    }

    #[inline]
    pub fn head(self) -> u64 {
        (self.0 >> 64) as u64
    }

    fn with_head(self, head: u64) -> Sortable {
        Sortable(u128::from(head) << 64 | u128::from(self.0 as u64))
    }

    #[inline]
    pub fn index(self) -> u32 {
        (!(self.0 as u64) >> 32) as u32
    }

    #[inline]
    pub fn offset(self) -> u32 {
        !(self.0 as u64) as u32
    }
}

/// The arena that the entries are in, and their order.
#[derive(Clone, Copy)]
pub(super) struct Sorter<'a> {
    pub bytes: &'a [u8],
    pub heads: &'a Heads,
}

impl<'a> Sorter<'a> {
    /// An entry with its head. REQUIRES: an entry begins at this offset.
    #[inline]
    pub fn sortable(&self, index: u32, offset: u32) -> Sortable {
        Sortable::new(self.heads.head_of(self.key(offset)), index, offset)
    }

    #[inline]
    fn key(&self, offset: u32) -> &'a [u8] {
        let (key_length, _) = entry_lengths(self.bytes, offset as usize);
        &self.bytes[offset as usize + ENTRY_HEADER_BYTES..][..key_length]
    }

    /// How two entries stand in the list's order: by key, the later one of a key first.
    pub fn compare(&self, one: Sortable, other: Sortable) -> Ordering {
        let by_head = one.head().cmp(&other.head());
        by_head.then_with(|| {
            let by_key = self.heads.order().compare(self.key(one.offset()), self.key(other.offset()));
            by_key.then(other.index().cmp(&one.index()))
        })
    }

    /// Sorts entries into the list's order.
    pub fn sort(&self, entries: &mut Vec<Sortable>) {
        if !self.heads.order().is_bytewise() {
            return merge_sort(entries, |one, other| self.compare(*one, *other).is_lt());
        }
        entries.sort_unstable();
        // Where most keys share a prefix, those that don't have the outermost heads, which say nothing about them.
        let telling = 1..u64::MAX;
        let compared = self.heads.prefix().len() + size_of::<u64>();
        for run in entries.chunk_by_mut(|one, other| one.head() == other.head()) {
            if run.len() > 1 {
                let compared = if telling.contains(&run[0].head()) { compared } else { 0 };
                self.sort_run(run, compared);
            }
        }
    }

    /// Sorts entries with equal heads, whose keys are equal in their first `compared` bytes, as far as they go: where one ends
    /// before, the others have zeros.
    fn sort_run(&self, run: &mut [Sortable], compared: usize) {
        let Some(head) = run.first().map(|entry| entry.head()) else { return };
        // No recursion: keys may make it as deep as they are long.
        let mut parts = vec![(0..run.len(), compared)];
        while let Some((part, compared)) = parts.pop() {
            let entries = &mut run[part.clone()];
            if entries.len() <= FEW {
                entries.sort_unstable_by(|one, other| self.compare(*one, *other));
                continue;
            }
            let (going_on, compared) = self.sort_further(entries, compared);
            let mut start = part.start + going_on;
            for part in run[start..part.end].chunk_by(|one, other| one.head() == other.head()) {
                if part.len() > 1 {
                    parts.push((start..start + part.len(), compared));
                }
                start += part.len();
            }
        }
        run.iter_mut().for_each(|entry| *entry = entry.with_head(head));
    }

    /// One step of [`sort_run`](Sorter::sort_run): brings the keys that end within `compared` bytes to the front, in their final
    /// order, and sorts the others by the next eight bytes in which they differ, which become their heads. Returns
    /// how many there are in front, and how far the others are compared now.
    fn sort_further(&self, entries: &mut [Sortable], compared: usize) -> (usize, usize) {
        // A key that ends here is a prefix of those that do not. Of the same key the later entry comes first already,
        // which a stable sort keeps.
        entries.sort_by_key(|entry| self.key(entry.offset()).len().min(compared + 1));
        let ended = entries.partition_point(|entry| self.key(entry.offset()).len() <= compared);
        let going_on = &mut entries[ended..];
        let Some(first) = going_on.first() else { return (ended, compared) };
        // What these share beyond needs no sorting.
        let first_key = self.key(first.offset());
        let shared = going_on.iter().fold(first_key.len(), |shared, entry| {
            let key = self.key(entry.offset());
            let shared = shared.min(key.len());
            compared + shared_length(&first_key[compared..shared], &key[compared..shared])
        });
        for entry in going_on.iter_mut() {
            *entry = entry.with_head(head_of(&self.key(entry.offset())[shared..]));
        }
        going_on.sort_unstable();
        (ended, shared + size_of::<u64>())
    }
}

/// How many bytes two strings begin with in common.
pub(super) fn shared_length(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

/// Sorts, stably, by any relation whatever: one that is no order gives some permutation.
pub(super) fn merge_sort<T: Copy>(items: &mut Vec<T>, is_before: impl Fn(&T, &T) -> bool) {
    let mut merged = Vec::with_capacity(items.len());
    let mut run = 1;
    while run < items.len() {
        merged.clear();
        for pair in items.chunks(2 * run) {
            let (left, right) = pair.split_at(run.min(pair.len()));
            merge_into(&mut merged, left, right, &is_before);
        }
        std::mem::swap(items, &mut merged);
        run *= 2;
    }
}

/// Appends two sorted sequences, merged. Of equal items the left one's comes first.
pub(super) fn merge_into<T: Copy>(
    merged: &mut Vec<T>,
    mut left: &[T],
    mut right: &[T],
    is_before: impl Fn(&T, &T) -> bool,
) {
    while let ([first_left, ..], [first_right, ..]) = (left, right) {
        if is_before(first_right, first_left) {
            merged.push(*first_right);
            right = &right[1..];
        } else {
            merged.push(*first_left);
            left = &left[1..];
        }
    }
    merged.extend_from_slice(left);
    merged.extend_from_slice(right);
}

#[cfg(test)]
mod tests;
