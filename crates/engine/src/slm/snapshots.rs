//! What open cursors still see: their moments, and the records that were replaced since (design.md section 10).
//!
//! The index holds the newest version of a key alone. When a flush replaces or removes a record that an open cursor may
//! still see, the old record's place goes into an ordered map in DRAM *before* the leaf's word swings. A cursor reads
//! the index first and the map afterwards: a record may move from the index to the map in between, never the other way,
//! so it is seen in one of them. The map is consulted only by cursors, and dies with the process.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use slmdb_order::KeyOrder;
use slmdb_table::Place;

use super::locked;
use super::ordered_key::OrderedKey;
use super::tables::ALLOCATION_BYTES;

/// Where a value lies: which entry of which block of which table file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) file: u32,
    pub(crate) place: Place,
    pub(crate) sequence: u64,
}

/// A record that was in the index, from its own sequence number until `replaced_at`.
#[derive(Debug, Clone, Copy)]
struct Replaced {
    location: Location,
    replaced_at: u64,
}

#[derive(Debug)]
pub(crate) struct Snapshots {
    /// The order of the store's keys.
    order: KeyOrder,
    inner: Mutex<Inner>,
    /// How many moments are registered; read without the lock where only «any at all?» matters.
    open: AtomicUsize,
}

#[derive(Debug, Default)]
struct Inner {
    /// How many cursors look at each sequence number.
    moments: BTreeMap<u64, usize>,
    replaced: BTreeMap<OrderedKey, Vec<Replaced>>,
    replaced_count: usize,
    /// The length of the keys in `replaced`, together.
    key_bytes: usize,
    /// How many of them were kept when what nobody sees was last looked for.
    kept_count: usize,
}

impl Inner {
    /// Forgets the replaced records that no registered moment sees.
    fn forget_unseen(&mut self) {
        let moments = &self.moments;
        let key_bytes = &mut self.key_bytes;
        self.replaced.retain(|key, versions| {
            versions.retain(|version| moments.range(version.location.sequence..version.replaced_at).next().is_some());
            if versions.is_empty() {
                *key_bytes -= key.key.len();
            }
            !versions.is_empty()
        });
        self.replaced_count = self.replaced.values().map(Vec::len).sum();
        self.kept_count = self.replaced_count;
    }

    /// What the replaced records take in memory, in bytes, about: their map's nodes are two thirds full, and a list of versions
    /// begins with room for four.
    fn memory_bytes(&self) -> u64 {
        let per_key = size_of::<(OrderedKey, Vec<Replaced>)>() * 3 / 2 + 2 * ALLOCATION_BYTES;
        let lists = self.replaced_count.max(4 * self.replaced.len()) * size_of::<Replaced>();
        (self.replaced.len() * per_key + self.key_bytes + lists) as u64
    }
}

impl Snapshots {
    /// None yet, of a store with this order of keys.
    pub(crate) fn new(order: KeyOrder) -> Snapshots {
        Snapshots { order, inner: Mutex::default(), open: AtomicUsize::default() }
    }

    /// Registers the moment that `published` tells; it is asked under the lock, so that a flush that did not see this
    /// cursor has only records that the cursor's moment covers.
    pub(crate) fn register(&self, published: impl FnOnce() -> u64) -> u64 {
        let mut inner = locked(&self.inner);
        self.open.fetch_add(1, Ordering::SeqCst);
        let sequence = published();
        *inner.moments.entry(sequence).or_default() += 1;
        sequence
    }

    /// Ends a cursor at `sequence`; what nobody can see any more is forgotten. Says how much memory that freed, in bytes.
    pub(crate) fn release(&self, sequence: u64) -> u64 {
        let mut inner = locked(&self.inner);
        self.open.fetch_sub(1, Ordering::SeqCst);
        let Some(count) = inner.moments.get_mut(&sequence) else { return 0 };
        *count -= 1;
        if *count > 0 {
            return 0;
        }
        let was_oldest = inner.moments.keys().next() == Some(&sequence);
        inner.moments.remove(&sequence);
        // Looking costs as much as there is. What younger cursors saw alone waits until there is twice as much.
        if was_oldest || inner.replaced_count > 2 * inner.kept_count {
            let before = inner.memory_bytes();
            inner.forget_unseen();
            return before - inner.memory_bytes();
        }
        0
    }

    /// Cursors that are open.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    /// Whether a version that is kept is in this file.
    pub(crate) fn pins(&self, file: u32) -> bool {
        let inner = locked(&self.inner);
        inner.replaced.values().flatten().any(|version| version.location.file == file)
    }

    /// Replaced records that are kept.
    pub(crate) fn replaced_count(&self) -> usize {
        locked(&self.inner).replaced_count
    }

