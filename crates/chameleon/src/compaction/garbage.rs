//! [`Collector`]: table files are written anew without their garbage. (The paper's log only grows.)
//!
//! An entry is *current* if it is the newest of its key in the files that are collected, and the index leads there. A collection
//! keeps current entries, and what a moment may see. Then, while no slot changes, it looks whether they are still current, commits
//! the new files in the place of the old ones, and lets slots lead there. What was replaced meanwhile is garbage of the new files.
//!
//! It writes a hash table of the slots that it moves, in the epoch in which it begins: what comes meanwhile is newer.
//!
//! A delete goes when no other file may have anything of its key that is older, and no moment is registered. (A file all of whose
//! entries are current has nothing of it.) Until then it stays, also
//! if no slot leads to it any more. So what is newest of a key in all files is what the index says, and whoever reads the files alone
//! finds nothing that comes back.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use slmdb_engine::CompactionPolicy;
use slmdb_engine::background::compaction_queue::SpaceWanted;
use slmdb_engine::background::crew::Next;
use slmdb_engine::read::merge::{Merge, TableKeys};
use slmdb_engine::store::compaction::{CompactionDone, CompactionWork, Rounds};
use slmdb_engine::store::parts::Parts;
use slmdb_env::{Error, Result};
use slmdb_manifest::{Edit, FileRecord};
use slmdb_order::EntryKind;
use slmdb_pmem::Claim;
use slmdb_structures::hash::{Identity, Slot};
use slmdb_sync::scheduled::Mutex;
use slmdb_table::{Block, KeyEntry, Place};

use super::last_level::LastLevel;
use super::outputs::Outputs;
use super::pace::{Pace, Paid, part_of};
use crate::shards::section::{Level, Row, new_file, numbered_with};
use crate::shards::{Leads, is_at, slot_of};
use crate::state::ChameleonState;

/// A range of keys.
type KeyRange<'k> = (Bound<&'k [u8]>, Bound<&'k [u8]>);

/// From this debt on garbage is collected.
pub(super) const COLLECTIONS_BEGIN: f64 = 0.85;
/// A collection for garbage leaves about so many files of the usual length: while one is under way, no bypass is frozen.
const OUTPUTS_MAX: u64 = 2;
/// A file is small that is shorter than this part of one of the usual length ...
const SMALL_PART: u64 = 4;
/// ... and if there are so many times the files that are merged at once, some are.
const SMALL_FILES_TIMES: usize = 2;
/// After so many entries a collection looks whether the store closes.
const LOOK_EVERY: u64 = 1024;

/// Collects the garbage of table files.
pub(crate) struct Collector {
    store: Arc<Parts>,
    state: Arc<ChameleonState>,
    last_level: Arc<LastLevel>,
    pace: Arc<Pace>,
    /// The files that are being collected.
    taken: Mutex<BTreeSet<u32>>,
}

/// What a table file has.
#[derive(Debug, Clone)]
struct Candidate {
    number: u32,
    record: FileRecord,
    /// How many slots lead to it, or hiding deletes it has.
    current: u64,
    /// All of its entries are current, for certain.
    is_clean: bool,
}

impl Candidate {
    /// The part of its entries that slots lead to.
    fn part(&self) -> f64 {
        part_of(self.current, &self.record)
    }

    fn needed_bytes(&self) -> f64 {
        self.part() * self.record.length_bytes as f64
    }
}

/// What becomes of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Slots will lead to its copy.
    Current,
    /// A moment sees it.
    Seen,
    /// A delete that no slot leads to, and which hides something in another file.
    Hides,
    Garbage,
}

/// What a collection does to the index.
#[derive(Default)]
struct Moves {
    /// For each key of the outputs, in their order, the slot that led to its newest entry.
    before: Vec<Option<Slot>>,
    /// Slots of deletes that go, and go on hiding what older tables have.
    deletes: Vec<(Identity, Slot)>,
    /// How many deletes of the outputs no slot leads to.
    hiding: u64,
    /// The outputs have entries that no slot leads to. The next opening must not take these for the newest of their keys.
    has_unled: bool,
}

