//! [`LastLevel`]: compactions of the last level (section 2.2 of the paper, Figure 8). A bypass that is full and the last table of its
//! shard become a new last table. What the upper tables have serves openings alone, so nobody reads them here.
//!
//! 1. Under `Index::writers`, so that no flush is half-way, the bypasses of some shards are frozen. What they have comes up to the
//!    last epoch.
//! 2. Frozen bypasses and last tables are merged into one new table. Deletes vanish, and so do slots that lead to files that are gone.
//! 3. One record of the MANIFEST adds the table, and takes out those whose slots are all in later ones.
//! 4. Readers get the new table, and the frozen bypasses go.
//!
//! Where the last level is much larger than a bypass, the frozen one becomes a table of its own in step 2, with its deletes: it is
//! *dumped* (section 2.4). Some of these are merged with the last level at once.
//!
//! A crash before the record leaves the store as it was. While no shard is due, but there are many upper tables, what all bypasses
//! have is gathered into one table, in the place of all upper ones. So an opening reads a bounded number of slots.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use slmdb_engine::store::compaction::{CompactionDone, CompactionWork};
use slmdb_engine::store::parts::Parts;
use slmdb_env::{Error, Result};
use slmdb_manifest::{Edit, StoreState};
use slmdb_pmem::Claim;
use slmdb_structures::hash::{Deletes, FinishedTable, Lost, Merge, Slot, TableBuilder, TableOptions};
use slmdb_sync::scheduled::Mutex;

use super::pace::{Pace, Paid};
use crate::options::ChameleonOptions;
use crate::shards::section::{Level, Row, numbered_with};
use crate::shards::tables::ShardTable;
use crate::shards::{Slots, Writers};
use crate::state::{ChameleonState, TABLE_LOAD_PERCENT};

/// More upper tables than this are gathered.
const UPPER_TABLES_MAX: usize = 64;
/// So are upper tables with so many times the slots that all bypasses may have.
const UPPER_SLOTS_TIMES: u64 = 2;
/// Bytes of a table for each slot, about.
const BYTES_PER_SLOT: u64 = 30;

/// Merges bypasses into tables of the last level.
pub(crate) struct LastLevel {
    store: Arc<Parts>,
    state: Arc<ChameleonState>,
    pace: Arc<Pace>,
    /// One compaction of the index at a time.
    job: Mutex<()>,
}

/// Shards whose bypasses are frozen, and that come into one table.
struct Frozen {
    shards: Vec<u16>,
    /// Up to this epoch the bypasses have everything.
    through: u32,
    level: Level,
}

/// A table that was made of some shards.
struct Made {
    finished: FinishedTable,
    /// Slots that a newer one has replaced.
    lost: Vec<Slot>,
    /// Deletes have vanished.
    has_vanished: bool,
    counts: FileCounts,
}

/// How many more slots of tables lead to each table file than before.
struct FileCounts {
    /// The store's table files and their changes, in a hash table: each number at its own last bits, or at the next empty place.
    places: Vec<Option<(u32, Cell<i64>)>>,
}

impl FileCounts {
    fn of(state: &StoreState) -> FileCounts {
        let mut counts = FileCounts { places: vec![None; (2 * state.files.len() + 1).next_power_of_two()] };
        for &file in state.files.keys() {
            let at = counts.place(file);
            counts.places[at] = Some((file, Cell::new(0)));
        }
        counts
    }

    /// Where a file is, or an empty place. There are at least as many of these as files.
    #[inline]
    fn place(&self, file: u32) -> usize {
        let last = self.places.len() - 1;
        let mut at = file as usize & last;
        while self.places[at].as_ref().is_some_and(|(there, _)| *there != file) {
            at = (at + 1) & last;
        }
        at
    }

    /// Counts a slot. `false`: it leads to a file that is gone.
    #[inline]
    fn count(&self, slot: &Slot, change: i64) -> bool {
        let Some((_, changes)) = &self.places[self.place(slot.place().file)] else { return false };
        if !slot.is_delete() {
            changes.set(changes.get() + change);
        }
        true
    }

