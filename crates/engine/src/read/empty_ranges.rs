//! [`EmptyRanges`]: between which keys a cursor found nothing but deletes, so that later ones pass them by one seek.
//!
//! A queue is put to at its end and taken from at its front. Its deletes stay where they are until they are flushed, or
//! until compactions drop them. A cursor that begins at the front would pass each of them again and again.
//!
//! A cursor that has passed many deletes in a row tells their range with its moment, and from then on the range is
//! **empty** for every moment at or after that one, until a key is put there. Writers tell what they put before it is
//! published. While no range is remembered, that costs them one load.
//!
//! **Why what is skipped has no value (INV-36).** Let a range be empty from moment *e* on, and let a cursor at moment *m* >=
//! *e* skip it. If a key of the range had a value at *m*, it was put there with a number above *e* and up to *m*, since the
//! range was empty at *e*. That number was published when the cursor registered. A writer tells what it puts after it
//! has got its number and before that is published, under the lock of the ranges. So the put was told before the cursor
//! asked. If the range was in the list by then, the key was cut out of it. The only other case is that the put was told
//! before the range came into the list, and that must not be:
//!
//! A range is first **watched**: it is added to the list, and then the last number is read that was handed out. Who gets a
//! larger number finds the range in the list, and a put into it ends the watch. A cursor at this number or a later moment
//! sees what was put with smaller ones. So what it finds empty of a watched range is empty from its moment on. If nothing
//! was written since the first cursor's own moment, that cursor is one of these. If not, a later one passes the deletes
//! once more.
//!
//! Deletes, flushes and compactions change nothing of this, and a moment before *e* skips nothing.
//!
//! What is forgotten costs time alone. So the list is short: what was not used for the longest time goes first, and all
//! of it goes when writers have looked at it often, and no cursor did.

use std::cmp::Ordering;
use std::sync::atomic::Ordering::Relaxed;

use slmdb_order::KeyOrder;
use slmdb_sync::modelled::{AtomicUsize, Mutex};

use crate::batch::Change;
use crate::{WriteBatch, lock_order};

/// So many ranges are remembered, at most.
const RANGES_MAX: usize = 8;
/// Longer keys are no bounds of ranges.
const BOUND_BYTES_MAX: usize = 4 << 10;
/// After so many looks by writers without one by a cursor all is forgotten.
const IDLE_LOOKS_MAX: usize = 1 << 16;
/// After each so many deletes in a row it is asked whether more of them can be skipped.
const LOOK_EVERY: usize = 8;
/// So many times in a row nothing could be skipped: the range is worth remembering,
const LOOKS_MIN: usize = 32;
/// or so many times beside a range that was skipped, or so many ranges were: it is worth remembering as one.
const LOOKS_BESIDE_MIN: usize = 2;
const SKIPPED_MIN: usize = 3;

/// The keys from `low` on and before `high`.
#[derive(Debug, Clone)]
struct KeyRange {
    low: Vec<u8>,
    high: Vec<u8>,
}

#[derive(Debug)]
struct Remembered {
    range: KeyRange,
    /// Empty: for moments from here on. Watched: puts with larger numbers are noticed.
    from: u64,
    is_empty: bool,
    /// The larger, the later it was used.
    used: usize,
}

#[derive(Debug, Default)]
struct List {
    ranges: Vec<Remembered>,
    uses: usize,
    /// Looks of writers since a cursor looked.
    idle_looks: usize,
}

/// Ranges of keys that have no value.
#[derive(Debug)]
pub struct EmptyRanges {
    order: KeyOrder,
    /// Number of ranges in the list.
    count: AtomicUsize,
    list: Mutex<List>,
}

impl KeyRange {
    fn has(&self, key: &[u8], order: &KeyOrder) -> bool {
        order.compare(&self.low, key).is_le() && order.compare(key, &self.high).is_lt()
    }

    /// Whether this range has all of another one.
    fn covers(&self, other: &KeyRange, order: &KeyOrder) -> bool {
        order.compare(&self.low, &other.low).is_le() && order.compare(&other.high, &self.high).is_le()
    }