    /// What the replaced records take in memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        locked(&self.inner).memory_bytes()
    }

    /// A flush is about to replace (or remove) `old`, the index's record of `key`, by what has sequence number
    /// `replaced_at`. REQUIRES: under the leaf's lock, before the swing.
    pub(crate) fn note_replaced(&self, key: &[u8], old: Location, replaced_at: u64) {
        if self.open() == 0 {
            return;
        }
        let mut inner = locked(&self.inner);
        let seen = inner.moments.range(old.sequence..replaced_at).next().is_some();
        if seen {
            let key = OrderedKey::new(key, &self.order);
            let key_bytes = key.key.len();
            let versions = inner.replaced.entry(key).or_default();
            versions.push(Replaced { location: old, replaced_at });
            let is_first = versions.len() == 1;
            inner.key_bytes += if is_first { key_bytes } else { 0 };
            inner.replaced_count += 1;
        }
    }

    /// The replaced records with keys in the range that a cursor at `moment` sees, in key order.
    pub(crate) fn replaced_in(&self, range: (Bound<&[u8]>, Bound<&[u8]>), moment: u64) -> Vec<(Vec<u8>, Location)> {
        let inner = locked(&self.inner);
        if inner.replaced.is_empty() {
            return Vec::new();
        }
        let from = range.0.map(|key| OrderedKey::new(key, &self.order));
        let is_within = |key: &OrderedKey| match range.1 {
            Bound::Unbounded => true,
            Bound::Included(to) => self.order.compare(&key.key, to).is_le(),
            Bound::Excluded(to) => self.order.compare(&key.key, to).is_lt(),
        };
        let seen = |versions: &Vec<Replaced>| {
            versions
                .iter()
                .filter(|version| version.location.sequence <= moment && moment < version.replaced_at)
                .map(|version| version.location)
                .max_by_key(|location| location.sequence)
        };
        inner
            .replaced
            .range((from, Bound::Unbounded))
            .take_while(|(key, _)| is_within(key))
            .filter_map(|(key, versions)| Some((key.key.clone(), seen(versions)?)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(sequence: u64) -> Location {
        Location { file: 1, place: Place { offset: 0, length: 10 }, sequence }
    }

    const ALL: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Unbounded, Bound::Unbounded);

    #[test]
    fn a_replaced_record_is_seen_from_its_own_number_until_it_was_replaced() {
        let snapshots = Snapshots::new(KeyOrder::Bytewise);
        assert_eq!(snapshots.register(|| 10), 10);
        assert_eq!(snapshots.register(|| 30), 30);
        snapshots.note_replaced(b"k", at(5), 20);
        snapshots.note_replaced(b"k", at(20), 40);
        assert_eq!(snapshots.replaced_in(ALL, 10), [(b"k".to_vec(), at(5))]);
        assert_eq!(snapshots.replaced_in(ALL, 30), [(b"k".to_vec(), at(20))]);
        assert_eq!(snapshots.replaced_in(ALL, 40), []);
        assert_eq!(snapshots.replaced_in(ALL, 4), []);
        snapshots.release(10);
        assert_eq!(snapshots.replaced_count(), 1);
        snapshots.release(30);
        assert_eq!((snapshots.replaced_count(), snapshots.open()), (0, 0));
    }

    #[test]
    fn what_no_open_cursor_sees_is_not_kept() {
        let snapshots = Snapshots::new(KeyOrder::Bytewise);
        snapshots.note_replaced(b"k", at(5), 20);
        snapshots.register(|| 25);
        snapshots.note_replaced(b"k", at(5), 20);
        snapshots.note_replaced(b"k", at(26), 30);
        assert_eq!(snapshots.replaced_count(), 0);
    }

    #[test]
    fn what_short_cursors_saw_is_forgotten_while_an_older_one_stays_open() {
        let snapshots = Snapshots::new(KeyOrder::Bytewise);
        snapshots.register(|| 1);
        snapshots.note_replaced(b"k", at(1), 5);
        for moment in (10..10_000).step_by(10) {
            snapshots.register(|| moment);
            snapshots.note_replaced(b"k", at(moment - 5), moment + 5);
            assert_eq!(snapshots.replaced_in(ALL, moment), [(b"k".to_vec(), at(moment - 5))]);
            snapshots.release(moment);
            assert_eq!(snapshots.replaced_in(ALL, 1), [(b"k".to_vec(), at(1))]);
            assert!(snapshots.replaced_count() <= 3);
        }
        snapshots.release(1);
        assert_eq!(snapshots.replaced_count(), 0);
    }

    #[test]
    fn odd_ranges_are_empty_and_do_not_panic() {
        let snapshots = Snapshots::new(KeyOrder::Bytewise);
        snapshots.register(|| 10);
        snapshots.note_replaced(b"k", at(5), 20);
        let (k, z) = (b"k".as_slice(), b"z".as_slice());
        for range in [(Bound::Excluded(k), Bound::Excluded(k)), (Bound::Included(z), Bound::Included(k))] {
            assert_eq!(snapshots.replaced_in(range, 10), []);
        }
        assert_eq!(snapshots.replaced_in((Bound::Included(k), Bound::Included(k)), 10).len(), 1);
    }
}