    /// How many files there were.
    fn files(&self) -> usize {
        self.places.iter().flatten().count()
    }

    /// What has changed of files that are still there.
    fn changes(&self, state: &StoreState) -> Vec<(u32, i64)> {
        let all = self.places.iter().flatten().map(|(file, change)| (*file, change.get()));
        let mut changes: Vec<(u32, i64)> =
            all.filter(|(file, change)| *change != 0 && state.files.contains_key(file)).collect();
        changes.sort_unstable();
        changes
    }
}

impl LastLevel {
    /// Nothing is merged yet.
    pub(crate) fn new(store: Arc<Parts>, state: Arc<ChameleonState>, pace: Arc<Pace>) -> LastLevel {
        LastLevel { store, state, pace, job: Mutex::default() }
    }

    fn due(&self) -> Vec<u16> {
        let unreadable = self.pace.unreadable_shards();
        self.state
            .index
            .shards()
            .filter(|shard| self.state.index.is_due(*shard) && !unreadable.contains(shard))
            .collect()
    }

    /// Whether upper tables are to be gathered. Not while a bypass is frozen that can't be merged: they alone have its slots.
    /// LOCKS: indexing; catalog
    fn are_upper_due(&self) -> bool {
        let index = &self.state.index;
        let writers = index.writers.lock();
        if !self.store.context.options.own::<ChameleonOptions>().is_bypass_bounded()
            || index.shards().any(|shard| writers.frozen_at(shard).is_some())
        {
            return false;
        }
        let upper: Vec<&Row> = writers.rows().iter().filter(|row| !row.is_read_in_place()).collect();
        let catalog = self.store.catalog.lock();
        let entries = |file: u32| catalog.state().files.get(&file).map_or(0, |file| file.entries);
        let slots = |row: &Row| match row.has_table() {
            true => row.length_bytes / BYTES_PER_SLOT,
            false => entries(row.number),
        };
        let all: u64 = upper.iter().map(|row| slots(row)).sum();
        upper.len() > UPPER_TABLES_MAX || all > UPPER_SLOTS_TIMES * index.full_entries()
    }

    /// Does one piece of what is due. `None`: nothing is. `false`: a collection or another thread is under way.
    /// LOCKS: indexing; catalog; file numbers
    pub(crate) fn merge_if_due(&self) -> Result<Option<bool>> {
        let Some(_job) = self.job.try_lock() else { return Ok(Some(false)) };
        let due = self.due();
        if !due.is_empty() {
            let dumped_max = self.store.context.options.own::<ChameleonOptions>().dumped_tables_max;
            return self.merge(&due, dumped_max).map(Some);
        }
        if !self.are_upper_due() {
            return Ok(None);
        }
        self.numbered(|number| self.gather(number)).map(Some)
    }

    /// Brings all shards to the last level, dumped tables too. REQUIRES: the caller [compacts alone](slmdb_engine::background::compaction_queue::CompactionQueue::alone).
    /// LOCKS: indexing; catalog; file numbers
    pub(crate) fn merge_all(&self) -> Result<()> {
        let _job = self.job.lock();
        loop {
            self.store.context.check_writable()?;
            let unreadable = self.pace.unreadable_shards();
            let left: Vec<u16> = {
                let writers = self.state.index.writers.lock();
                let has_dumped = |shard| self.state.index.view(shard).tables.len() > 1;
                let has_any = |shard: u16| {
                    writers.frozen_at(shard).is_some() || writers.bypass_entries(shard) > 0 || has_dumped(shard)
                };
                self.state.index.shards().filter(|&shard| has_any(shard) && !unreadable.contains(&shard)).collect()
            };
            if left.is_empty() || !self.merge(&left, 0)? {
                return Ok(());
            }
        }
    }

