//! Reading in key order, both ways.
//!
//! The unit is a leaf: its records are copied as they are at one moment, together with the bound up to which that covers
//! the key space, and the guard may be given up between one leaf and the next. So an iterator that lives for hours holds
//! nothing up. Keys that come and go between two reads are seen or not; no key is seen twice, none out of order, and none
//! that is there all the time is missed, because the next read begins exactly where this one ended, wherever that key
//! range is by then. That ends, because each read covers some more keys in the tree's order; if that is a comparator's and
//! no total order, the places that were gone on from are watched, and coming back to one is an error.

use std::cmp::Ordering;
use std::ops::Bound;

use slmdb_env::Result;
use slmdb_order::{CycleDetector, Direction};
use slmdb_pmem::Medium;
use slmdb_sync::epoch::{self, Guard};

use super::fences::Target;
use super::key_record::KeyRecord;
use super::node::{Entry, HOLE, Node, Slot};
use super::tree::{OUT_OF_ORDER, Tree};

/// As many leaves are asked for ahead at most.
const LEAVES_AHEAD_MAX: usize = 8;

/// What [`Tree::read_leaf`] has read. Made once and used again for every leaf.
#[derive(Debug, Default)]
pub struct LeafRead {
    records: Vec<u64>,
    direction: Direction,
    /// The low or the high fence of the last leaf, depending on the direction.
    edge: Vec<u8>,
    at_end: bool,
    entries: Vec<Entry>,
    /// The edges that were passed since reading began, if the order is a comparator's.
    cycle_detector: CycleDetector,
}

impl LeafRead {
    /// With nothing read yet.
    pub fn new() -> LeafRead {
        LeafRead::default()
    }

    /// Offsets of the key records, in the order of reading. [`Tree::record`] makes records of them, under the guard that
    /// they were read with.
    pub fn records(&self) -> &[u64] {
        &self.records
    }

    /// Where to go on reading in the same direction: all keys up to there (from where the read began) have been covered.
    /// `None`: there are no more.
    pub fn next(&self) -> Option<Bound<&[u8]>> {
        match self.direction {
            _ if self.at_end => None,
            Direction::Forward => Some(Bound::Included(&self.edge)),
            Direction::Backward => Some(Bound::Excluded(&self.edge)),
        }
    }

    /// Whether a read from a bound goes on where this one ended.
    fn goes_on(&self, from: Bound<&[u8]>, direction: Direction) -> bool {
        self.direction == direction && self.next() == Some(from)
    }
}

impl<M: Medium> Tree<M> {
    /// Reads the records of one leaf, from a bound on in a direction. There may be none in it although more follow.
    pub fn read_leaf(
        &self,
        from: Bound<&[u8]>,
        direction: Direction,
        guard: &Guard,
        into: &mut LeafRead,
    ) -> Result<()> {
        self.read_leaves(from, direction, 0, guard, into)
    }

    /// As [`Tree::read_leaf`], but reads on until there are at least `records_min` records or no more: cheaper than leaf by
    /// leaf, since neighbours are found without a descent. Each leaf is read at a moment of its own.
    pub fn read_leaves(
        &self,
        from: Bound<&[u8]>,
        direction: Direction,
        records_min: usize,
        guard: &Guard,
        into: &mut LeafRead,
    ) -> Result<()> {
        if !self.order.is_bytewise() && !into.goes_on(from, direction) {
            into.cycle_detector.begin();
        }
        into.direction = direction;
        into.records.clear();
        match direction {
            Direction::Forward => self.read_forward(from, records_min, guard, into),
            Direction::Backward => self.read_backward(from, records_min, guard, into),
        }
    }

    fn read_forward(&self, from: Bound<&[u8]>, records_min: usize, guard: &Guard, into: &mut LeafRead) -> Result<()> {
        let (target, skip_equal) = match from {
            Bound::Included(key) => (Target::At(key), false),
            Bound::Excluded(key) => (Target::At(key), true),
            Bound::Unbounded => (Target::First, false),
        };
        let (mut leaf, head) = self.descend_ahead(target, records_min)?;
        let mut first = self.read_entries(&leaf, into, |entry| {
            Ok(match entry.head.cmp(&head) {
                Ordering::Equal => match target.compare(self.record(entry.pointer, guard)?.key(), &self.order) {
                    Ordering::Less => Ordering::Less,
                    Ordering::Equal if skip_equal => Ordering::Less,
                    _ => Ordering::Greater,
                },
                order => order,
            })
        })?;
        loop {
            let LeafRead { records, entries, .. } = &mut *into;
            records.extend(entries[first..].iter().map(|entry| entry.pointer));
            into.at_end = !leaf.fences(&self.pool)?.copy_high(&mut into.edge);
            self.pass(&leaf, into)?;
            if into.at_end || into.records.len() >= records_min {
                return Ok(());
            }
            let next = self.node_ahead(leaf.sibling(), 0)?;
            let target = Target::At(&into.edge);
            let (found, head) = match self.descend_from(next, &target, 0)? {
                Some(found) => found,
                None => self.descend(target, 0)?,
            };
            leaf = found;
            let starts_here = leaf.fences(&self.pool)?.low() == Some(&into.edge[..]);
            let edge = std::mem::take(&mut into.edge);
            // Only a leaf that was merged meanwhile begins further left.
            first = self.read_entries(&leaf, into, |entry| {
                Ok(match entry.head.cmp(&head) {
                    _ if starts_here => Ordering::Greater,
                    Ordering::Equal => match self.order.compare(self.record(entry.pointer, guard)?.key(), &edge) {
                        Ordering::Less => Ordering::Less,
                        _ => Ordering::Greater,
                    },
                    order => order,
                })
            })?;
            into.edge = edge;
        }
    }

