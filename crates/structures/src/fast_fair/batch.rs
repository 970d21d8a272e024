//! Updates of many keys in order.
//!
//! Keys that fall into one leaf go in under one lock and with few flushes. Few of them are put in place (`change`); for
//! many, or too many, the leaf is replaced (`replace`). Each key's change is atomic by itself; a batch is not.
//!
//! Sorted keys have nearly the whole way down in common. So the parent of the last leaf is remembered, and the leaf that
//! will be needed next is asked for while this one is changed.

use slmdb_env::{Error, Result};
use slmdb_order::KeyOrder;
use slmdb_pmem::Medium;
use slmdb_sync::epoch::{self, Guard};

use super::build::comfortable;
use super::change::Locked;
use super::fences::{Fences, Side, Target};
use super::intent::NEW_NODES_MAX;
use super::key_record::KeyRecord;
use super::node::Entry;
use super::tree::{OUT_OF_ORDER, Tree};
use super::update::{Change, Decision, apply_in_place, check_key};

/// Up to so many shifts are made in place where each has to be flushed by itself; for more the leaf is replaced. Where
/// nothing is flushed a shift is always cheaper.
const SHIFTS_IN_PLACE_MAX: usize = 3;
/// After so many leaves others get a chance to free memory.
const LEAVES_PINNED_MAX: usize = 16;
/// The leaf of the key so many further on is asked for.
const KEYS_AHEAD: usize = 2;