    /// Merges some of these shards, or dumps them if they have fewer dumped tables than this.
    fn merge(&self, due: &[u16], dumped_max: u32) -> Result<bool> {
        let Some(frozen) = self.freeze_some(due, dumped_max) else { return Ok(false) };
        let chosen_by = if frozen.level == Level::Dumped { "dump" } else { "last level" };
        let work = CompactionWork { chosen_by, inputs: Vec::new(), input_bytes: 0 };
        let paid_bytes = self.bytes_led_to(&frozen.shards);
        let merge = || {
            let mut written_bytes = 0;
            let merged = self.store.observe_compaction(work, Error::clone, |done| {
                let merged = self.numbered(|number| self.merge_frozen(&frozen, number, done));
                written_bytes = done.bytes_written;
                merged
            });
            merged.map(|()| ((), Paid { paid_bytes, written_bytes }))
        };
        let merged = self.pace.paid(merge);
        let is_told = |error: &Error| error.may_be_tried_again() || matches!(error, Error::ReadOnly { .. });
        match merged {
            Err(Error::Corruption { .. }) => self.pace.note_unreadable_shards(&frozen.shards),
            Err(ref error) if !is_told(error) => self.store.context.fail(error.clone()),
            _ => {}
        }
        merged.map(|()| true)
    }

    /// Freezes the bypasses of as many of these shards as one table takes, unless some are frozen.
    /// LOCKS: indexing
    fn freeze_some(&self, due: &[u16], dumped_max: u32) -> Option<Frozen> {
        let index = &self.state.index;
        let mut writers = index.writers.lock();
        if let Some(through) = due.iter().find_map(|&shard| writers.frozen_at(shard)) {
            let frozen = due.iter().copied().filter(|&shard| writers.frozen_at(shard) == Some(through));
            return Some(self.of_one_level(frozen.collect(), through, dumped_max));
        }
        if writers.is_collecting() {
            return None;
        }
        let job_bytes = self.store.context.options.own::<ChameleonOptions>().job_bytes;
        let mut frozen = self.of_one_level(due.to_vec(), writers.epoch(), dumped_max);
        let mut bytes = 0;
        let count = frozen.shards.iter().take_while(|&&shard| {
            let is_room = bytes < job_bytes;
            bytes += self.entries_written(shard, frozen.level) * BYTES_PER_SLOT;
            is_room
        });
        frozen.shards.truncate(count.count());
        index.freeze(&mut writers, &frozen.shards);
        Some(frozen)
    }

    /// Those of some shards whose next table comes to the same level as that of the first.
    fn of_one_level(&self, mut shards: Vec<u16>, through: u32, dumped_max: u32) -> Frozen {
        let level = shards.first().map_or(Level::Last, |&shard| self.next_level(shard, dumped_max));
        shards.retain(|&shard| self.next_level(shard, dumped_max) == level);
        Frozen { shards, through, level }
    }

    /// Where what a shard's bypass has comes next.
    fn next_level(&self, shard: u16, dumped_max: u32) -> Level {
        let view = self.state.index.view(shard);
        let last = view.tables.last().and_then(|last| last.entries_of(shard)).map_or(0, u64::from);
        let dumped = view.tables.len().saturating_sub(1) as u64;
        let options = self.store.context.options.own::<ChameleonOptions>();
        let is_large = last > options.dumped_above.saturating_mul(self.state.index.full_entries_of(shard));
        if is_large && dumped < u64::from(dumped_max) { Level::Dumped } else { Level::Last }
    }

    fn entries_written(&self, shard: u16, level: Level) -> u64 {
        let view = self.state.index.view(shard);
        match level {
            Level::Dumped => view.entries(shard) - view.entries_of_tables(shard),
            _ => view.entries(shard),
        }
    }