/// The slots that a collection moves: those that led to entries before, and those that will.
struct NewSlots {
    slots: Vec<(Identity, Slot, Slot)>,
    row: Option<Row>,
}

impl Collector {
    /// Nothing is collected yet.
    pub(crate) fn new(
        store: Arc<Parts>,
        state: Arc<ChameleonState>,
        last_level: Arc<LastLevel>,
        pace: Arc<Pace>,
    ) -> Collector {
        Collector { store, state, last_level, pace, taken: Mutex::default() }
    }

    /// A step of the collections.
    pub(crate) fn step(&self, rounds: &mut Rounds) -> Next {
        let is_manual = self.store.context.options.compaction.policy == CompactionPolicy::Manual;
        let collect = |wanted| match wanted {
            _ if is_manual => Ok(false),
            Some(wanted) => self.collect_for_space(wanted),
            // A merge waits for collections that are under way: no new one begins.
            None => match self.last_level.merge_if_due() {
                Ok(Some(merged)) => Ok(merged),
                Ok(None) | Err(Error::Full { .. }) => self.collect_if_due(),
                Err(error) => Err(error),
            },
        };
        self.store.compaction_step(&self.state.compactions, rounds, collect, || {
            if self.store.obsolete.remove_unpinned()
                && let Err(error) = self.store.gave_space_back(None)
            {
                tracing::warn!(%error, "the reserve is not full");
            }
        })
    }

    /// All table files.
    /// LOCKS: indexing; catalog
    fn all(&self) -> Vec<Candidate> {
        // Of a file that is in the MANIFEST all slots are there, then.
        let writers = self.state.index.writers.lock();
        let leads_to = writers.leads_to();
        let catalog = self.store.catalog.lock();
        let candidate = |(&number, record): (&u32, &FileRecord)| Candidate {
            number,
            record: record.clone(),
            current: leads_to.get(&number).map_or(0, Leads::entries),
            is_clean: false,
        };
        catalog.state().files.iter().map(candidate).collect()
    }

    /// The same, where no slot counts that a newer table hides. That takes a look at all slots.
    /// LOCKS: indexing; catalog
    fn all_exactly(&self) -> Result<Vec<Candidate>> {
        let mut slots: HashMap<u32, Leads> = HashMap::new();
        let writers = self.state.index.writers.lock();
        for shard in self.state.index.shards() {
            self.state.index.slots(shard, |slot| Leads::add(&mut slots, &slot))?;
        }
        let catalog = self.store.catalog.lock();
        let candidate = |(&number, record): (&u32, &FileRecord)| {
            let leads = slots.get(&number).copied().unwrap_or_default();
            // (Deletes that no slot leads to are known as far as they were counted.)
            let deletes = writers.leads_to().get(&number).map_or(0, |leads| leads.deletes);
            Candidate {
                number,
                record: record.clone(),
                current: leads.puts + deletes,
                is_clean: leads.entries() == record.entries,
            }
        };
        Ok(catalog.state().files.iter().map(candidate).collect())
    }

    /// The files that may be collected now, those with the most garbage first.
    fn free(&self, all: Vec<Candidate>) -> Vec<Candidate> {
        let (taken, unreadable) = (self.taken.lock().clone(), self.pace.unreadable());
        let may = |file: &Candidate| !taken.contains(&file.number) && !unreadable.contains(&file.number);
        let mut free: Vec<Candidate> = all.into_iter().filter(may).collect();
        free.sort_by(|left, right| left.part().total_cmp(&right.part()));
        free
    }

    /// Those of them that have garbage which may go.
    /// LOCKS: snapshots
    fn free_with_garbage(&self, all: Vec<Candidate>) -> Vec<Candidate> {
        let kept = self.pace.with_kept_garbage();
        let mut free = self.free(all);
        free.retain(|file| file.current < file.record.entries && !kept.contains(&file.number));
        free
    }

