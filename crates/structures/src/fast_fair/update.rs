//! Updates: one key, or a sorted batch of them.
//!
//! An update finds the leaf, locks it, shows the caller what the tree has for the key and does what the caller then says.
//! That one operation is all writes there are: upserts, compare-and-swap, removals. A caller decides exactly once for each
//! key, because deciding has side effects: it notes the replaced file in the key record and moves live counts. So whatever
//! could fail or need another lock comes first: a leaf that might overflow is changed under the lock of the tree's
//! structure, with the blocks for its successors already taken.
//!
//! Few changes in a leaf are made in place ([`change`](super::change)); many at once, or too many, by replacing the leaf
//! ([`replace`](super::replace)). Each key's change is atomic by itself; a batch is not.

use std::cmp::Ordering;

use crossbeam_epoch::{self as epoch, Guard};
use slmdb_env::{Error, Result};
use slmdb_pmem::Medium;

use super::build::{Fill, comfortable, cuts};
use super::change::{Locked, Place};
use super::intent::NEW_NODES_MAX;
use super::key_record::{KeyRecord, MAXIMUM_KEY_BYTES};
use super::node::{Entry, Fences, Side, Target};
use super::replace::Replacement;
use super::reserve::Reserve;
use super::tree::{Structure, Tree};

/// Up to so many shifts are made in place; for more the leaf is replaced.
const SHIFTS_IN_PLACE_MAX: usize = 3;

/// What becomes of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Nothing.
    Keep,
    /// The tree points to this key record, which is that of a put of this very key.
    Put(u64),
    /// The tree does not have the key any more.
    Remove,
}

/// What became of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// Nothing: it was kept, or there was nothing to remove.
    Nothing,
    /// The key is new in the tree.
    Inserted,
    /// The key's record was replaced.
    Replaced {
        /// The offset of the record that was there before.
        old: u64,
    },
    /// The key was removed.
    Removed {
        /// The offset of the record that was there before.
        old: u64,
    },
}

/// One change of a leaf. Slots are those before any change.
#[derive(Debug, Clone, Copy)]
enum Change {
    Swap { at: usize, pointer: u64 },
    Insert { at: usize, entry: Entry },
    Remove { at: usize },
}