    /// About how many bytes of table files the frozen bypasses of some shards lead to.
    /// LOCKS: catalog
    fn bytes_led_to(&self, shards: &[u16]) -> u64 {
        let frozen = |&shard: &u16| self.state.index.view(shard).frozen.as_ref().map_or(0, |frozen| frozen.entries());
        let slots: u64 = shards.iter().map(frozen).sum();
        let catalog = self.store.catalog.lock();
        let files = catalog.state().files.values();
        let (bytes, entries) = files.fold((0, 0), |sum, file| (sum.0 + file.length_bytes, sum.1 + file.entries));
        (slots as f64 * bytes as f64 / entries.max(1) as f64) as u64
    }

    /// Makes a table with a number of its own.
    fn numbered<T>(&self, make: impl FnOnce(u32) -> Result<T>) -> Result<T> {
        let number = self.store.catalog.numbers.begin()?;
        let made = make(number);
        if made.as_ref().err().is_none_or(Error::may_be_tried_again) {
            self.store.catalog.numbers.end(number);
        }
        made
    }

    fn merge_frozen(&self, frozen: &Frozen, number: u32, done: &mut CompactionDone) -> Result<()> {
        let made = self.make(frozen, number)?;
        self.store.catalog.provide_for_outputs(0, made.counts.files() / 8 + 1, 0)?;
        let length_bytes = made.finished.record().length_bytes;
        self.state.hash_tables.write(&made.finished, Claim::Ordinary)?;
        self.state.count_written(&self.store.context, length_bytes);
        done.bytes_written = length_bytes;
        let row = Row { number, epoch: frozen.through, length_bytes, level: frozen.level };
        let committed = self.commit(&frozen.shards, row, &made);
        if committed.as_ref().is_err_and(Error::may_be_tried_again) {
            self.state.hash_tables.remove(&row);
        }
        committed
    }

