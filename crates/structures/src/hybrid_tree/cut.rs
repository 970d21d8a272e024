//! Taking keys out: all up to a key, some of them, or all.

use std::cmp::Ordering;
use std::sync::Arc;

use slmdb_env::{Error, Result};
use slmdb_pmem::Medium;
use slmdb_sync::epoch::{self, Guard};

use super::apply::{GROUP_KEYS, Step};
use super::directory::{Directory, Position, Successors};
use super::layout::{EPOCH_OFFSET, FIRST_OFFSET, VALID_BITS, epoch_word, fingerprint};
use super::leaf::{Leaf, slots_of};
use super::record::Record;
use super::tree::{Counts, HybridTree, State};

impl<M: Medium> HybridTree<M> {
    /// Takes out all keys up to this one, and this one. Durable on return. One store takes all leaves before the boundary; a
    /// crash leaves all of them, or none.
    pub fn cut_through(&self, key: &[u8]) -> Result<()> {
        let mut counts = self.writer();
        let guard = epoch::pin();
        let state = self.published.load_full();
        let directory = &state.directory;
        let Some(mut boundary) = directory.find(key, &self.order) else { return Ok(()) };
        let mut gone = Gone::default();
        self.pool.note_read();
        let leaf = self.leaf(directory.leaf(boundary), state.epoch)?;
        let mut rest = leaf.commit() & VALID_BITS;
        let mut records = Vec::new();
        for slot in slots_of(rest) {
            self.pool.note_read();
            let record = Record::intact_at(&*self.pool, leaf.record(slot), &guard)?;
            if self.order.compare(record.key, key) != Ordering::Greater {
                rest &= !(1 << slot);
                gone.add(leaf.record(slot), &record);
            }
        }
        let mut kept = Some(boundary);
        if rest == 0 {
            gone.slots.push(leaf.offset);
            kept = directory.next(boundary);
        } else if rest != leaf.commit() & VALID_BITS {
            self.make_visible(&[Step::Change { leaf, swings: Vec::new(), valid: Some(rest) }])?;
        }
        while let Some(before) = directory.previous(boundary) {
            self.take_leaf(&state, before, &guard, &mut records, &mut gone)?;
            boundary = before;
        }
        if kept != directory.first() {
            let target = kept.map_or(0, |kept| directory.leaf(kept));
            self.make_visible(&[Step::Link { place: self.root() + FIRST_OFFSET, target }])?;
            let directory = kept.map_or_else(Directory::default, |kept| directory.without_prefix(kept, &self.order));
            self.set_directory(&mut counts, directory, state.epoch);
        }
        gone.count_off(&mut counts);
        self.size.note(&counts);
        self.retire(gone.slots, &guard);
        Ok(())
    }