impl<M: Medium> Tree<M> {
    /// As [`Tree::update`] for many keys, which ascend strictly; `decide` gets the number of the key, from 0. Keys that
    /// fall into one leaf go in under one lock and with few flushes. After an error, the keys before some place have been
    /// decided and applied, and those from there on have not been; if the error is `decide`'s own, that place is the key it
    /// was given for.
    ///
    /// `decide` runs under a leaf's lock, sometimes under that of the tree's structure too, and must not use the tree; the
    /// iterator runs under none. [`Error::Full`] comes before the key is decided: if it is new, its leaf is full and there
    /// is no block for another, whatever would have been said.
    pub fn update_sorted<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]>,
        decide: impl FnMut(usize, Option<KeyRecord<'_>>) -> Result<Decision>,
    ) -> Result<()> {
        self.walk_sorted(keys, true, decide)
    }

    /// As [`Tree::update_sorted`], for changes that only make the tree point elsewhere: keys that the tree does not have are
    /// left out, and for the others `decide` gives the record to point to, if any. Needs no room.
    pub fn swap_sorted<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]>,
        mut decide: impl FnMut(usize, KeyRecord<'_>) -> Result<Option<u64>>,
    ) -> Result<()> {
        self.walk_sorted(keys, false, |number, current| {
            let swapped = current.map_or(Ok(None), |current| decide(number, current))?;
            Ok(swapped.map_or(Decision::Keep, Decision::Put))
        })
    }

    /// `may_change_count`: whether `decide` may insert and remove, and not just swap.
    fn walk_sorted<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]>,
        may_change_count: bool,
        mut decide: impl FnMut(usize, Option<KeyRecord<'_>>) -> Result<Decision>,
    ) -> Result<()> {
        let group_max = NEW_NODES_MAX * comfortable(self.slots());
        let (ahead, order) = (Vec::with_capacity(2 * group_max), &self.order);
        let mut batch = Batch { keys, order, ahead, start: 0, done: 0, group_max };
        let shifts_in_place_max = self.shifts_in_place_max();
        let mut changes = Vec::new();
        let mut guard = epoch::pin();
        let (mut parent, mut leaves) = (None, 0_usize);
        loop {
            batch.pull()?;
            let Some(&first) = batch.ahead().first() else { return Ok(()) };
            leaves += 1;
            if leaves % LEAVES_PINNED_MAX == 0 {
                // What was remembered may be gone after this.
                parent = None;
                guard.flush();
                guard.repin();
            }
            let guard = &guard;
            parent = self.parent(parent, first)?;
            if let (Some(parent), Some(&ahead)) = (&parent, batch.ahead().get(KEYS_AHEAD)) {
                self.leaf_ahead(parent, ahead)?;
            }
            let (leaf, _) = self.lock_covering_from(parent, Target::At(first), 0)?;
            let group = batch.group(&leaf.node.fences(&self.pool)?);
            if group == 0 {
                return Err(self.damaged(leaf.node.offset, OUT_OF_ORDER));
            }
            let used = leaf.used();
            let in_place = !may_change_count || group <= shifts_in_place_max && used + group <= self.slots();
            if !in_place {
                drop(leaf);
                self.update_group(&mut batch, &mut changes, &mut decide, guard)?;
                continue;
            }
            let keys = &batch.ahead()[..group];
            let failure = self.decide_all(&leaf, keys, batch.done, &mut decide, &mut changes, guard);
            let left = apply_in_place(&leaf, used, &changes);
            drop(leaf);
            if left < used
                && self.is_sparse(left)
                && let Some(mut structure) = self.try_settled_structure(guard)
            {
                self.merge_around(&mut structure, first, guard);
            }
            failure?;
            batch.advance(group);
        }
    }

    /// The keys of a batch that fall into one leaf, or some of them, when the leaf may have to be replaced.
    fn update_group<'k>(
        &self,
        batch: &mut Batch<'k, '_, impl Iterator<Item = &'k [u8]>>,
        changes: &mut Vec<Change>,
        decide: &mut impl FnMut(usize, Option<KeyRecord<'_>>) -> Result<Decision>,
        guard: &Guard,
    ) -> Result<()> {
        let mut structure = self.structure();
        let settled = self.settle(&mut structure, guard);
        let first = batch.ahead()[0];
        let (leaf, _) = self.lock_covering(Target::At(first), 0)?;
        let (fences, used, slots) = (leaf.node.fences(&self.pool)?, leaf.used(), self.slots());
        let mut group = batch.group(&fences).min(batch.group_max - used);
        let keys = batch.ahead()[..group]
            .iter()
            .map(|key| Ok((*key, self.head_in(&leaf, &fences, key)?)))
            .collect::<Result<Vec<(&[u8], u64)>>>()?;
        let absent = keys
            .iter()
            .map(|&(key, head)| Ok(self.find(&leaf, head, key, guard)?.at.is_err()))
            .collect::<Result<Vec<bool>>>()?;
        let inserts_max = absent.iter().filter(|&&absent| absent).count();
        let entries: Vec<Entry> = leaf.entries().collect();
        let mut reserve = None;
        if inserts_max > self.shifts_in_place_max() || used + inserts_max > slots {
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
        if reserve.is_none() && settled.is_ok() && shifts > self.shifts_in_place_max() && used + inserts <= slots {
            // Many removals. Without a block they are done one by one.
            reserve = self.reserve(&fences, &entries, &[], 0, guard).ok();
        }
        if reserve.is_none() && used + inserts > slots {
            // No total order says first that a key is there, and then that it is not.
            return Err(self.damaged(leaf.node.offset, OUT_OF_ORDER));
        }
        let left = match reserve {
            Some(reserve) if shifts > self.shifts_in_place_max() || used + inserts > slots => {
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
            let head = self.head_in(leaf, &fences, key)?;
            let place = self.find(leaf, head, key, guard)?;
            let (at, next) = place.at.map_or_else(|at| (at, at), |at| (at, at + 1));
            if at < least {
                return Err(self.damaged(leaf.node.offset, OUT_OF_ORDER));
            }
            least = next;
            changes.extend(self.decide(leaf, place, head, key, |current| decide(number + index, current), guard)?);
        }
        Ok(())
    }

    fn shifts_in_place_max(&self) -> usize {
        if self.pool.medium().is_persistent() { SHIFTS_IN_PLACE_MAX } else { usize::MAX }
    }
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

/// The keys of a sorted batch, and how far it has come.
struct Batch<'k, 'o, I: Iterator<Item = &'k [u8]>> {
    keys: I,
    order: &'o KeyOrder,
    /// Keys read from the iterator; those before `start` are done.
    ahead: Vec<&'k [u8]>,
    start: usize,
    /// How many keys are done.
    done: usize,
    /// As many keys of one leaf at most can be done at once.
    group_max: usize,
}

impl<'k, I: Iterator<Item = &'k [u8]>> Batch<'k, '_, I> {
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
            if self.ahead.last().is_some_and(|&last| self.order.compare(last, key).is_ge()) {
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
        let inside = |key: &&&[u8]| matches!(fences.side(&Target::At(key), self.order), Side::Inside(_));
        self.ahead().iter().take(self.group_max).take_while(inside).count()
    }

    fn advance(&mut self, count: usize) {
        self.start += count;
        self.done += count;
    }
}
