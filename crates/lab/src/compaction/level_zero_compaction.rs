//! A chunk of level 0 is merged into level 1 (paper, section 3.2, Figure 8).
//!
//! 1. Entries are taken from the immutable tree, which is not changed.
//! 2. They are merged with what level 1 has in their range. Outputs are durable.
//! 3. Under the lock of indexing one record of the MANIFEST adds the outputs, removes the inputs, says how far the tree is
//!    compacted, and gives up run files to which no record leads, oldest first. Whatever flush made step 1 leave an entry
//!    out has committed by then.
//! 4. The new version of the levels is published, and only then the chunk leaves the tree: readers look in that order.
//!
//! A crash before step 3 leaves outputs that nobody knows. One between 3 and 4 leaves entries in the tree that are in
//! level 1, too. The next opening takes them out, or they go to level 1 once more, with the same numbers.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use slmdb_engine::store::compaction::CompactionWork;
use slmdb_env::{Error, Result};
use slmdb_levels::jobs::level_jobs::{Inflow, record};
use slmdb_levels::{Change, Plan, Run, TableRun};
use slmdb_manifest::{Edit, EngineSection};

use super::chunk::{Chunk, ChunkSource, EntryBytes, Found};
use super::compactor::Compactor;
use super::unreadable::PassedOver;
use crate::level_zero::state::LevelZeroState;
use crate::level_zero::{run_files, run_files_done};

/// A chunk has this part of what level 0 may have,
const PART_OF_LEVEL_ZERO: u64 = 16;
/// but so many bytes at least,
const CHUNK_BYTES_LEAST: u64 = 1 << 20;
/// and up to so many times as much, if it ends between two runs of level 1 then.
const LONGER: u64 = 4;

impl Compactor {
    /// Moves the next chunk of level 0 to level 1, by leaf scan or file scan. Returns whether there was one. One that met an input that
    /// can't be read counts: the next one passes that over. An error if nothing else is left.
    /// LOCKS: chunk (held); those of [`LevelJobs::merge`]; indexing, catalog
    pub(super) fn compact_chunk(&self) -> Result<bool> {
        let moment = self.moment();
        let passed = self.unreadable.passed_over(&self.levels.unreadable, &self.state.levels.current());
        let entry_bytes = EntryBytes::of(self.store.catalog.lock().state(), self.store.context.options.block_bytes);
        let chunk_bytes = self.chunk_bytes(&entry_bytes);
        if let Some((chunk, plan)) = self.plan_file_scan(chunk_bytes, &entry_bytes, &passed)? {
            self.store.check_space(chunk.value_bytes() + plan.as_ref().map_or(0, Plan::input_bytes))?;
            return self.move_or_note(chunk, plan, "l0 file scan", passed);
        }
        let leaves = |bytes_max, end: Option<&[u8]>| {
            Chunk::of_leaves(&self.state.level_zero, (bytes_max, &entry_bytes), end, &passed)
        };
        let Some(mut chunk) = leaves(chunk_bytes, None)? else {
            let has_keys = self.state.level_zero.immutable().counts().keys > 0;
            return if has_keys && passed.has_some() {
                Err(self.unreadable.note_stuck(&self.levels.unreadable, moment))
            } else {
                Ok(false)
            };
        };
        if let Some(end) = self.end_between_runs(&chunk) {
            chunk = leaves(LONGER * chunk_bytes, Some(&end))?.unwrap_or(chunk);
        }
        loop {
            match self.plan_chunk(&chunk) {
                Ok(plan) => {
                    self.store.check_space(chunk.value_bytes() + plan.as_ref().map_or(0, Plan::input_bytes))?;
                    return self.move_or_note(chunk, plan, "l0 leaf scan", passed);
                }
                Err(busy) => match leaves(chunk_bytes, Some(&busy))? {
                    Some(shorter) if shorter.last != chunk.last => chunk = shorter,
                    // Another compaction has all of it.
                    _ => return Ok(false),
                },
            }
        }
    }