    /// Collects the files with the most garbage, if all files take more than they may, or merges small ones.
    fn collect_if_due(&self) -> Result<bool> {
        let options = &self.store.context.options.compaction;
        let is_due = self.pace.garbage().debt(&self.store) > COLLECTIONS_BEGIN;
        let mut inputs = if is_due { self.free_with_garbage(self.all()) } else { Vec::new() };
        inputs.retain(|file| file.part() * options.space_amplification_max < 1.0);
        inputs.truncate(options.files_merged_max);
        truncate(&mut inputs, OUTPUTS_MAX * options.table_file_bytes);
        let chosen_by = if inputs.is_empty() { "small files" } else { "garbage" };
        if inputs.is_empty() {
            inputs = self.small_files();
        }
        let input_bytes = inputs.iter().map(Candidate::needed_bytes).sum::<f64>() as u64;
        if inputs.is_empty() {
            return Ok(false);
        }
        self.store.check_space(input_bytes)?;
        self.collect(chosen_by, inputs, &BTreeSet::new())
    }

    /// The smallest files, if there are many: each cursor asks all of its range. None of them is longer than all others together, so
    /// what a file has is not written anew for each few entries that come.
    fn small_files(&self) -> Vec<Candidate> {
        let options = &self.store.context.options.compaction;
        let mut small = self.all();
        small.retain(|file| file.record.length_bytes < options.table_file_bytes / SMALL_PART);
        if small.len() <= SMALL_FILES_TIMES * options.files_merged_max {
            return Vec::new();
        }
        let mut small = self.free(small);
        small.sort_by_key(|file| file.record.length_bytes);
        small.truncate(options.files_merged_max);
        let mut bytes: u64 = small.iter().map(|file| file.record.length_bytes).sum();
        while let Some(last) = small.pop_if(|last| last.record.length_bytes > bytes / 2) {
            bytes -= last.record.length_bytes;
        }
        if small.len() > 1 { small } else { Vec::new() }
    }

    /// Collects one file with the reserve, or several that become one. A file may have lost so little that it takes no block less.
    fn collect_for_space(&self, wanted: SpaceWanted) -> Result<bool> {
        let options = &self.store.context.options.compaction;
        let all = if wanted.at_any_cost { self.all_exactly()? } else { self.all() };
        let clean = clean(&all);
        let longest = all.iter().map(|file| file.record.length_bytes).max().unwrap_or(0);
        let mut inputs = self.free_with_garbage(all);
        inputs.retain(|file| wanted.at_any_cost || file.part() < options.live_key_threshold);
        if inputs.is_empty() && wanted.at_any_cost {
            // One with deletes may have nothing left to hide.
            inputs.extend(self.free(self.all()).into_iter().find(|file| file.record.deletes > 0));
        }
        inputs.truncate(options.files_merged_max);
        truncate(&mut inputs, longest);
        let collect = |inputs: &[Candidate]| match inputs {
            [] => Ok(false),
            _ => self.store.in_reserve(inputs.len(), || self.collect("space", inputs.to_vec(), &clean)),
        };
        match collect(&inputs) {
            // Their values are longer than they are on average.
            Err(Error::Full { .. }) if inputs.len() > 1 => collect(&inputs[..1]),
            collected => collected,
        }
    }

    /// See [`slmdb_engine::Engine::compact_range`].
    pub(crate) fn compact_range(&self, range: KeyRange<'_>) -> Result<()> {
        self.store.context.check_writable()?;
        self.store.writes.flush()?;
        self.store.run_requested(&self.state.compactions, || self.collect_range(range))
    }

