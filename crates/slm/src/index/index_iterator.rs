//! The index as a cursor sees it: the records of its moment, whatever flushes do meanwhile (paper, section 3.2
//! «Scanning a B+-tree»).
//!
//! A leaf is read and its records are copied out, so no epoch is held between a cursor's calls. Records of the
//! cursor's moment are taken from the leaf. Those replaced since come from the map of replaced records. The map is
//! asked *after* the leaf was read, for exactly the range that the leaf covers (INV-12). A record may move from the
//! index to the map in between, never the other way, so it is seen at least once. Of two versions the newer wins.
//!
//! Who goes on in one direction gets more and more leaves at once: the processor fetches their records side by side
//! then, instead of one after the other.

use std::ops::Bound;
use std::sync::Arc;

use slmdb_engine::files::location::Location;
use slmdb_env::Result;
use slmdb_order::{Direction, KeyOrder};

use crate::index::Index;
use crate::index::in_pool::KEYS_BYTES_MAX;
use crate::index::key_index::{IndexEntry, IndexRead};

/// So many records are read at once, at least: at first those of one leaf, then more and more.
const RECORDS_AT_ONCE: [usize; 3] = [0, 32, 64];

/// A position among the index's records that are visible at a moment.
pub(crate) struct IndexSource {
    pub(crate) moment: u64,
    /// Records copied out of the index and from the map, in key order.
    read: IndexRead,
    /// Index of the current entry.
    position: Option<usize>,
    /// How many readings followed each other since it was placed.
    readings: usize,
    /// Where the records that were not copied out begin, in either direction. `None`: there are none.
    rest: Rest,
}

#[derive(Default)]
struct Rest {
    after: Option<Bound<Vec<u8>>>,
    before: Option<Bound<Vec<u8>>>,
}

impl IndexSource {
    /// One on no key. `read`: buffers of an earlier one.
    pub(crate) fn new(moment: u64, read: IndexRead) -> IndexSource {
        IndexSource { moment, read, position: None, readings: 0, rest: Rest::default() }
    }

    /// Gives its buffers for another one. After that it is on no key.
    pub(crate) fn take_buffers(&mut self) -> IndexRead {
        (self.position, self.rest) = (None, Rest::default());
        std::mem::take(&mut self.read)
    }

    /// The current key.
    pub(crate) fn key(&self) -> Option<&[u8]> {
        self.position.map(|position| self.read.key(&self.read.entries[position]))
    }

    /// Where the current key's value is.
    pub(crate) fn location(&self) -> Option<Location> {
        self.position.map(|position| self.read.entries[position].location)
    }

    /// The current key and those that are known to follow it, in key order, each with where its value lies.
    #[inline]
    pub(crate) fn entries_forward(&self) -> impl Iterator<Item = (&[u8], Location)> + Clone {
        let following = self.position.and_then(|position| self.read.entries.get(position..));
        following.unwrap_or_default().iter().map(|entry| (self.read.key(entry), entry.location))
    }

    /// The current key and those that are known to come before it, the nearest first, each with where its value lies.
    #[inline]
    pub(crate) fn entries_backward(&self) -> impl Iterator<Item = (&[u8], Location)> + Clone {
        let before = self.position.and_then(|position| self.read.entries.get(..=position));
        before.unwrap_or_default().iter().rev().map(|entry| (self.read.key(entry), entry.location))
    }

    /// Moves to the first visible key at or after `key`.
    pub(crate) fn seek(&mut self, index: &Index, key: &[u8]) -> Result<()> {
        self.set_out_forward(index, Bound::Included(key.to_vec()))
    }

    /// Moves to the first visible key.
    pub(crate) fn seek_first(&mut self, index: &Index) -> Result<()> {
        self.set_out_forward(index, Bound::Unbounded)
    }

    /// Moves to the last visible key before `key`.
    pub(crate) fn seek_before(&mut self, index: &Index, key: &[u8]) -> Result<()> {
        self.set_out_backward(index, Bound::Excluded(key.to_vec()))
    }

    /// Moves to the last visible key at or before `key`.
    pub(crate) fn seek_back(&mut self, index: &Index, key: &[u8]) -> Result<()> {
        self.set_out_backward(index, Bound::Included(key.to_vec()))
    }

    /// Moves to the last visible key.
    pub(crate) fn seek_last(&mut self, index: &Index) -> Result<()> {
        self.set_out_backward(index, Bound::Unbounded)
    }

    /// Moves one key further, if that is known already; else `false`. REQUIRES: there is a current key.
    #[inline]
    pub(crate) fn step(&mut self, direction: Direction) -> bool {
        let Some(position) = self.position else { return false };
        let next = match direction {
            Direction::Forward => position.wrapping_add(1),
            Direction::Backward => position.wrapping_sub(1),
        };
        let is_known = next < self.read.entries.len();
        if is_known {
            self.position = Some(next);
        }
        is_known
    }