    /// Sets what level 1 may hold, by what level 0 has when it is full. If level 1 were smaller, all of it would go on with each
    /// tree, and be merged with what is below for little.
    /// LOCKS: catalog
    pub(super) fn size_level_one(&self) {
        let options = &self.store.context.options;
        let entry_bytes = EntryBytes::of(self.store.catalog.lock().state(), options.block_bytes);
        let full_bytes = entry_bytes.of_keys(self.state.level_zero.keys_max());
        self.state.levels.set_base_bytes(self.state.options.level_base_bytes.max(full_bytes));
    }

    /// Bytes of a chunk's entries: a part of what level 0 may have, and no more than a MemTable. So level 0 shrinks in small
    /// steps.
    fn chunk_bytes(&self, entry_bytes: &EntryBytes) -> u64 {
        let all_bytes = entry_bytes.of_keys(self.state.level_zero.keys_max());
        (all_bytes / PART_OF_LEVEL_ZERO).max(CHUNK_BYTES_LEAST).min(self.store.context.options.memtable_bytes)
    }

    /// A key before which the chunk should end, so that no run of level 1 is merged with this chunk and with the next one.
    /// `None`: it may end where it does.
    fn end_between_runs(&self, chunk: &Chunk) -> Option<Vec<u8>> {
        if chunk.is_last {
            return None;
        }
        let (version, order) = (self.state.levels.current(), self.state.level_zero.immutable().order());
        let first = chunk.entries.first().map_or(&chunk.last[..], |(first, _)| first);
        let begins = || version.level(1).iter().map(|run| &run.record().smallest_key[..]);
        let mut within =
            begins().filter(|key| order.compare(key, first).is_gt() && order.compare(key, &chunk.last).is_le());
        let behind = || begins().find(|key| order.compare(key, &chunk.last).is_gt());
        within.next_back().or_else(behind).map(<[u8]>::to_vec)
    }

    /// A chunk of the oldest run files, when most of the tree has left it by leaf scan. `None`: it is not time for that, or
    /// another compaction has runs of level 1 there, and a leaf scan may find some that none has.
    /// LOCKS: catalog
    fn plan_file_scan(
        &self,
        chunk_bytes: u64,
        entry_bytes: &EntryBytes,
        passed: &PassedOver,
    ) -> Result<Option<(Chunk, Option<Plan<TableRun>>)>> {
        let leaf_scan_part = self.state.options.leaf_scan_part;
        if passed.has_some() || self.state.level_zero.has_compacted_less_than(leaf_scan_part) {
            return Ok(None);
        }
        let (live, files) =
            (self.state.level_zero.immutable().counts().live, run_files(self.store.catalog.lock().state()));
        let mut chunk = Chunk::default();
        for (file, _) in files.into_iter().filter(|(file, _)| live.contains_key(file)) {
            let keys = self.store.tables.reader(file)?.key_section()?;
            let of_file = Chunk::of_file(&self.state.level_zero, file, &keys, u64::MAX, |_| Bound::Unbounded, passed)?;
            chunk.join(of_file.unwrap_or_default(), self.state.level_zero.immutable().order());
            if chunk.bytes(entry_bytes) >= chunk_bytes {
                break;
            }
        }
        let plan = self.plan_chunk(&chunk);
        Ok(plan.ok().filter(|_| !chunk.leaving.is_empty()).map(|plan| (chunk, plan)))
    }

    /// Moves keys of the oldest run file to level 1, at most as many as one file there has to be written anew for.
    /// Returns whether there were any.
    /// LOCKS: chunk (held); those of [`LevelJobs::merge`]; indexing, catalog
    pub(super) fn compact_oldest_run_file(&self) -> Result<bool> {
        let live = self.state.level_zero.immutable().counts().live;
        let files = run_files(self.store.catalog.lock().state());
        let Some((file, _)) = files.into_iter().find(|(file, _)| live.contains_key(file)) else { return Ok(false) };
        let keys = self.store.tables.reader(file)?.key_section()?;
        let bytes_max = self.state.output_bytes.load(Ordering::Relaxed);
        let bound = |key: &[u8]| self.end_of_runs(key);
        let passed = self.unreadable.passed_over(&self.levels.unreadable, &self.state.levels.current());
        let chunk = Chunk::of_file(&self.state.level_zero, file, &keys, bytes_max, bound, &passed)?;
        let Some(chunk) = chunk else { return Ok(false) };
        match self.plan_chunk(&chunk) {
            Ok(plan) => self.move_or_note(chunk, plan, "l0 file scan", passed),
            Err(_) => Ok(false),
        }
    }