    /// Merges frozen bypasses and tables, in memory, or takes the bypasses alone.
    /// LOCKS: catalog
    fn make(&self, Frozen { shards, through, level }: &Frozen, number: u32) -> Result<Made> {
        let (index, is_dumped) = (&self.state.index, *level == Level::Dumped);
        let (first, last) = (shards.first().copied().unwrap_or(0), shards.last().copied().unwrap_or(0));
        let mut builder = TableBuilder::new(TableOptions {
            number,
            uuid: self.state.hash_tables.uuid(),
            level: *level as u8,
            epoch: *through,
            shards: index.hasher().shards(),
            range: u32::from(first)..u32::from(last) + 1,
        })?;
        let counts = FileCounts::of(self.store.catalog.lock().state());
        let (mut lost, mut has_vanished) = (Vec::new(), false);
        for &shard in shards {
            if self.state.compactions.is_stopping() {
                return Err(Error::ReadOnly { cause: "the store closes".into() });
            }
            builder.begin_part(shard, TABLE_LOAD_PERCENT)?;
            let view = index.view(shard);
            let frozen = view.frozen.iter().map(|frozen| Box::new(frozen.slots().map(Ok)) as Slots<'_>);
            let tables = view.tables.iter().filter(|_| !is_dumped).map(|table| {
                let counted = |slot: &Result<Slot>| {
                    if let Ok(slot) = slot {
                        counts.count(slot, -1);
                    }
                };
                Box::new(table.slots(shard).inspect(counted)) as Slots<'_>
            });
            let deletes = if is_dumped { Deletes::Kept } else { Deletes::Dropped };
            let mut merge = Merge::new(frozen.chain(tables), deletes)?;
            let mut note = |of: Lost| match of {
                Lost::Replaced(slot) => lost.push(slot),
                Lost::Vanished(_) => has_vanished = true,
            };
            while let Some(slot) = merge.next(&mut note)? {
                if counts.count(&slot, 1) || slot.is_delete() {
                    builder.add(slot)?;
                }
            }
        }
        Ok(Made { finished: builder.finish()?, lost, has_vanished, counts })
    }

    /// Commits a new table of the last level, and lets readers have it.
    /// LOCKS: indexing; catalog
    fn commit(&self, shards: &[u16], row: Row, made: &Made) -> Result<()> {
        let index = &self.state.index;
        let table = Arc::new(self.state.hash_tables.open(&row)?);
        let merged: BTreeSet<u16> = shards.iter().copied().collect();
        let of_shard = |shard: u16| index.view(shard).tables.clone();
        let old: Vec<Arc<ShardTable>> = shards.iter().flat_map(|&shard| of_shard(shard)).collect();
        let is_dumped = row.level == Level::Dumped;
        let keep = index.shards().filter(|shard| is_dumped || !merged.contains(shard)).flat_map(of_shard);
        let in_use: BTreeSet<u32> = keep.map(|table| table.record().number).collect();
        let gone = {
            let mut writers = index.writers.lock();
            let mut rows = writers.rows_after_merge(&merged, row.epoch, &in_use);
            rows.push(row);
            self.store.catalog.commit(|state| {
                let (live_changes, engine_section) = (made.counts.changes(state), [index.part(&rows)].into());
                numbered_with(state, Edit { live_changes, engine_section, ..Edit::default() }, Some(row))
            })?;
            if made.has_vanished {
                index.note_vanishing(self.store.catalog.lock().state().flushed_through);
            }
            index.take_table(&mut writers, shards, &table, is_dumped);
            made.lost.iter().for_each(|slot| writers.count_lost(slot));
            take_rows(&mut writers, rows)
        };
        // (Readers may have these open.)
        let old: BTreeMap<u32, Arc<ShardTable>> = old.into_iter().map(|table| (table.record().number, table)).collect();
        for row in gone.iter().filter(|row| row.is_read_in_place()) {
            old.get(&row.number).inspect(|table| self.state.hash_tables.retire(table));
        }
        drop(old);
        gone.iter().filter(|row| row.level == Level::Upper).for_each(|row| self.state.hash_tables.remove(row));
        Ok(())
    }

    /// Gathers what all bypasses have into one table, in the place of all upper ones.
    /// LOCKS: indexing; catalog
    fn gather(&self, number: u32) -> Result<bool> {
        let index = &self.state.index;
        let (builder, epoch) = {
            let writers = index.writers.lock();
            if writers.is_collecting() {
                return Ok(false);
            }
            let mut builder = self.state.new_upper(number)?;
            for shard in index.shards() {
                builder.begin_part(shard, TABLE_LOAD_PERCENT)?;
                writers.bypass(shard).try_for_each(|slot| builder.add(slot))?;
            }
            (builder, writers.epoch())
        };
        let finished = builder.finish()?;
        let row = Row { number, epoch, length_bytes: finished.record().length_bytes, level: Level::Upper };
        self.state.hash_tables.write(&finished, Claim::Ordinary)?;
        self.state.count_written(&self.store.context, row.length_bytes);
        let committed = {
            let mut writers = index.writers.lock();
            let is_left = |row: &&Row| row.is_read_in_place() || row.epoch > epoch;
            let mut rows: Vec<Row> = writers.rows().iter().filter(is_left).copied().collect();
            rows.push(row);
            let commit = self.store.catalog.commit(|state| {
                let edit = Edit { engine_section: [index.part(&rows)].into(), ..Edit::default() };
                numbered_with(state, edit, Some(row))
            });
            commit.map(|()| take_rows(&mut writers, rows))
        };
        match committed {
            Ok(gone) => {
                gone.iter().filter(|row| row.has_table()).for_each(|row| self.state.hash_tables.remove(row));
                Ok(true)
            }
            Err(error) => {
                if error.may_be_tried_again() {
                    self.state.hash_tables.remove(&row);
                }
                Err(error)
            }
        }
    }
}

/// Lets rows take over that are in the MANIFEST. Returns which have gone.
fn take_rows(writers: &mut Writers, rows: Vec<Row>) -> Vec<Row> {
    let gone = writers.rows().iter().filter(|row| !rows.contains(row)).copied().collect();
    writers.take_rows(rows);
    gone
}