    /// What both have.
    fn overlap(&self, other: &KeyRange, order: &KeyOrder) -> Option<KeyRange> {
        let low = if order.compare(&self.low, &other.low).is_ge() { &self.low } else { &other.low };
        let high = if order.compare(&self.high, &other.high).is_le() { &self.high } else { &other.high };
        order.compare(low, high).is_lt().then(|| KeyRange { low: low.clone(), high: high.clone() })
    }

    /// Its parts before and behind a key that it has. Only in the order by bytes it is known which key comes next.
    fn around(self, key: &[u8], order: &KeyOrder) -> impl Iterator<Item = KeyRange> {
        let next = [key, &[0]].concat();
        let behind = order.is_bytewise().then_some(KeyRange { low: next, high: self.high });
        let before = KeyRange { low: self.low, high: key.to_vec() };
        let parts = [Some(before), behind].into_iter().flatten();
        let order = order.clone();
        parts.filter(move |part| order.compare(&part.low, &part.high).is_lt())
    }
}

impl List {
    /// Adds a range, in the place of those of its kind that it has all of.
    fn add(&mut self, range: KeyRange, from: u64, is_empty: bool, order: &KeyOrder) {
        self.ranges.retain(|other| other.is_empty != is_empty || !range.covers(&other.range, order));
        self.uses += 1;
        self.ranges.push(Remembered { range, from, is_empty, used: self.uses });
        self.forget_some();
    }

    /// Forgets what was not used for the longest time, if there is too much.
    fn forget_some(&mut self) {
        while self.ranges.len() > RANGES_MAX {
            let oldest = (0..self.ranges.len()).min_by_key(|&at| self.ranges[at].used).unwrap_or_default();
            self.ranges.remove(oldest);
        }
    }
}

impl EmptyRanges {
    /// None yet, in a store with this order of keys.
    pub fn new(order: KeyOrder) -> EmptyRanges {
        let list = Mutex::ranked(lock_order::EMPTY_RANGES, List::default());
        EmptyRanges { order, count: AtomicUsize::new(0), list }
    }

    /// Takes note that keys are being put. REQUIRES: the write has its numbers and is not complete
    /// (`Publication::begin`, `Publication::complete`).
    /// LOCKS: empty ranges, if any is remembered
    #[inline]
    pub fn note_puts(&self, batch: &WriteBatch) {
        // Publication's lock orders this load behind the store of who has read a smaller number there.
        if self.count.load(Relaxed) == 0 {
            return;
        }
        for change in batch.iter() {
            if let Change::Put { key, .. } = change {
                self.note_put(key);
            }
        }
    }

    fn note_put(&self, key: &[u8]) {
        let mut list = self.list.lock();
        list.idle_looks += 1;
        if list.idle_looks > IDLE_LOOKS_MAX {
            (list.idle_looks, list.ranges) = (0, Vec::new());
        }
        if list.ranges.iter().any(|other| other.range.has(key, &self.order)) {
            for Remembered { range, from, is_empty, used } in std::mem::take(&mut list.ranges) {
                if !range.has(key, &self.order) {
                    list.ranges.push(Remembered { range, from, is_empty, used });
                } else if is_empty {
                    let parts = range.around(key, &self.order);
                    list.ranges.extend(parts.map(|range| Remembered { range, from, is_empty, used }));
                }
            }
            list.forget_some();
        }
        self.count.store(list.ranges.len(), Relaxed);
    }