    /// Merges all files of a range, unless it is one without garbage or deletes. Without space for that one by one, with the reserve.
    fn collect_range(&self, (from, to): KeyRange<'_>) -> Result<()> {
        // Files that another one collects would be left out, and what lies in them may hold back deletes.
        let _alone = self.state.compactions.alone();
        match self.last_level.merge_all() {
            Err(Error::Full { .. }) => {}
            merged => merged?,
        }
        let order = self.store.context.options.comparator.clone();
        let is_in_range = |file: &FileRecord| {
            let is_behind = match from {
                Bound::Unbounded => true,
                Bound::Included(from) => order.compare(&file.largest_key, from) != Ordering::Less,
                Bound::Excluded(from) => order.compare(&file.largest_key, from) == Ordering::Greater,
            };
            let is_before = match to {
                Bound::Unbounded => true,
                Bound::Included(to) => order.compare(&file.smallest_key, to) != Ordering::Greater,
                Bound::Excluded(to) => order.compare(&file.smallest_key, to) == Ordering::Less,
            };
            is_behind && is_before
        };
        // Files that it has made are not collected again.
        let before = self.store.catalog.lock().state().next_file_number;
        loop {
            self.store.context.check_writable()?;
            let all = self.all_exactly()?;
            let clean = clean(&all);
            let mut inputs = self.free(all);
            inputs.retain(|file| file.number < before && is_in_range(&file.record));
            let is_needless = |file: &Candidate| file.current >= file.record.entries && file.record.deletes == 0;
            match &inputs[..] {
                [] => return Ok(()),
                [only] if is_needless(only) => return Ok(()),
                _ => {}
            }
            let first = inputs.iter().find(|file| !is_needless(file)).cloned();
            let needed_bytes = inputs.iter().map(Candidate::needed_bytes).sum::<f64>() as u64;
            let collected = self.store.check_space(needed_bytes).and_then(|()| self.collect("request", inputs, &clean));
            let collected = match (collected, first) {
                (Err(Error::Full { .. }), None) => return Ok(()),
                (Err(Error::Full { .. }), Some(first)) => {
                    let collect = || self.store.in_reserve(1, || self.collect("request", vec![first.clone()], &clean));
                    // (A flush may have had the space for a moment.)
                    collect().or_else(|error| if matches!(error, Error::Full { .. }) { collect() } else { Err(error) })
                }
                (collected, _) => collected,
            };
            if !collected? {
                // Another one may have the reserve, or the files.
                self.state.compactions.wait_for_another();
            }
        }
    }

    /// Writes files anew without their garbage. All entries of the `clean` ones are current. Returns whether less is left.
    /// LOCKS: catalog; those of the collection
    fn collect(&self, chosen_by: &'static str, mut inputs: Vec<Candidate>, clean: &BTreeSet<u32>) -> Result<bool> {
        {
            let mut taken = self.taken.lock();
            inputs.retain(|file| taken.insert(file.number));
        }
        let numbers: Vec<u32> = inputs.iter().map(|file| file.number).collect();
        // Another thread may have been faster, and done.
        let is_there = |number: &u32| self.store.catalog.lock().state().files.contains_key(number);
        let there: Vec<u32> = numbers.iter().copied().filter(is_there).collect();
        inputs.retain(|file| there.contains(&file.number));
        let collect = || self.collect_taken(chosen_by, &inputs, &there, clean);
        let collected = if there.is_empty() { Ok(false) } else { self.pace.paid(collect) };
        let mut taken = self.taken.lock();
        taken.retain(|number| !numbers.contains(number));
        collected
    }

    fn collect_taken(
        &self,
        chosen_by: &'static str,
        inputs: &[Candidate],
        numbers: &[u32],
        clean: &BTreeSet<u32>,
    ) -> Result<(bool, Paid)> {
        let input_bytes: u64 = inputs.iter().map(|file| file.record.length_bytes).sum();
        let work = CompactionWork { chosen_by, inputs: numbers.to_vec(), input_bytes };
        let mut written_bytes = 0;
        let epoch = self.state.index.writers.lock().begin_collection()?;
        let collected = self.store.observe_compaction(work, Error::clone, |done| {
            let mut unreadable = None;
            let mut outputs = Outputs::new(&self.store, self.store.context.options.compaction.table_file_bytes);
            let moved = self.copy(numbers, clean, &mut outputs, done, &mut unreadable);
            let committed = match moved {
                Ok(moves) => self.commit(numbers, epoch, outputs, &moves, done),
                Err(error) => {
                    outputs.give_up();
                    Err(error)
                }
            };
            written_bytes = done.bytes_written;
            committed.and_then(|()| self.store.gave_space_back(None)).inspect_err(|error| match unreadable {
                Some(file) => self.pace.note_unreadable(file),
                None if error.may_be_tried_again() || matches!(error, Error::ReadOnly { .. }) => {}
                None => self.store.context.fail(error.clone()),
            })
        });
        self.state.index.writers.lock().end_collection();
        let paid_bytes = input_bytes.saturating_sub(written_bytes);
        collected.map(|()| (paid_bytes > 0, Paid { paid_bytes, written_bytes }))
    }

