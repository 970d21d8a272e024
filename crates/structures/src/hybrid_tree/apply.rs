//! Bringing entries in: a flush. Groups of keys, two fences each.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use slmdb_env::{Error, Result};
use slmdb_pmem::{ExtentKind, Medium};
use slmdb_sync::epoch::{self, Guard};

use super::directory::{Directory, Position, Successors, separator};
use super::layout::{FIRST_OFFSET, LEAF_BYTES, LEAF_SLOTS, VALID_BITS, fingerprint, link};
use super::leaf::{Image, Leaf, slots_of};
use super::record::{Entry, Record, Version};
use super::tree::{Counts, HybridTree, State};

/// Keys of a group: so many become durable by two fences.
pub const GROUP_KEYS: usize = 256;
/// Keys of a leaf that comes out of a split.
const FILL_KEYS: usize = 36;
/// The same where keys come in ascending order behind all others.
const ASCENDING_FILL_KEYS: usize = 46;

/// A leaf and the keys of the group that it covers.
struct Run<'t> {
    position: Option<Position>,
    leaf: Option<Leaf<'t>>,
    commit: u64,
    keys: Range<usize>,
    /// How many of them are new to it.
    inserts: usize,
}

/// What is to be done for one key.
#[derive(Clone, Default)]
struct Work<'g> {
    fingerprint: u8,
    candidates: u64,
    /// Its slot and record, if it is there.
    old: Option<(usize, u64, Option<Record<'g>>)>,
    /// Where its new record is. `None`: the old one stays.
    record: Option<u64>,
}

/// What is stored after the first fence.
pub(super) enum Step<'t> {
    /// Record offsets of slots, and the slots that are valid from then on.
    Change { leaf: Leaf<'t>, swings: Vec<(usize, u64)>, valid: Option<u64> },
    /// A link to a leaf.
    Link { place: u64, target: u64 },
}

/// A group that was written, and that nothing leads to yet.
#[derive(Default)]
struct Prepared<'t> {
    steps: Vec<Step<'t>>,
    edits: Vec<(Position, Successors)>,
    /// The first leaves of a tree that had none.
    first: Option<Vec<(Vec<u8>, u64)>>,
    retired: Vec<u64>,
}

impl<M: Medium> HybridTree<M> {
    /// Brings entries in, which come in ascending order of their keys. A key that has an entry with the same or a higher
    /// number keeps it, so doing this twice does no harm. `on_replaced` is told of every version that goes, with the entry that
    /// comes in its place, before any reader can miss it.
    ///
    /// Durable on return. After a crash some of the keys have their new versions. The same holds after an error: groups
    /// before the one that failed are there. [`Error::Full`] if the pool has no room ([`pool_bytes_max`](super::pool_bytes_max)).
    pub fn apply<'e>(
        &self,
        entries: impl IntoIterator<Item = Entry<'e>>,
        mut on_replaced: impl FnMut(&Entry<'_>, Version),
    ) -> Result<()> {
        let mut counts = self.writer();
        let mut entries = entries.into_iter();
        let mut group: Vec<Entry<'e>> = Vec::with_capacity(GROUP_KEYS);
        loop {
            let last = group.last().copied();
            group.clear();
            group.extend(entries.by_ref().take(GROUP_KEYS));
            if group.is_empty() {
                return Ok(());
            }
            self.check_group(last, &group)?;
            self.apply_group(&mut counts, &group, &mut on_replaced)?;
        }
    }