    /// Moves a chunk. That it met an input that can't be read is no error, if that was not known: it is passed over from
    /// now on.
    fn move_or_note(
        &self,
        chunk: Chunk,
        plan: Option<Plan<TableRun>>,
        chosen_by: &'static str,
        passed: PassedOver,
    ) -> Result<bool> {
        let before = self.levels.unreadable.numbers().len();
        match self.move_chunk(chunk, plan, chosen_by, passed) {
            Err(_) if self.levels.unreadable.numbers().len() > before && !self.store.context.has_failed() => Ok(true),
            moved => moved.map(|()| true),
        }
    }

    /// How far keys from this one on overlap no more of level 1 than one run, or several that are together no longer than
    /// a usual one.
    fn end_of_runs(&self, key: &[u8]) -> Bound<Vec<u8>> {
        let (version, order) = (self.state.levels.current(), self.state.level_zero.immutable().order());
        let (usual_bytes, mut bytes) = (self.state.output_bytes.load(Ordering::Relaxed), 0);
        let behind = |run: &&Arc<TableRun>| order.compare(&run.record().largest_key, key).is_ge();
        for run in version.level(1).iter().filter(behind).map(|run| run.record()) {
            let is_needed = order.compare(&run.smallest_key, key).is_le();
            if !is_needed && bytes + run.bytes > usual_bytes {
                return Bound::Excluded(run.smallest_key.to_vec());
            }
            bytes += run.bytes;
        }
        Bound::Unbounded
    }

    /// Commits that run files to which no record leads have gone, oldest first. Returns whether there were any.
    /// LOCKS: indexing, catalog
    pub(super) fn drop_run_files(&self) -> Result<bool> {
        let indexing = self.state.level_zero.indexing.lock();
        let (live, mut dropped) = (self.state.level_zero.live(), Vec::new());
        if *indexing || run_files_done(self.store.catalog.lock().state(), &live).is_empty() {
            return Ok(false);
        }
        self.levels
            .commit(Edit::default(), &[], |state, edit| {
                dropped = run_files_done(state, &live);
                edit.files_removed.clone_from(&dropped);
            })
            .inspect_err(|error| self.levels.fail_unless_it_passes(error))?;
        drop(indexing);
        self.levels.retire(&dropped);
        Ok(!dropped.is_empty())
    }

    /// What a chunk is merged with. `None`: it has nothing to give. An error: another compaction has keys from there on.
    fn plan_chunk(&self, chunk: &Chunk) -> std::result::Result<Option<Plan<TableRun>>, Vec<u8>> {
        let (Some((smallest, _)), Some((largest, _))) = (chunk.entries.first(), chunk.entries.last()) else {
            return Ok(None);
        };
        self.state.levels.plan_inflow(1, smallest, largest).map(Some).map_err(|busy| busy.from.to_vec())
    }

    /// Steps 2 to 4.
    fn move_chunk(
        &self,
        chunk: Chunk,
        plan: Option<Plan<TableRun>>,
        chosen_by: &'static str,
        passed: PassedOver,
    ) -> Result<()> {
        let runs = plan.iter().flat_map(Plan::inputs);
        let work = CompactionWork {
            chosen_by,
            inputs: chunk.leaving.keys().copied().chain(runs.clone().map(|run| run.number())).collect(),
            input_bytes: chunk.value_bytes() + runs.map(|run| run.record().bytes).sum::<u64>(),
        };
        let began_ns = self.store.context.env.monotonic_ns();
        self.levels.observe(work, |done, unreadable| {
            let (chunk, outputs, bytes_read) = match &plan {
                Some(plan) => self.merge_chunk(chunk, plan, passed, unreadable)?,
                None => (chunk, Vec::new(), 0),
            };
            record(done, &outputs, bytes_read);
            let change = plan.as_ref().map_or_else(Change::default, |plan| plan.change(outputs.iter().cloned()));
            let run_files = self.commit_chunk(&chunk, slmdb_levels::edit_of(&change), &outputs)?;
            self.state.levels.apply(&change).map_err(|what| Error::invalid(format!("levels: {what}")))?;
            chunk.leave(&self.state.level_zero)?;
            let took_ns = self.store.context.env.monotonic_ns().saturating_sub(began_ns);
            let written_bytes = outputs.iter().map(|run| run.record().bytes).sum();
            self.pace.chunk_left(chunk.leaving.values().sum(), written_bytes, took_ns);
            let removed: Vec<u32> = change.removed.iter().map(|run| run.number()).chain(run_files).collect();
            drop((plan, change));
            self.levels.retire(&removed);
            Ok(())
        })
    }