    /// Copies what is kept. Returns what becomes of the index. `unreadable`: set to the number of an input that can't be read.
    /// LOCKS: catalog; snapshots; file numbers
    fn copy(
        &self,
        inputs: &[u32],
        clean: &BTreeSet<u32>,
        outputs: &mut Outputs<'_>,
        done: &mut CompactionDone,
        unreadable: &mut Option<u32>,
    ) -> Result<Moves> {
        let tables = &self.store.tables;
        // Moments that come later see all that these files have. What is replaced later they may see, too.
        let known = self.store.catalog.lock().state().files.clone();
        let moments = self.state.snapshots.moments();
        let may_have_older = |number: &u32| !inputs.contains(number) && !clean.contains(number);
        let others: Vec<&FileRecord> =
            known.iter().filter(|(number, _)| may_have_older(number)).map(|(_, file)| file).collect();
        let mut note = |file: u32, error: Error| {
            if !error.may_be_tried_again() {
                *unreadable = Some(file);
            }
            error
        };
        let mut sources = Vec::with_capacity(inputs.len());
        for &input in inputs {
            let reader = tables.reader(input).map_err(|error| note(input, error))?;
            sources.push(TableKeys::new(input, &reader, &**tables));
        }
        let order = self.store.context.options.comparator.clone();
        let mut merge = Merge::new(sources, order, Vec::new(), (None, None))
            .map_err(|(source, error)| note(inputs[source], error))?;
        let (mut moves, mut blocks, mut seen) = (Moves::default(), BTreeMap::new(), 0_u64);
        // The key, and the number of its version before.
        let mut last: Option<(Vec<u8>, u64)> = None;
        let (mut seen_entries, mut has_first) = (0_u64, false);
        while let Some((source, entry)) = merge.first().and_then(|(at, source)| Some((at, source.entry()?))) {
            seen_entries += 1;
            if seen_entries.is_multiple_of(LOOK_EVERY) {
                self.check_goes_on()?;
            }
            let file = inputs[source];
            let newer = last.as_ref().filter(|(key, _)| key == entry.key).map(|(_, sequence)| *sequence);
            let found = if newer.is_none() { self.state.index.find(entry.key)? } else { None };
            let slot = found.filter(|slot| is_at(slot, file, entry.place));
            let is_seen_by = |moment: u64| moment >= entry.sequence && newer.is_none_or(|newer| moment < newer);
            let is_just_replaced = || found.is_some_and(|slot| !known.contains_key(&slot.place().file));
            let is_needless = || moments.is_empty() && self.is_needless(&entry, &others);
            let fate = match slot {
                Some(slot) if is_needless() => {
                    moves.deletes.push((self.state.index.identity(entry.key), slot));
                    Fate::Garbage
                }
                Some(_) => Fate::Current,
                None if is_just_replaced() || moments.iter().any(|&moment| is_seen_by(moment)) => Fate::Seen,
                None if newer.is_none() && found.is_none() && entry.kind == EntryKind::Delete && !is_needless() => {
                    Fate::Hides
                }
                None => Fate::Garbage,
            };
            moves.hiding += u64::from(fate == Fate::Hides);
            moves.has_unled |= matches!(fate, Fate::Seen | Fate::Hides);
            if newer.is_none() {
                has_first = false;
            }
            seen += u64::from(fate == Fate::Seen);
            if fate != Fate::Garbage {
                let value = match entry.kind {
                    EntryKind::Put => self.value(&mut blocks, file, entry.place, entry.key, entry.sequence),
                    EntryKind::Delete => Ok(Default::default()),
                };
                let value = value.map_err(|error| note(file, error))?;
                outputs.add(entry.key, (entry.sequence, entry.kind, &value), !has_first)?;
                if !has_first {
                    moves.before.push(slot);
                }
                has_first = true;
            }
            match &mut last {
                Some((key, sequence)) => {
                    key.clear();
                    key.extend_from_slice(entry.key);
                    *sequence = entry.sequence;
                }
                None => last = Some((entry.key.to_vec(), entry.sequence)),
            }
            merge.advance().map_err(|(source, error)| note(inputs[source], error))?;
        }
        done.bytes_read = merge.sources().map(|source| source.read_bytes()).sum();
        outputs.finish()?;
        if let Some(&newest) = moments.last().filter(|_| seen > 0) {
            self.pace.note_kept(outputs.made().iter().map(|(number, _)| *number), newest);
        }
        Ok(moves)
    }