    /// Remembers that a cursor at `moment` has found no value in a range, as soon as that is certain for later moments.
    /// `begun` tells the last number that was handed out.
    /// LOCKS: empty ranges, those of `begun`
    fn remember(&self, found: &KeyRange, moment: u64, begun: impl FnOnce() -> u64) {
        let (mut list, order) = (self.list.lock(), &self.order);
        list.idle_looks = 0;
        let mut certain = Vec::new();
        for other in std::mem::take(&mut list.ranges) {
            match other.range.overlap(found, order) {
                Some(both) if !other.is_empty && other.from <= moment => certain.push(both),
                _ => list.ranges.push(other),
            }
        }
        certain.into_iter().for_each(|range| list.add(range, moment, true, order));
        // What is watched already is not watched anew: it would never become certain if each cursor did that.
        let is_known = |other: &Remembered| match other.is_empty {
            true => other.range.covers(found, order),
            false => other.range.overlap(found, order).is_some(),
        };
        if !list.ranges.iter().any(is_known) {
            list.add(found.clone(), u64::MAX, false, order);
            self.count.store(list.ranges.len(), Relaxed);
            let begun = begun();
            if begun <= moment {
                list.ranges.pop();
                list.add(found.clone(), moment, true, order);
            } else if let Some(watched) = list.ranges.last_mut() {
                watched.from = begun;
            }
        }
        self.count.store(list.ranges.len(), Relaxed);
    }

    /// The end of a range that has `key`, and has no value at `moment`: behind it, or backwards its first key.
    /// LOCKS: empty ranges, if any is remembered
    fn end_of(&self, key: &[u8], moment: u64, is_forward: bool) -> Option<Vec<u8>> {
        if self.count.load(Relaxed) == 0 {
            return None;
        }
        let mut list = self.list.lock();
        let List { ranges, uses, idle_looks } = &mut *list;
        let is_it =
            |other: &&mut Remembered| other.is_empty && other.from <= moment && other.range.has(key, &self.order);
        let found = ranges.iter_mut().find(is_it)?;
        *uses += 1;
        (*idle_looks, found.used) = (0, *uses);
        Some(if is_forward { found.range.high.clone() } else { found.range.low.clone() })
    }
}

/// The deletes that a cursor passes in a row.
#[derive(Debug)]
pub struct PassedDeletes {
    moment: u64,
    is_forward: bool,
    count: usize,
    looks: usize,
    skipped: usize,
    /// Where it began and how far it goes. Backwards the first one is the larger.
    ends: Option<(Vec<u8>, Vec<u8>)>,
}

impl PassedDeletes {
    /// None yet, by a cursor at this moment.
    pub fn new(moment: u64, is_forward: bool) -> PassedDeletes {
        PassedDeletes { moment, is_forward, count: 0, looks: 0, skipped: 0, ends: None }
    }

    /// Counts a deleted key. If others behind it in the direction are known to have no value, returns the key to seek:
    /// forwards the first one at or after it, backwards the last one before it.
    /// LOCKS: empty ranges, now and then
    #[inline]
    pub fn pass(&mut self, key: &[u8], ranges: &EmptyRanges) -> Option<Vec<u8>> {
        self.count += 1;
        if self.count.is_multiple_of(LOOK_EVERY) { self.look(key, ranges) } else { None }
    }

    fn look(&mut self, key: &[u8], ranges: &EmptyRanges) -> Option<Vec<u8>> {
        let end = ranges.end_of(key, self.moment, self.is_forward);
        if end.is_some() {
            self.skipped += 1;
        } else {
            self.looks += 1;
        }
        let (_, last) = self.ends.get_or_insert_with(|| (key.to_vec(), Vec::new()));
        last.clear();
        last.extend_from_slice(end.as_deref().unwrap_or(key));
        end
    }

    /// Takes note that there are no more of them. `begun` tells the last number that was handed out to a write. REQUIRES:
    /// no key between them has a value.
    /// LOCKS: empty ranges, those of `begun`, if there were many
    #[inline]
    pub fn end(self, ranges: &EmptyRanges, begun: impl FnOnce() -> u64) {
        let is_longer = self.skipped > 0 && self.looks >= LOOKS_BESIDE_MIN;
        if !is_longer && self.skipped < SKIPPED_MIN && self.looks < LOOKS_MIN {
            return;
        }
        let Some((first, last)) = self.ends else { return };
        let (low, high) = if self.is_forward { (first, last) } else { (last, first) };
        let is_range = ranges.order.compare(&low, &high) == Ordering::Less;
        if is_range && low.len().max(high.len()) <= BOUND_BYTES_MAX {
            ranges.remember(&KeyRange { low, high }, self.moment, begun);
        }
    }
}

#[cfg(all(test, loom))]
mod models;

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used)]
mod tests;