    /// Takes out these keys, which come in ascending order, each if its entry has the number that is said. Durable on return; a
    /// crash leaves some of them.
    pub fn remove<'k>(&self, keys: impl IntoIterator<Item = (&'k [u8], u64)>) -> Result<()> {
        let mut counts = self.writer();
        let mut keys = keys.into_iter();
        let mut group: Vec<(&[u8], u64)> = Vec::with_capacity(GROUP_KEYS);
        loop {
            group.clear();
            group.extend(keys.by_ref().take(GROUP_KEYS));
            if group.is_empty() {
                return Ok(());
            }
            self.remove_group(&mut counts, &group)?;
        }
    }

    fn remove_group(&self, counts: &mut Counts, group: &[(&[u8], u64)]) -> Result<()> {
        let guard = epoch::pin();
        let state = self.published.load_full();
        let mut gone = Gone::default();
        // The leaves that change, with what stays valid.
        let mut changed: Vec<(Position, Leaf<'_>, u64)> = Vec::new();
        for &(key, sequence) in group {
            let Some(position) = state.directory.find(key, &self.order) else { break };
            if changed.last().is_none_or(|last| last.0 != position) {
                if changed.last().is_some_and(|last| last.0 > position) {
                    return Err(Error::invalid("the keys to be removed are not in ascending order"));
                }
                self.pool.note_read();
                let leaf = self.leaf(state.directory.leaf(position), state.epoch)?;
                changed.push((position, leaf, leaf.commit() & VALID_BITS));
            }
            let Some((_, leaf, rest)) = changed.last_mut() else { continue };
            for slot in slots_of(leaf.candidates(fingerprint(key)) & *rest) {
                self.pool.note_read();
                let record = Record::intact_at(&*self.pool, leaf.record(slot), &guard)?;
                if record.key == key && record.version.sequence == sequence {
                    *rest &= !(1 << slot);
                    gone.add(leaf.record(slot), &record);
                }
            }
        }
        changed.retain(|(_, leaf, rest)| *rest != leaf.commit() & VALID_BITS);
        let mut steps = self.bypasses(&state.directory, &changed)?;
        let mut edits: Vec<(Position, Successors)> = Vec::new();
        for (position, leaf, rest) in changed {
            if rest == 0 {
                edits.push((position, Vec::new()));
                gone.slots.push(leaf.offset);
            }
            steps.push(Step::Change { leaf, swings: Vec::new(), valid: Some(rest) });
        }
        if !steps.is_empty() {
            self.make_visible(&steps)?;
            self.publish(counts, &state, None, &edits);
            gone.count_off(counts);
            self.size.note(counts);
            self.retire(gone.slots, &guard);
        }
        Ok(())
    }

    /// The links that lead past leaves that become empty.
    fn bypasses<'t>(&'t self, directory: &Directory, changed: &[(Position, Leaf<'_>, u64)]) -> Result<Vec<Step<'t>>> {
        let mut steps = Vec::new();
        let mut open: Option<(u64, Option<Position>)> = None;
        for (position, leaf, _) in changed.iter().filter(|(_, _, rest)| *rest == 0) {
            let place = match open {
                // The one before is empty too.
                Some((place, next)) if next == Some(*position) => {
                    steps.pop();
                    place
                }
                _ => self.place_before(directory, Some(*position), leaf.offset)?,
            };
            steps.push(Step::Link { place, target: leaf.next(&self.pool)? });
            open = Some((place, directory.next(*position)));
        }
        Ok(steps)
    }

    /// Takes out everything, and begins anew with another epoch: what the leaves of the old one still say counts no more.
    /// Durable on return; a crash leaves everything, or nothing, and the old epoch or the new one.
    pub fn begin_again(&self, epoch: u32) -> Result<()> {
        let mut counts = self.writer();
        let guard = epoch::pin();
        let state = self.published.load_full();
        let (mut gone, mut records) = (Gone::default(), Vec::new());
        let mut at = state.directory.first();
        while let Some(position) = at {
            self.take_leaf(&state, position, &guard, &mut records, &mut gone)?;
            at = state.directory.next(position);
        }
        self.make_visible(&[Step::Link { place: self.root() + FIRST_OFFSET, target: 0 }])?;
        let place = self.root() + EPOCH_OFFSET;
        self.pool.store(place, epoch_word(place, epoch))?;
        self.pool.persist(place, 8);
        *counts = Counts::default();
        self.set_directory(&mut counts, Directory::default(), epoch);
        self.size.note(&counts);
        self.retire(gone.slots, &guard);
        Ok(())
    }

    fn set_directory(&self, counts: &mut Counts, directory: Directory, epoch: u32) {
        counts.set_leaves(directory.leaves());
        self.published.store(Arc::new(State { directory, epoch }));
    }

    /// Notes a whole leaf and its records as gone.
    fn take_leaf<'g>(
        &'g self,
        state: &State,
        position: Position,
        guard: &'g Guard,
        records: &mut Vec<(Record<'g>, u64)>,
        gone: &mut Gone,
    ) -> Result<()> {
        self.pool.note_read();
        let leaf = self.leaf(state.directory.leaf(position), state.epoch)?;
        self.records_of(&leaf, leaf.commit(), guard, records)?;
        records.iter().for_each(|(record, offset)| gone.add(*offset, record));
        gone.slots.push(leaf.offset);
        Ok(())
    }
}

/// What leaves the tree.
#[derive(Default)]
struct Gone {
    slots: Vec<u64>,
    /// Of each record, its file and its bytes.
    records: Vec<(u32, u32)>,
}

impl Gone {
    fn add(&mut self, offset: u64, record: &Record<'_>) {
        self.slots.push(offset);
        self.records.push((record.version.file, record.bytes()));
    }

    fn count_off(&self, counts: &mut Counts) {
        self.records.iter().for_each(|&(file, record_bytes)| counts.subtract(file, record_bytes));
    }
}