    /// Whether an entry is a delete, and no other file has anything of its key that is older.
    fn is_needless(&self, entry: &KeyEntry<'_>, others: &[&FileRecord]) -> bool {
        let order = &self.store.context.options.comparator;
        let may_have_older = |file: &&FileRecord| {
            file.lowest_sequence < entry.sequence
                && order.compare(&file.smallest_key, entry.key).is_le()
                && order.compare(entry.key, &file.largest_key).is_le()
        };
        entry.kind == EntryKind::Delete && !others.iter().any(may_have_older)
    }

    /// The value of an entry. The last block of each input is kept.
    fn value(
        &self,
        blocks: &mut BTreeMap<u32, (Place, Block)>,
        file: u32,
        place: Place,
        key: &[u8],
        sequence: u64,
    ) -> Result<slmdb_table::Slice> {
        if blocks.get(&file).is_none_or(|(last, _)| *last != place) {
            blocks.insert(file, (place, self.store.tables.reader(file)?.read_block(place)?));
        }
        let found = blocks.get(&file).map(|(_, block)| block.get_version(key, sequence)).transpose()?.flatten();
        let path = slmdb_engine::files::file_names::table(&self.store.context.directory, file);
        let missing =
            || Error::corruption(path, u64::from(place.offset), "a key section tells of an entry that is not there");
        found.map(|entry| entry.value).ok_or_else(missing)
    }

    fn check_goes_on(&self) -> Result<()> {
        self.store.context.check_writable()?;
        match self.state.compactions.is_stopping() {
            true => Err(Error::ReadOnly { cause: "the store closes".into() }),
            false => Ok(()),
        }
    }

    /// Commits outputs in the place of inputs, and lets slots lead there that still lead to the inputs.
    /// LOCKS: indexing; catalog; file numbers
    fn commit(
        &self,
        inputs: &[u32],
        epoch: u32,
        outputs: Outputs<'_>,
        moves: &Moves,
        done: &mut CompactionDone,
    ) -> Result<()> {
        let committed = self.try_commit(inputs, epoch, &outputs, moves);
        if committed.is_err() {
            outputs.give_up();
            return committed;
        }
        done.outputs = outputs.made().iter().map(|(number, _)| *number).collect();
        done.bytes_written = outputs.made().iter().map(|(_, made)| made.length_bytes).sum();
        self.pace.forget(inputs);
        self.store.obsolete.retire(inputs, || inputs.iter().for_each(|&input| self.state.chunk_keys.forget(input)));
        Ok(())
    }