impl<M: Medium> Tree<M> {
    /// The one write. `decide` sees the key's current record under the leaf's lock, and says what becomes of it. It is
    /// called once at most: not at all if the key is too long, the pool is damaged, or there is no room for what it might
    /// say ([`Error::Full`]). Its own error is passed on, and nothing is changed then. It must not use the tree.
    ///
    /// The change is durable on return, and everything that `decide` flushed is durable before.
    pub fn update(
        &self,
        key: &[u8],
        decide: impl FnOnce(Option<KeyRecord<'_>>) -> Result<Decision>,
    ) -> Result<Applied> {
        check_key(key)?;
        let guard = &epoch::pin();
        let (leaf, head) = self.lock_covering(key, 0)?;
        let place = self.find(&leaf, head, key, guard)?;
        if place.at.is_err() && place.used == self.slots() {
            drop(leaf);
            return self.update_with_room(key, decide, guard);
        }
        let change = self.decide(&leaf, place, head, key, decide, guard)?;
        let applied = applied(&leaf, change);
        apply_in_place(&leaf, place.used, change.as_slice());
        let sparse = matches!(change, Some(Change::Remove { .. })) && self.is_sparse(place.used - 1);
        drop(leaf);
        if sparse {
            if let Some(mut structure) = self.try_settled_structure(guard) {
                self.merge_around(&mut structure, key, guard);
            }
        }
        Ok(applied)
    }

    /// The same for a key whose leaf may overflow.
    fn update_with_room(
        &self,
        key: &[u8],
        decide: impl FnOnce(Option<KeyRecord<'_>>) -> Result<Decision>,
        guard: &Guard,
    ) -> Result<Applied> {
        let mut structure = self.structure();
        let settled = self.settle(&mut structure, guard);
        let (leaf, head) = self.lock_covering(key, 0)?;
        let place = self.find(&leaf, head, key, guard)?;
        // It may have been split by another thread meanwhile.
        let mut reserve = None;
        if place.at.is_err() && place.used == self.slots() {
            settled?;
            let (fences, entries) = (leaf.node.fences(&self.pool)?, leaf.entries().collect::<Vec<_>>());
            reserve = Some(self.reserve(&fences, &entries, &[(key, head)], 1, guard)?);
        }
        let change = self.decide(&leaf, place, head, key, decide, guard)?;
        let applied = applied(&leaf, change);
        match (change, reserve) {
            (Some(Change::Insert { .. }), Some(reserve)) => {
                self.replace_leaf(&mut structure, leaf, change.as_slice(), reserve, guard)?
            }
            _ => apply_in_place(&leaf, place.used, change.as_slice()),
        };
        Ok(applied)
    }

    /// As [`Tree::update`] for many keys, which ascend strictly; `decide` gets the number of the key, from 0. Keys that
    /// fall into one leaf go in under one lock and with few flushes. After an error, the keys before some place have been
    /// decided and applied, and those from there on have not been; if the error is `decide`'s own, that place is the key it
    /// was given for.
    pub fn update_sorted<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]>,
        mut decide: impl FnMut(usize, Option<KeyRecord<'_>>) -> Result<Decision>,
    ) -> Result<()> {
        let group_max = NEW_NODES_MAX * comfortable(self.slots());
        let mut batch = Batch { keys, ahead: Vec::with_capacity(2 * group_max), start: 0, done: 0, group_max };
        let mut changes = Vec::new();
        loop {
            batch.pull()?;
            let Some(&first) = batch.ahead().first() else { return Ok(()) };
            let guard = &epoch::pin();
            let (leaf, _) = self.lock_covering(first, 0)?;
            let group = batch.group(&leaf.node.fences(&self.pool)?);
            let used = leaf.used();
            let in_place = group <= SHIFTS_IN_PLACE_MAX && used + group <= self.slots();
            if !in_place {
                drop(leaf);
                self.update_group(&mut batch, &mut changes, &mut decide, guard)?;
                continue;
            }
            let keys = &batch.ahead()[..group];
            let failure = self.decide_all(&leaf, keys, batch.done, &mut decide, &mut changes, guard);
            let left = apply_in_place(&leaf, used, &changes);
            drop(leaf);
            if left < used && self.is_sparse(left) {
                if let Some(mut structure) = self.try_settled_structure(guard) {
                    self.merge_around(&mut structure, first, guard);
                }
            }
            failure?;
            batch.advance(group);
        }
    }

    /// The keys of a batch that fall into one leaf, or some of them, when the leaf may have to be replaced.
    fn update_group<'k>(
        &self,
        batch: &mut Batch<'k, impl Iterator<Item = &'k [u8]>>,
        changes: &mut Vec<Change>,
        decide: &mut impl FnMut(usize, Option<KeyRecord<'_>>) -> Result<Decision>,
        guard: &Guard,
    ) -> Result<()> {
        let mut structure = self.structure();
        let settled = self.settle(&mut structure, guard);
        let first = batch.ahead()[0];
        let (leaf, _) = self.lock_covering(first, 0)?;
        let (fences, used, slots) = (leaf.node.fences(&self.pool)?, leaf.used(), self.slots());
        let mut group = batch.group(&fences).min(batch.group_max - used);
        let keys: Vec<(&[u8], u64)> = batch.ahead()[..group].iter().map(|key| (*key, head_in(&fences, key))).collect();
        let absent = keys
            .iter()
            .map(|&(key, head)| Ok(self.find(&leaf, head, key, guard)?.at.is_err()))
            .collect::<Result<Vec<bool>>>()?;
        let inserts_max = absent.iter().filter(|&&absent| absent).count();
        let entries: Vec<Entry> = leaf.entries().collect();
        let mut reserve = None;
        if inserts_max > SHIFTS_IN_PLACE_MAX || used + inserts_max > slots {
            let blocks = match &settled {
                Ok(()) => self.reserve(&fences, &entries, &keys, inserts_max, guard),
                Err(error) => Err(error.clone()),
            };
            match blocks {
                Ok(blocks) => reserve = Some(blocks),
                Err(full @ Error::Full { .. }) => {
                    // What needs no new node can still be done.
                    group = keys_that_fit(&absent, slots - used);
                    if group == 0 {
                        return Err(full);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        let keys = &batch.ahead()[..group];
        let failure = self.decide_all(&leaf, keys, batch.done, decide, changes, guard);
        let inserts = changes.iter().filter(|change| matches!(change, Change::Insert { .. })).count();
        let shifts = changes.iter().filter(|change| !matches!(change, Change::Swap { .. })).count();
        if reserve.is_none() && settled.is_ok() && shifts > SHIFTS_IN_PLACE_MAX && used + inserts <= slots {
            // Many removals. Without a block they are done one by one.
            reserve = self.reserve(&fences, &entries, &[], 0, guard).ok();
        }
        let left = match reserve {
            Some(reserve) if shifts > SHIFTS_IN_PLACE_MAX || used + inserts > slots => {
                self.replace_leaf(&mut structure, leaf, changes, reserve, guard)?
            }
            _ => {
                let left = apply_in_place(&leaf, used, changes);
                drop(leaf);
                left
            }
        };
        if left < used && self.is_sparse(left) {
            self.merge_around(&mut structure, first, guard);
        }
        failure?;
        batch.advance(group);
        Ok(())
    }

    /// Makes the tree point to a record of a put, whatever it has for the key now.
    pub fn insert_or_replace(&self, key: &[u8], record: u64) -> Result<Applied> {
        self.update(key, |_| Ok(Decision::Put(record)))
    }

    /// Removes a key, if it is there.
    pub fn remove(&self, key: &[u8]) -> Result<Applied> {
        self.update(key, |_| Ok(Decision::Remove))
    }

    /// Makes the tree point to the record `new` if it points to the record `expected` now. Says whether it did.
    pub fn compare_and_swap(&self, key: &[u8], expected: u64, new: u64) -> Result<bool> {
        let applied = self.update(key, |current| match current {
            Some(record) if record.offset() == expected => Ok(Decision::Put(new)),
            _ => Ok(Decision::Keep),
        })?;
        Ok(applied != Applied::Nothing)
    }

    fn find(&self, leaf: &Locked<'_, M>, head: u64, key: &[u8], guard: &Guard) -> Result<Place> {
        leaf.find(head, |pointer| Ok(self.record(pointer, guard)?.key().cmp(key)))
    }

    /// Asks for a decision about one key and checks it.
    fn decide(
        &self,
        leaf: &Locked<'_, M>,
        place: Place,
        head: u64,
        key: &[u8],
        decide: impl FnOnce(Option<KeyRecord<'_>>) -> Result<Decision>,
        guard: &Guard,
    ) -> Result<Option<Change>> {
        let current = place.at.ok().map(|at| self.record(leaf.entry(at).pointer, guard)).transpose()?;
        match (decide(current)?, place.at) {
            (Decision::Keep, _) | (Decision::Remove, Err(_)) => Ok(None),
            (Decision::Remove, Ok(at)) => Ok(Some(Change::Remove { at })),
            (Decision::Put(record), at) => {
                if self.record(record, guard)?.key().cmp(key) != Ordering::Equal {
                    return Err(Error::invalid("the tree was told to point to the record of another key"));
                }
                Ok(Some(match at {
                    Ok(at) => Change::Swap { at, pointer: record },
                    Err(at) => Change::Insert { at, entry: Entry { head, pointer: record } },
                }))
            }
        }
    }

    /// Asks for decisions about keys of one leaf, in order. After an error, `changes` has those before it.
    fn decide_all(
        &self,
        leaf: &Locked<'_, M>,
        keys: &[&[u8]],
        number: usize,
        decide: &mut impl FnMut(usize, Option<KeyRecord<'_>>) -> Result<Decision>,
        changes: &mut Vec<Change>,
        guard: &Guard,
    ) -> Result<()> {
        changes.clear();
        let fences = leaf.node.fences(&self.pool)?;
        let mut least = 0;
        for (index, key) in keys.iter().enumerate() {
            let head = head_in(&fences, key);
            let place = self.find(leaf, head, key, guard)?;
            let (at, next) = place.at.map_or_else(|at| (at, at), |at| (at, at + 1));
            if at < least {
                return Err(self.damaged(leaf.node.offset, "the keys of a leaf are out of order"));
            }
            least = next;
            changes.extend(self.decide(leaf, place, head, key, |current| decide(number + index, current), guard)?);
        }
        Ok(())
    }

    /// Replaces a leaf by what it is after the changes. Gives the number of entries.
    fn replace_leaf(
        &self,
        structure: &mut Structure,
        leaf: Locked<'_, M>,
        changes: &[Change],
        reserve: Reserve<'_, M>,
        guard: &Guard,
    ) -> Result<usize> {
        let fences = leaf.node.fences(&self.pool)?;
        let old: Vec<Entry> = leaf.entries().collect();
        let mut entries = Vec::with_capacity(old.len() + changes.len());
        let mut from = 0;
        for change in changes {
            let (&Change::Swap { at, .. } | &Change::Insert { at, .. } | &Change::Remove { at }) = change;
            entries.extend_from_slice(&old[from..at]);
            from = at;
            match *change {
                Change::Insert { entry, .. } => entries.push(entry),
                Change::Swap { at, pointer } => {
                    entries.push(Entry { head: old[at].head, pointer });
                    from += 1;
                }
                Change::Remove { .. } => from += 1,
            }
        }
        entries.extend_from_slice(&old[from..]);
        let (low, high) = (fences.low(), fences.high());
        // Keys in ascending order: full leaves stay behind.
        let mut inserts = changes.iter().filter(|change| !matches!(change, Change::Swap { .. }));
        let appended = inserts.all(|change| matches!(change, Change::Insert { at, .. } if *at == old.len()));
        let fill = if high.is_none() && appended { Fill::Brim } else { Fill::Even };
        let (count, cuts) = (entries.len(), cuts(entries.len(), self.slots(), fill));
        let (sibling, heads_behind) = (leaf.node.sibling(), Some(fences.shape.prefix.into()));
        let plan = Replacement { level: 0, low, high: high.as_deref(), sibling, entries, heads_behind, cuts };
        self.replace(structure, vec![leaf], plan, reserve, guard)?;
        Ok(count)
    }

    /// Whether a node with so many entries should be merged with a neighbour.
    pub(super) fn is_sparse(&self, used: usize) -> bool {
        used * 4 < self.slots()
    }
}

fn check_key(key: &[u8]) -> Result<()> {
    if key.len() > MAXIMUM_KEY_BYTES {
        return Err(Error::invalid(format!(
            "a key of {} bytes is too long, {MAXIMUM_KEY_BYTES} are allowed",
            key.len()
        )));
    }
    Ok(())
}

/// How many keys, from the first on, can be put into a leaf with so many free slots.
fn keys_that_fit(absent: &[bool], mut room: usize) -> usize {
    for (index, _) in absent.iter().enumerate().filter(|&(_, &absent)| absent) {
        match room.checked_sub(1) {
            Some(left) => room = left,
            None => return index,
        }
    }
    absent.len()
}

/// The head of a key in a leaf that covers it.
fn head_in(fences: &Fences<'_>, key: &[u8]) -> u64 {
    match fences.side(&Target::At(key)) {
        Side::Inside(head) => head,
        Side::Left | Side::Right => unreachable!("the keys of a group are within the fences of its leaf"),
    }
}

fn applied<M: Medium>(leaf: &Locked<'_, M>, change: Option<Change>) -> Applied {
    match change {
        None => Applied::Nothing,
        Some(Change::Insert { .. }) => Applied::Inserted,
        Some(Change::Swap { at, .. }) => Applied::Replaced { old: leaf.entry(at).pointer },
        Some(Change::Remove { at }) => Applied::Removed { old: leaf.entry(at).pointer },
    }
}

/// Makes changes, given in key order, one after the other. Gives the number of entries that are left.
fn apply_in_place<M: Medium>(leaf: &Locked<'_, M>, mut used: usize, changes: &[Change]) -> usize {
    let swaps = changes.iter().filter_map(|change| match *change {
        Change::Swap { at, pointer } => Some((at, pointer)),
        _ => None,
    });
    if swaps.clone().next().is_some() {
        leaf.swap(swaps);
    }
    // From the right end, so that the slots of those to come stay what they are.
    for change in changes.iter().rev() {
        match *change {
            Change::Swap { .. } => {}
            Change::Insert { at, entry } => {
                leaf.insert(used, at, entry);
                used += 1;
            }
            Change::Remove { at } => {
                leaf.remove(used, at);
                used -= 1;
            }
        }
    }
    used
}

/// The keys of a sorted batch, and how far it has come.
struct Batch<'k, I: Iterator<Item = &'k [u8]>> {
    keys: I,
    /// Keys read from the iterator; those before `start` are done.
    ahead: Vec<&'k [u8]>,
    start: usize,
    /// How many keys are done.
    done: usize,
    /// As many keys of one leaf at most can be done at once.
    group_max: usize,
}

impl<'k, I: Iterator<Item = &'k [u8]>> Batch<'k, I> {
    /// Reads keys ahead, so that the iterator is not run under a lock.
    fn pull(&mut self) -> Result<()> {
        if self.ahead().len() >= self.group_max {
            return Ok(());
        }
        self.ahead.drain(..self.start);
        self.start = 0;
        while self.ahead.len() < 2 * self.group_max {
            let Some(key) = self.keys.next() else { break };
            check_key(key)?;
            if self.ahead.last().is_some_and(|&last| last >= key) {
                return Err(Error::invalid("the keys of a sorted batch do not ascend"));
            }
            self.ahead.push(key);
        }
        Ok(())
    }

    fn ahead(&self) -> &[&'k [u8]] {
        &self.ahead[self.start..]
    }

    /// How many of the next keys are within the fences.
    fn group(&self, fences: &Fences<'_>) -> usize {
        let inside = |key: &&&[u8]| matches!(fences.side(&Target::At(key)), Side::Inside(_));
        self.ahead().iter().take(self.group_max).take_while(inside).count()
    }

    fn advance(&mut self, count: usize) {
        self.start += count;
        self.done += count;
    }
}
