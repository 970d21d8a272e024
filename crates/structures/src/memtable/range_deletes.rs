//! The ranges that a MemTable deletes.
//!
//! The delete of a range hides every version of a key in it with a smaller sequence number, in its own MemTable and in
//! everything older. It is in no list of entries: readers ask [`DeletedRanges`] beside them. Most MemTables have none,
//! and say so with one load.
//!
//! The ranges are cut where one of them begins or ends. All keys between two cuts are in the same ranges. Of these the
//! smallest and the largest number are kept, which answer nearly every question; else all ranges are looked through.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};

use slmdb_order::KeyOrder;
use slmdb_sync::scheduled::atomic::AtomicU64;
use slmdb_sync::scheduled::{ArcSwap, Mutex};

use super::sort::merge_sort;
use crate::log::{KeyBounds, bytes_of_bounds};

/// A range, and the number of its delete: it hides versions with smaller ones.
#[derive(Debug, Clone)]
pub struct DeletedRange {
    from: Bound<Arc<[u8]>>,
    to: Bound<Arc<[u8]>>,
    /// That of the void entry before it in the log.
    pub sequence: u64,
}

impl DeletedRange {
    pub(super) fn new((from, to): KeyBounds<'_>, sequence: u64) -> DeletedRange {
        DeletedRange { from: from.map(Arc::from), to: to.map(Arc::from), sequence }
    }

    /// Its bounds.
    pub fn bounds(&self) -> KeyBounds<'_> {
        (self.from.as_ref().map(|key| &**key), self.to.as_ref().map(|key| &**key))
    }
}

/// A place between keys: before a key or behind it. `None`: before all keys.
type Place = Option<(Arc<[u8]>, bool)>;

/// Where ranges begin or end, up to the next such place.
#[derive(Debug)]
struct Cut {
    at: Place,
    /// The smallest and the largest number of a range there; 0 if there is none.
    oldest: u64,
    newest: u64,
}

/// Some deleted ranges, which don't change.
#[derive(Debug, Default)]
pub struct DeletedRanges {
    order: KeyOrder,
    /// Their numbers ascend.
    all: Vec<DeletedRange>,
    cuts: Vec<Cut>,
}

impl DeletedRanges {
    fn new(order: KeyOrder, mut all: Vec<DeletedRange>) -> DeletedRanges {
        all.sort_unstable_by_key(|range| range.sequence);
        // Each place, the number of the range that begins or ends there, and which of both.
        let mut places: Vec<(Place, u64, bool)> = Vec::with_capacity(2 * all.len());
        for range in &all {
            let begins = match &range.from {
                Bound::Included(key) => Some((key.clone(), false)),
                Bound::Excluded(key) => Some((key.clone(), true)),
                Bound::Unbounded => None,
            };
            let ends = match &range.to {
                Bound::Included(key) => Some((key.clone(), true)),
                Bound::Excluded(key) => Some((key.clone(), false)),
                Bound::Unbounded => {
                    places.push((begins, range.sequence, true));
                    continue;
                }
            };
            if compare_places(&order, &begins, &ends).is_lt() {
                places.push((begins, range.sequence, true));
                places.push((ends, range.sequence, false));
            }
        }
        // Not the standard library's: the comparator may be no total order.
        let mut ordered: Vec<usize> = (0..places.len()).collect();
        merge_sort(&mut ordered, |&one, &other| compare_places(&order, &places[one].0, &places[other].0).is_lt());
        let (mut cuts, mut here): (Vec<Cut>, _) = (Vec::new(), BTreeSet::new());
        for place in ordered {
            let (at, sequence, begins) = places[place].clone();
            if begins {
                here.insert(sequence);
            } else {
                here.remove(&sequence);
            }
            let cut = Cut { at, oldest: here.first().copied().unwrap_or(0), newest: here.last().copied().unwrap_or(0) };
            match cuts.last_mut() {
                Some(last) if compare_places(&order, &last.at, &cut.at).is_eq() => *last = cut,
                _ => cuts.push(cut),
            }
        }
        DeletedRanges { order, all, cuts }
    }

    /// All of them, by their numbers.
    pub fn all(&self) -> &[DeletedRange] {
        &self.all
    }

    /// The smallest number above this one of a range that has the key. A version with this number is hidden from there on.
    #[inline]
    pub fn next_over(&self, key: &[u8], sequence: u64) -> Option<u64> {
        let cut = self.cuts[..self.cuts.partition_point(|cut| self.is_at_or_before(&cut.at, key))].last()?;
        if cut.newest <= sequence {
            return None;
        }
        if cut.oldest > sequence {
            return Some(cut.oldest);
        }
        let newer = &self.all[self.all.partition_point(|range| range.sequence <= sequence)..];
        newer.iter().find(|range| self.has(range, key)).map(|range| range.sequence)
    }