    fn try_commit(&self, inputs: &[u32], epoch: u32, outputs: &Outputs<'_>, moves: &Moves) -> Result<()> {
        let mut edit = Edit {
            files_removed: inputs.to_vec(),
            files_added: outputs.made().iter().map(|(number, made)| (*number, new_file(made))).collect(),
            ..Edit::default()
        };
        let key_bytes: usize =
            edit.files_added.iter().map(|(_, file)| file.smallest_key.len() + file.largest_key.len()).sum();
        match self.store.catalog.provide_for_outputs(inputs.len(), edit.files_added.len(), key_bytes as u64) {
            Err(Error::Full { .. }) if edit.files_added.is_empty() || self.store.catalog.reserve.is_taken() => {}
            provided => provided?,
        }
        let NewSlots { slots, row } = self.new_slots(epoch, outputs, moves)?;
        self.store.obsolete.announce(inputs);
        let mut writers = self.state.index.writers.lock();
        let is_left = |row: &&Row| row.has_table() || !inputs.contains(&row.number);
        let mut rows: Vec<Row> = writers.rows().iter().filter(is_left).copied().collect();
        match row {
            Some(row) => rows.push(row),
            None => {
                let without_table = outputs.made().iter().filter(|_| !slots.is_empty());
                rows.extend(without_table.map(|&(number, _)| Row {
                    number,
                    epoch,
                    length_bytes: 0,
                    level: Level::KeySection,
                }));
            }
        }
        if rows != writers.rows() {
            edit.engine_section = [self.state.index.part(&rows)].into();
        }
        let committed = self.store.catalog.commit(|state| numbered_with(state, edit, row));
        if let Err(error) = committed {
            if let Some(row) = row.filter(|_| error.may_be_tried_again()) {
                self.state.hash_tables.remove(&row);
            }
            return Err(error);
        }
        writers.take_rows(rows);
        for (identity, before, slot) in slots {
            // (What a damaged table hides was not replaced: that would be in a bypass. And the files are the store's now.)
            let is_replaced = self.state.index.find_identity(&identity).is_ok_and(|found| found != Some(before));
            if !is_replaced {
                writers.insert(&identity, slot);
            }
        }
        if let Some((number, _)) = outputs.made().first() {
            // (To one of them: which one has how many, the next collection finds out.)
            writers.count_hiding_deletes(*number, moves.hiding);
        }
        writers.forget(inputs);
        Ok(())
    }

    /// The slots of what was current when it was copied, each with the one that led to it; and a hash table of them. Where there is no
    /// space for that, an opening will read the keys of the outputs, which must have nothing else then.
    fn new_slots(&self, epoch: u32, outputs: &Outputs<'_>, moves: &Moves) -> Result<NewSlots> {
        let mut before = moves.before.iter();
        let mut slots = Vec::new();
        for (number, made) in outputs.made() {
            for entry in made.keys.newest_entries() {
                let entry = entry?;
                let Some(before) = before.next().copied().flatten() else { continue };
                let identity = self.state.index.identity(entry.key);
                slots.push((identity, before, slot_of(&identity, *number, &entry)?));
            }
        }
        let of_table = slots.iter().map(|(identity, _, slot)| (*identity, *slot)).chain(moves.deletes.iter().copied());
        let mut of_table: Vec<(Identity, Slot)> = of_table.collect();
        if of_table.is_empty() {
            return Ok(NewSlots { slots, row: None });
        }
        let file_bytes = outputs.made().iter().map(|(_, made)| made.length_bytes).sum();
        let may_be_without = !moves.has_unled && moves.deletes.is_empty();
        if may_be_without && !self.state.is_worth_writing(of_table.len(), file_bytes) {
            return Ok(NewSlots { slots, row: None });
        }
        of_table.sort_unstable_by_key(|(identity, _)| *identity);
        // (All may have been deletes, and no file is left whose number it could have.)
        let number =
            outputs.made().first().map_or_else(|| self.store.catalog.numbers.begin(), |(number, _)| Ok(*number))?;
        let table = self.state.upper_table(number, &of_table)?;
        let length_bytes = table.record().length_bytes;
        let written = self.state.hash_tables.write(&table, Claim::Ordinary);
        if outputs.made().is_empty() {
            self.store.catalog.numbers.end(number);
        }
        let row = match written {
            Ok(()) => Some(Row { number, epoch, length_bytes, level: Level::Upper }),
            Err(Error::Full { .. }) if may_be_without => None,
            Err(error) => return Err(error),
        };
        self.state.count_written(&self.store.context, row.map_or(0, |row| row.length_bytes));
        Ok(NewSlots { slots, row })
    }
}

/// Leaves as many files as become so many bytes, and at least one.
fn truncate(files: &mut Vec<Candidate>, bytes: u64) {
    let mut needed_bytes = 0.0;
    let count = files.iter().take_while(|file| {
        needed_bytes += file.needed_bytes();
        needed_bytes <= bytes as f64
    });
    let count = count.count().max(1);
    files.truncate(count);
}

/// The numbers of those all of whose entries are current.
fn clean(all: &[Candidate]) -> BTreeSet<u32> {
    all.iter().filter(|file| file.is_clean).map(|file| file.number).collect()
}