    fn check_group(&self, last: Option<Entry<'_>>, group: &[Entry<'_>]) -> Result<()> {
        let mut before = last;
        for entry in group {
            if let Some(fault) = entry.fault() {
                return Err(Error::invalid(fault));
            }
            if before.is_some_and(|before| self.order.compare(before.key, entry.key) != Ordering::Less) {
                return Err(Error::invalid("the entries for a tree are not in ascending order"));
            }
            before = Some(*entry);
        }
        Ok(())
    }

    fn apply_group(
        &self,
        counts: &mut Counts,
        group: &[Entry<'_>],
        on_replaced: &mut impl FnMut(&Entry<'_>, Version),
    ) -> Result<()> {
        let guard = epoch::pin();
        let state = self.published.load_full();
        let mut runs = self.runs(&state, group)?;
        let mut works = self.works(&mut runs, group, &guard)?;
        let mut taken = Vec::new();
        let prepared = self
            .write_records(group, &mut works, &mut taken)
            .and_then(|()| self.prepare(&state, &runs, &works, group, &guard, &mut taken))
            .inspect_err(|_| self.slots.give_back(&taken))?;
        if taken.is_empty() {
            return Ok(());
        }
        self.pool.fence();
        self.tell_replaced(counts, group, &works, on_replaced);
        self.make_visible(&prepared.steps)?;
        self.publish(counts, &state, prepared.first, &prepared.edits);
        self.size.note(counts);
        self.retire(prepared.retired, &guard);
        Ok(())
    }

    /// Which leaf covers which keys.
    fn runs<'t>(&'t self, state: &State, group: &[Entry<'_>]) -> Result<Vec<Run<'t>>> {
        let (mut runs, mut from) = (Vec::new(), 0);
        while from < group.len() {
            let position = state.directory.find(group[from].key, &self.order);
            let high = position.and_then(|position| state.directory.high(position));
            let is_inside =
                |entry: &&Entry<'_>| high.is_none_or(|high| self.order.compare(entry.key, high) == Ordering::Less);
            // At least one, whatever the order says.
            let to = from + 1 + group[from + 1..].iter().take_while(is_inside).count();
            if let Some(position) = position {
                Leaf::prefetch(&self.pool, state.directory.leaf(position), true);
            }
            // Under an order that is none a leaf could come twice. It may not: its second run would not see the first.
            if position.is_some() && runs.last().is_some_and(|last: &Run<'_>| last.position >= position) {
                return Err(Error::invalid("the comparator is no total order"));
            }
            runs.push(Run { position, leaf: None, commit: 0, keys: from..to, inserts: 0 });
            from = to;
        }
        // All leaves were asked for.
        if runs.iter().any(|run| run.position.is_some()) {
            self.pool.note_read();
        }
        for run in &mut runs {
            if let Some(position) = run.position {
                let leaf = self.leaf(state.directory.leaf(position), state.epoch)?;
                (run.leaf, run.commit) = (Some(leaf), leaf.commit());
            }
        }
        Ok(runs)
    }

    /// Looks all keys up: first what may be their records is asked for, then it is read.
    fn works<'g>(&'g self, runs: &mut [Run<'_>], group: &[Entry<'_>], guard: &'g Guard) -> Result<Vec<Work<'g>>> {
        let mut works = vec![Work::default(); group.len()];
        for run in &*runs {
            for (entry, work) in group[run.keys.clone()].iter().zip(&mut works[run.keys.clone()]) {
                work.fingerprint = fingerprint(entry.key);
                let Some(leaf) = run.leaf else { continue };
                work.candidates = leaf.candidates(work.fingerprint) & run.commit & VALID_BITS;
                slots_of(work.candidates).for_each(|slot| self.prefetch_record(leaf.record(slot)));
            }
        }
        if works.iter().any(|work| work.candidates != 0) {
            self.pool.note_read();
        }
        for run in runs {
            let mut found = 0_u64;
            for (entry, work) in group[run.keys.clone()].iter().zip(&mut works[run.keys.clone()]) {
                let Some(leaf) = run.leaf else { continue };
                for slot in slots_of(work.candidates) {
                    let record = Record::intact_at(&*self.pool, leaf.record(slot), guard)?;
                    if record.key == entry.key {
                        // The key came before: a record must not be given back twice.
                        if found & (1 << slot) != 0 {
                            return Err(Error::invalid("the comparator is no total order"));
                        }
                        found |= 1 << slot;
                        work.old = Some((slot, leaf.record(slot), Some(record)));
                        break;
                    }
                }
            }
            run.inserts = works[run.keys.clone()].iter().filter(|work| work.old.is_none()).count();
            let is_full = run.inserts > LEAF_SLOTS - (run.commit & VALID_BITS).count_ones() as usize;
            if let (Some(leaf), true) = (run.leaf, is_full) {
                slots_of(run.commit & VALID_BITS).for_each(|slot| self.prefetch_record(leaf.record(slot)));
            }
        }
        Ok(works)
    }

    /// Writes the records of what is newer than what is there. Flushed, not fenced.
    fn write_records(&self, group: &[Entry<'_>], works: &mut [Work<'_>], taken: &mut Vec<u64>) -> Result<()> {
        let is_newer = |entry: &Entry<'_>, work: &Work<'_>| {
            work.old.and_then(|(_, _, record)| record).is_none_or(|old| old.version.sequence < entry.version.sequence)
        };
        let newer = group.iter().zip(&*works).filter(|(entry, work)| is_newer(entry, work));
        self.slots.take(ExtentKind::Records, newer.map(|(entry, _)| entry.record_bytes()), taken)?;
        let mut places = taken.iter().copied();
        let (mut buffer, mut unflushed) = (Vec::new(), 0..0);
        for (entry, work) in group.iter().zip(works) {
            if !is_newer(entry, work) {
                continue;
            }
            let Some(place) = places.next() else { break };
            entry.encode(place, &mut buffer);
            // SAFETY: the slot was just taken; nothing leads to it.
            unsafe { self.pool.write(place, &buffer)? };
            // Records that lie side by side share lines: each line is flushed once.
            if place >= unflushed.end && place - unflushed.end < 64 && unflushed.end > 0 {
                unflushed.end = place + buffer.len() as u64;
            } else {
                self.pool.flush(unflushed.start, unflushed.end - unflushed.start);
                unflushed = place..place + buffer.len() as u64;
            }
            work.record = Some(place);
        }
        self.pool.flush(unflushed.start, unflushed.end - unflushed.start);
        Ok(())
    }

    /// Writes what nothing leads to yet: slots without their bits, and whole leaves.
    fn prepare<'t>(
        &'t self,
        state: &State,
        runs: &[Run<'t>],
        works: &[Work<'t>],
        group: &[Entry<'_>],
        guard: &'t Guard,
        taken: &mut Vec<u64>,
    ) -> Result<Prepared<'t>> {
        let mut prepared = Prepared::default();
        // The leaves that come in the place of one, and the one that stands behind it.
        let mut replacements: Vec<(Option<Position>, Vec<Image>, u64, u64)> = Vec::new();
        for run in runs {
            let works = &works[run.keys.clone()];
            let old = works.iter().filter(|work| work.record.is_some()).filter_map(|work| work.old);
            prepared.retired.extend(old.map(|(_, offset, _)| offset));
            let free_slots = LEAF_SLOTS - (run.commit & VALID_BITS).count_ones() as usize;
            match run.leaf {
                Some(leaf) if run.inserts <= free_slots => prepared.steps.extend(self.change(leaf, run.commit, works)),
                leaf => {
                    let entries = self.merged(run, works, &group[run.keys.clone()], guard)?;
                    let (images, successors) = self.split(state.epoch, &entries, run, works, taken)?;
                    let (old, next) = match leaf {
                        Some(leaf) => (leaf.offset, leaf.next(&self.pool)?),
                        None => (0, 0),
                    };
                    prepared.retired.extend((old != 0).then_some(old));
                    match run.position {
                        Some(position) => prepared.edits.push((position, successors)),
                        None => {
                            let leaves = successors.into_iter().map(|(key, leaf)| (key.unwrap_or_default(), leaf));
                            prepared.first = Some(leaves.collect());
                        }
                    }
                    replacements.push((run.position, images, old, next));
                }
            }
        }
        self.write_leaves(&state.directory, replacements, &mut prepared.steps)?;
        Ok(prepared)
    }

    /// Changes a leaf that has room.
    fn change<'t>(&self, leaf: Leaf<'t>, commit: u64, works: &[Work<'_>]) -> Option<Step<'t>> {
        let (mut swings, mut valid, mut lines) = (Vec::new(), commit & VALID_BITS, 0);
        for work in works {
            match (work.record, work.old) {
                (None, _) => {}
                (Some(record), Some((slot, _, _))) => swings.push((slot, record)),
                (Some(record), None) => {
                    let slot = valid.trailing_ones() as usize;
                    leaf.fill(&self.pool, slot, work.fingerprint, record, &mut lines);
                    valid |= 1 << slot;
                }
            }
        }
        leaf.flush(&self.pool, lines);
        let valid = (valid != commit & VALID_BITS).then_some(valid);
        (valid.is_some() || !swings.is_empty()).then_some(Step::Change { leaf, swings, valid })
    }

    /// What a leaf has and gets, in order: key, fingerprint, record.
    fn merged<'k>(
        &'k self,
        run: &Run<'_>,
        works: &[Work<'_>],
        group: &[Entry<'k>],
        guard: &'k Guard,
    ) -> Result<Vec<(&'k [u8], u8, u64)>> {
        let mut old = Vec::new();
        if let Some(leaf) = run.leaf {
            self.records_of(&leaf, run.commit, guard, &mut old)?;
        }
        super::read::sort(&mut old, &self.order);
        let mut merged = Vec::with_capacity(old.len() + group.len());
        let mut old = old.into_iter().peekable();
        let changed = |key: &[u8], offset: u64| {
            let work = works.iter().find(|work| work.old.is_some_and(|(_, old, _)| old == offset));
            (fingerprint(key), work.and_then(|work| work.record).unwrap_or(offset))
        };
        let push_old = |merged: &mut Vec<(&'k [u8], u8, u64)>, record: Record<'k>, offset: u64| {
            let (fingerprint, offset) = changed(record.key, offset);
            merged.push((record.key, fingerprint, offset));
        };
        for (entry, work) in group.iter().zip(works) {
            let (None, Some(record)) = (work.old, work.record) else { continue };
            while let Some((record, offset)) =
                old.next_if(|(record, _)| self.order.compare(record.key, entry.key) == Ordering::Less)
            {
                push_old(&mut merged, record, offset);
            }
            merged.push((entry.key, work.fingerprint, record));
        }
        old.for_each(|(record, offset)| push_old(&mut merged, record, offset));
        Ok(merged)
    }

    /// Shares entries out to new leaves.
    fn split(
        &self,
        epoch: u32,
        entries: &[(&[u8], u8, u64)],
        run: &Run<'_>,
        works: &[Work<'_>],
        taken: &mut Vec<u64>,
    ) -> Result<(Vec<Image>, Successors)> {
        let old_keys = (run.commit & VALID_BITS).count_ones() as usize;
        let fill = if self.is_behind(entries, works, old_keys) { ASCENDING_FILL_KEYS } else { FILL_KEYS };
        let count = entries.len().div_ceil(fill).max(1);
        let first = taken.len();
        self.slots.take(ExtentKind::Leaves, (0..count).map(|_| LEAF_BYTES as u32), taken)?;
        let (mut images, mut successors, mut from) = (Vec::new(), Vec::new(), 0);
        for (index, &offset) in taken[first..].iter().enumerate() {
            let to = entries.len() * (index + 1) / count;
            let part = &entries[from..to];
            images.push(Image::new(offset, self.number, epoch, part.iter().map(|entry| (entry.1, entry.2))));
            let own = (index > 0).then(|| separator(entries[from - 1].0, entries[from].0, &self.order));
            successors.push((own, offset));
            from = to;
        }
        Ok((images, successors))
    }

    /// Whether all new entries stand behind the old ones.
    fn is_behind(&self, entries: &[(&[u8], u8, u64)], works: &[Work<'_>], old_keys: usize) -> bool {
        let first = works.iter().find(|work| work.old.is_none()).and_then(|work| work.record);
        first.is_none_or(|record| entries.get(old_keys).is_some_and(|entry| entry.2 == record))
    }

    /// Writes new leaves, linked to each other and to those behind, and plans the links that lead to them.
    fn write_leaves<'t>(
        &'t self,
        directory: &Directory,
        replacements: Vec<(Option<Position>, Vec<Image>, u64, u64)>,
        steps: &mut Vec<Step<'t>>,
    ) -> Result<()> {
        let starts: Vec<(u64, u64)> = replacements
            .iter()
            .map(|(_, images, old, _)| (*old, images.first().map_or(0, |image| image.offset)))
            .collect();
        let mut replaced_before = None;
        for (index, (position, images, old, next)) in replacements.into_iter().enumerate() {
            let target = starts[index].1;
            // The leaf before may have been replaced too. Then its successor leads here already.
            if old == 0 || replaced_before != Some(old) {
                steps.push(Step::Link { place: self.place_before(directory, position, old)?, target });
            }
            let following = starts.get(index + 1).filter(|(old, _)| next != 0 && *old == next);
            let behind = following.map_or(next, |(_, first)| *first);
            let offsets: Vec<u64> = images.iter().map(|image| image.offset).skip(1).chain([behind]).collect();
            for (image, next) in images.into_iter().zip(offsets) {
                // SAFETY: the slots were just taken; nothing leads to them.
                unsafe { image.write(&self.pool, next)? };
            }
            replaced_before = (next != 0).then_some(next);
        }
        Ok(())
    }

    /// Where the word is that leads to the leaf at this position, which has to be `leaf`.
    pub(super) fn place_before(&self, directory: &Directory, position: Option<Position>, leaf: u64) -> Result<u64> {
        let place = match position.and_then(|position| directory.previous(position)) {
            Some(previous) => directory.leaf(previous) + 8,
            None => self.root() + FIRST_OFFSET,
        };
        if self.pool.load(place)? == link(place, leaf) {
            return Ok(place);
        }
        Err(self.damaged(place, "the chain of leaves is not what the directory has"))
    }

    fn tell_replaced(
        &self,
        counts: &mut Counts,
        group: &[Entry<'_>],
        works: &[Work<'_>],
        on_replaced: &mut impl FnMut(&Entry<'_>, Version),
    ) {
        for (entry, work) in group.iter().zip(works).filter(|(_, work)| work.record.is_some()) {
            if let Some((_, _, Some(old))) = work.old {
                on_replaced(entry, old.version);
                counts.subtract(old.version.file, old.bytes());
            }
            counts.add(entry.version.file, entry.record_bytes());
        }
    }

    /// Stores what leads to what was written, and makes that durable.
    pub(super) fn make_visible(&self, steps: &[Step<'_>]) -> Result<()> {
        for step in steps {
            match step {
                Step::Change { leaf, swings, valid } => {
                    let mut lines = 0;
                    for &(slot, record) in swings {
                        leaf.swing(&self.pool, slot, record, &mut lines);
                    }
                    if let Some(valid) = *valid {
                        leaf.set_valid(&self.pool, valid, &mut lines);
                    }
                    leaf.flush(&self.pool, lines);
                }
                Step::Link { place, target } => {
                    self.pool.store(*place, link(*place, *target))?;
                    self.pool.flush(*place, 8);
                }
            }
        }
        self.pool.fence();
        Ok(())
    }

    /// Makes the new directory the readers'.
    pub(super) fn publish(
        &self,
        counts: &mut Counts,
        state: &State,
        first: Option<Vec<(Vec<u8>, u64)>>,
        edits: &[(Position, Successors)],
    ) {
        let directory = match first {
            Some(leaves) => Directory::new(leaves, &self.order),
            None if edits.is_empty() => return,
            None => state.directory.edited(edits, &self.order),
        };
        counts.set_leaves(directory.leaves());
        self.published.store(Arc::new(State { directory, epoch: state.epoch }));
    }
}