    /// Whether one of them has this number.
    pub fn has_number(&self, sequence: u64) -> bool {
        self.all.binary_search_by_key(&sequence, |range| range.sequence).is_ok()
    }

    /// The order of their keys.
    pub fn order(&self) -> &KeyOrder {
        &self.order
    }

    /// The keys that are in ranges with a number of at least this: spans that do not touch, in the order of keys.
    pub fn spans(&self, from_sequence: u64) -> Vec<KeyBounds<'_>> {
        let mut spans: Vec<KeyBounds<'_>> = Vec::new();
        let mut begun = None;
        for cut in &self.cuts {
            let is_within = cut.newest >= from_sequence.max(1);
            match begun {
                None if is_within => begun = Some(&cut.at),
                Some(from) if !is_within => {
                    spans.push((beginning_at(from), end_at(&cut.at)));
                    begun = None;
                }
                _ => {}
            }
        }
        spans.extend(begun.map(|from| (beginning_at(from), Bound::Unbounded)));
        spans
    }

    /// Whether one of them hides, at this moment, what is older than all of them.
    #[inline]
    pub fn hide(&self, key: &[u8], moment: u64) -> bool {
        self.next_over(key, 0).is_some_and(|sequence| sequence <= moment)
    }

    fn is_at_or_before(&self, place: &Place, key: &[u8]) -> bool {
        place.as_ref().is_none_or(|(at, is_behind)| match self.order.compare(at, key) {
            Ordering::Less => true,
            Ordering::Equal => !is_behind,
            Ordering::Greater => false,
        })
    }

    fn has(&self, range: &DeletedRange, key: &[u8]) -> bool {
        let (from, to) = range.bounds();
        self.order.is_from(key, from) && self.order.is_up_to(key, to)
    }

    /// Bytes of DRAM that they take, about.
    fn memory_bytes(&self) -> u64 {
        let keys: u64 = self.all.iter().map(|range| bytes_of_bounds(range.bounds())).sum();
        keys + (self.all.len() * size_of::<DeletedRange>() + self.cuts.len() * size_of::<Cut>()) as u64
    }
}

fn beginning_at(place: &Place) -> Bound<&[u8]> {
    match place {
        None => Bound::Unbounded,
        Some((key, false)) => Bound::Included(key),
        Some((key, true)) => Bound::Excluded(key),
    }
}

fn end_at(place: &Place) -> Bound<&[u8]> {
    match place {
        // No range ends before all keys.
        None => Bound::Excluded(&[]),
        Some((key, false)) => Bound::Excluded(key),
        Some((key, true)) => Bound::Included(key),
    }
}

fn compare_places(order: &KeyOrder, one: &Place, other: &Place) -> Ordering {
    match (one, other) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Less,
        (Some(_), None) => Ordering::Greater,
        (Some((one, is_behind)), Some((other, other_is_behind))) => {
            order.compare(one, other).then(is_behind.cmp(other_is_behind))
        }
    }
}

/// The ranges of a MemTable, to which more are added while it is read.
pub(super) struct RangeDeletes {
    /// Changed by one writer at a time.
    adding: Mutex<()>,
    count: AtomicU64,
    ranges: ArcSwap<DeletedRanges>,
}

impl RangeDeletes {
    pub(super) fn new(order: &KeyOrder) -> RangeDeletes {
        let none = DeletedRanges { order: order.clone(), ..DeletedRanges::default() };
        RangeDeletes { adding: Mutex::new(()), count: AtomicU64::new(0), ranges: ArcSwap::from_pointee(none) }
    }

    /// Adds ranges. They are seen by whoever learns of their numbers afterwards.
    pub(super) fn add(&self, added: Vec<DeletedRange>) {
        if added.is_empty() {
            return;
        }
        let _adding = self.adding.lock();
        let before = self.ranges.load_full();
        let all: Vec<_> = before.all.iter().cloned().chain(added).collect();
        let count = all.len() as u64;
        self.ranges.store(Arc::new(DeletedRanges::new(before.order.clone(), all)));
        self.count.store(count, Release);
    }

    #[inline]
    pub(super) fn count(&self) -> u64 {
        self.count.load(Acquire)
    }

    /// The ranges there are now; `None` if there are none.
    #[inline]
    pub(super) fn get(&self) -> Option<Arc<DeletedRanges>> {
        if self.count() == 0 { None } else { Some(self.ranges.load_full()) }
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        self.get().map_or(0, |ranges| ranges.memory_bytes())
    }
}

impl fmt::Debug for RangeDeletes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RangeDeletes").field("count", &self.count()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