    /// Step 2. Returns the chunk, without what of it can't be read.
    fn merge_chunk(
        &self,
        chunk: Chunk,
        plan: &Plan<TableRun>,
        passed: PassedOver,
        unreadable: &mut Option<u32>,
    ) -> Result<(Chunk, Vec<Arc<TableRun>>, u64)> {
        let (chunk, found) = (Arc::new(chunk), Arc::new(Found::default()));
        let of_chunk = ChunkSource::new(chunk.clone(), self.store.tables.clone(), passed, found.clone());
        let entry_bytes = EntryBytes::of(self.store.catalog.lock().state(), self.store.context.options.block_bytes);
        let inflow = Inflow {
            entries: chunk.entries.len() as u64,
            bytes: chunk.bytes(&entry_bytes),
            windows: of_chunk.windows(),
            reads: of_chunk.reads(),
            source: Box::new(|window_bytes| Box::new(of_chunk.with_windows_of(window_bytes))),
        };
        let (outputs, bytes_read) = self.levels.merge(plan, Some(inflow), unreadable)?;
        let left_out = std::mem::take(&mut *found.left_out.lock());
        let entries = left_out.iter().filter_map(|&position| chunk.entries.get(position));
        self.unreadable.note_keys(entries.map(|(key, version)| (key.to_vec(), version.sequence)));
        // (Its source is gone.)
        let chunk = Arc::into_inner(chunk).ok_or_else(|| Error::invalid("a chunk is still being read"))?;
        Ok((chunk.without(&left_out), outputs, bytes_read))
    }

    /// Step 3. Returns the run files that the MANIFEST has given up.
    /// LOCKS: indexing, catalog
    fn commit_chunk(&self, chunk: &Chunk, edit: Edit, outputs: &[Arc<TableRun>]) -> Result<Vec<u32>> {
        let indexing = self.state.level_zero.indexing.lock();
        if *indexing {
            self.levels.give_up(outputs);
            return Err(Error::ReadOnly { cause: "a flush was given up".into() });
        }
        let section = self.section_after(chunk).inspect_err(|_| self.levels.give_up(outputs))?;
        let live = self.live_without(&chunk.leaving);
        let mut run_files = Vec::new();
        let committed = self.levels.commit(edit, outputs, |state, edit| {
            run_files = run_files_done(state, &live);
            edit.files_removed.extend(&run_files);
            edit.engine_section.clone_from(&section);
        });
        committed.map(|()| run_files)
    }

    /// What changes in the MANIFEST's section of level 0 once the chunk has gone: nothing by a file scan, because that leaves
    /// keys behind that are smaller than others which it takes.
    /// LOCKS: indexing (held), catalog
    fn section_after(&self, chunk: &Chunk) -> Result<EngineSection> {
        if chunk.scattered.is_some() {
            return Ok(EngineSection::new());
        }
        let level_zero = LevelZeroState::of(self.store.catalog.lock().state())?;
        let compacted_through = Some(chunk.last.clone());
        Ok(LevelZeroState { compacted_through, ..level_zero }.section())
    }

    /// How many records lead to each run file once the chunk has left the tree.
    fn live_without(&self, leaving: &BTreeMap<u32, u64>) -> BTreeMap<u32, u64> {
        let mut live = self.state.level_zero.live();
        for (file, records) in leaving {
            if let Some(left) = live.get_mut(file) {
                *left = left.saturating_sub(*records);
            }
        }
        live.retain(|_, records| *records > 0);
        live
    }
}