    /// Moves to the next visible key. REQUIRES: there is a current key.
    pub(crate) fn next(&mut self, index: &Index) -> Result<()> {
        if self.position.is_none() || self.step(Direction::Forward) {
            return Ok(());
        }
        match self.rest.after.take() {
            Some(from) => self.read_forward(index, from),
            None => {
                self.position = None;
                Ok(())
            }
        }
    }

    /// Moves to the previous visible key. REQUIRES: there is a current key.
    pub(crate) fn prev(&mut self, index: &Index) -> Result<()> {
        if self.position.is_none() || self.step(Direction::Backward) {
            return Ok(());
        }
        match self.rest.before.take() {
            Some(from) => self.read_backward(index, from),
            None => {
                self.position = None;
                Ok(())
            }
        }
    }

    /// Reads forward from a place that does not follow from where it was.
    fn set_out_forward(&mut self, index: &Index, from: Bound<Vec<u8>>) -> Result<()> {
        self.readings = 0;
        self.read_forward(index, from)
    }

    /// The same backward.
    fn set_out_backward(&mut self, index: &Index, from: Bound<Vec<u8>>) -> Result<()> {
        self.readings = 0;
        self.read_backward(index, from)
    }

    /// Copies out the first leaf that has a visible record at or after `from`, and moves to its first entry.
    fn read_forward(&mut self, index: &Index, from: Bound<Vec<u8>>) -> Result<()> {
        self.position = None;
        let mut from = from;
        loop {
            let next = self.read(index, &from, Direction::Forward)?;
            if !self.read.entries.is_empty() {
                self.rest = Rest { after: next, before: other_side(from) };
                self.position = Some(0);
                return Ok(());
            }
            let Some(next) = next else { return Ok(()) };
            from = next;
        }
    }

    /// Copies out the last leaf that has a visible record at or before `from`, and moves to its last entry.
    fn read_backward(&mut self, index: &Index, from: Bound<Vec<u8>>) -> Result<()> {
        self.position = None;
        let mut from = from;
        loop {
            let next = self.read(index, &from, Direction::Backward)?;
            if !self.read.entries.is_empty() {
                self.rest = Rest { after: other_side(from), before: next };
                self.position = Some(self.read.entries.len() - 1);
                return Ok(());
            }
            let Some(next) = next else { return Ok(()) };
            from = next;
        }
    }

    /// Copies out the visible records of a leaf or more, starting at a bound. Returns the bound at which the next leaf
    /// begins.
    fn read(&mut self, index: &Index, from: &Bound<Vec<u8>>, direction: Direction) -> Result<Option<Bound<Vec<u8>>>> {
        let has_long_keys = self.read.keys.len() > KEYS_BYTES_MAX;
        let at_once = RECORDS_AT_ONCE[if has_long_keys { 0 } else { self.readings.min(RECORDS_AT_ONCE.len() - 1) }];
        self.readings += 1;
        let near = from.as_ref().map(Vec::as_slice);
        index.keys.read(near, direction, at_once, self.moment, &mut self.read)?;
        if direction == Direction::Backward {
            self.read.entries.reverse();
        }
        let next = self.read.next.take();
        let far = next
            .as_ref()
            .and_then(|next| other_side(next.as_ref()))
            .map_or(Bound::Unbounded, |far| far.map(Vec::as_slice));
        let range = if direction == Direction::Forward { (near, far) } else { (far, near) };
        self.add_replaced(index.snapshots.replaced_in(range, self.moment), index.keys.order());
        Ok(next)
    }

    /// Merges records from the map, which are in key order, into the entries. It does not sort, because sorting may
    /// panic if a comparator is no total order (INV-25).
    fn add_replaced(&mut self, replaced: Vec<(Arc<[u8]>, Location)>, order: &KeyOrder) {
        if replaced.is_empty() {
            return;
        }
        let mut entries = Vec::with_capacity(self.read.entries.len() + replaced.len());
        let mut visible = std::mem::take(&mut self.read.entries).into_iter().peekable();
        for (key, location) in replaced {
            let compare = |entry: &IndexEntry| order.compare(self.read.key(entry), &key);
            while let Some(entry) = visible.next_if(|entry| compare(entry).is_lt()) {
                entries.push(entry);
            }
            match visible.next_if(|entry| compare(entry).is_eq()) {
                // Of two versions of a key the newer stays.
                Some(entry) if entry.location.sequence >= location.sequence => entries.push(entry),
                Some(entry) => entries.push(IndexEntry { location, ..entry }),
                None => {
                    let start = self.read.keys.len();
                    self.read.keys.extend_from_slice(&key);
                    entries.push(IndexEntry { key: start..self.read.keys.len(), location });
                }
            }
        }
        entries.extend(visible);
        self.read.entries = entries;
    }
}

/// The bound that begins where `bound` ends.
fn other_side<K>(bound: Bound<K>) -> Option<Bound<K>> {
    match bound {
        Bound::Included(key) => Some(Bound::Excluded(key)),
        Bound::Excluded(key) => Some(Bound::Included(key)),
        Bound::Unbounded => None,
    }
}