    /// The edge of a leaf is passed, and must be for the first time.
    fn pass(&self, leaf: &Node<'_>, into: &mut LeafRead) -> Result<()> {
        if self.order.is_bytewise() || into.at_end || into.cycle_detector.visit(&into.edge) {
            return Ok(());
        }
        into.cycle_detector.begin();
        Err(self.damaged(leaf.offset, OUT_OF_ORDER))
    }

    /// Descends to the leaf that covers a target. If the leaves to its right will be read too, asks for them all at once, as
    /// far as the parent knows them: else each would be waited for before the next is known.
    fn descend_ahead(&self, target: Target<'_>, records_min: usize) -> Result<(Node<'_>, u64)> {
        let leaves = (records_min / (self.slots() / 2)).min(LEAVES_AHEAD_MAX);
        let parent = if leaves == 0 { None } else { self.descend_if_so_high(target, 1)? };
        let Some((parent, head)) = parent else { return self.descend(target, 0) };
        // A wish only: what is found here is not relied on.
        let behind = parent.slots.iter().map(Slot::read).skip_while(|entry| entry.head < head).take(leaves);
        for entry in behind.filter(|entry| entry.pointer > HOLE) {
            Node::at(&self.pool, entry.pointer, self.node_bytes)?.prefetch();
        }
        match self.descend_from(parent, &target, 0)? {
            Some(found) => Ok(found),
            None => self.descend(target, 0),
        }
    }

    fn read_backward(&self, from: Bound<&[u8]>, records_min: usize, guard: &Guard, into: &mut LeafRead) -> Result<()> {
        let mut bound = from.map(<[u8]>::to_vec);
        loop {
            let target = match &bound {
                Bound::Included(key) => Target::At(key),
                Bound::Excluded(key) if key.is_empty() && self.order.is_bytewise() => {
                    into.at_end = true;
                    return Ok(());
                }
                Bound::Excluded(key) => Target::Below(key),
                Bound::Unbounded => Target::Last,
            };
            let (leaf, head) = self.descend(target, 0)?;
            let end = self.read_entries(&leaf, into, |entry| {
                Ok(match entry.head.cmp(&head) {
                    Ordering::Equal => match target.compare(self.record(entry.pointer, guard)?.key(), &self.order) {
                        Ordering::Greater => Ordering::Greater,
                        _ => Ordering::Less,
                    },
                    order => order,
                })
            })?;
            let LeafRead { records, entries, .. } = &mut *into;
            records.extend(entries[..end].iter().rev().map(|entry| entry.pointer));
            let fences = leaf.fences(&self.pool)?;
            into.edge.clear();
            into.edge.extend_from_slice(fences.low().unwrap_or_default());
            into.at_end = fences.low().is_none();
            self.pass(&leaf, into)?;
            if into.at_end || into.records.len() >= records_min {
                return Ok(());
            }
            bound = Bound::Excluded(into.edge.clone());
        }
    }

    /// Copies a leaf's entries. Gives how many of them are `Less`, at its beginning.
    fn read_entries(
        &self,
        leaf: &Node<'_>,
        into: &mut LeafRead,
        order: impl Fn(&Entry) -> Result<Ordering>,
    ) -> Result<usize> {
        leaf.entries(&mut into.entries);
        for (index, entry) in into.entries.iter().enumerate() {
            if order(entry)? != Ordering::Less {
                return Ok(index);
            }
        }
        Ok(into.entries.len())
    }

    /// All records from a bound on in a direction, read leaf by leaf under one guard. For tools and tests; what is to live
    /// for long reads leaves and gives the guard up between them.
    pub fn range<'g>(&'g self, from: Bound<&[u8]>, direction: Direction, guard: &'g Guard) -> Range<'g, M> {
        let next = Some(from.map(<[u8]>::to_vec));
        Range { tree: self, guard, direction, next, leaf: LeafRead::new(), taken: 0 }
    }

    /// The number of keys, counted leaf by leaf.
    pub fn count(&self) -> Result<u64> {
        let (mut leaf, mut count, mut from) = (LeafRead::new(), 0, Bound::Unbounded);
        loop {
            // One guard for some thousand keys: cheap, and nothing is held up for long.
            let guard = epoch::pin();
            self.read_leaves(from.as_ref().map(Vec::as_slice), Direction::Forward, 4096, &guard, &mut leaf)?;
            count += leaf.records().len() as u64;
            match leaf.next() {
                Some(next) => from = next.map(<[u8]>::to_vec),
                None => return Ok(count),
            }
        }
    }
}

/// Iterator over key records, see [`Tree::range`]. Ends after an error.
#[derive(Debug)]
pub struct Range<'g, M: Medium> {
    tree: &'g Tree<M>,
    guard: &'g Guard,
    direction: Direction,
    /// Where to read next; `None`: nowhere.
    next: Option<Bound<Vec<u8>>>,
    leaf: LeafRead,
    /// How many records of `leaf` have been given out.
    taken: usize,
}

impl<'g, M: Medium> Iterator for Range<'g, M> {
    type Item = Result<KeyRecord<'g>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(&record) = self.leaf.records.get(self.taken) {
                self.taken += 1;
                let record = self.tree.record(record, self.guard);
                if record.is_err() {
                    (self.next, self.taken) = (None, self.leaf.records.len());
                }
                return Some(record);
            }
            let from = self.next.take()?;
            self.taken = 0;
            let read =
                self.tree.read_leaf(from.as_ref().map(Vec::as_slice), self.direction, self.guard, &mut self.leaf);
            if let Err(error) = read {
                self.leaf.records.clear();
                return Some(Err(error));
            }
            self.next = self.leaf.next().map(|bound| bound.map(<[u8]>::to_vec));
        }
    }
}
