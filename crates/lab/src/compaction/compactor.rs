//! [`Compactor`]: what compaction threads do. Level 0 comes first, then the level that is most above its size.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use slmdb_engine::files::file_records::numbered;
use slmdb_engine::store::compaction::{CompactionDone, CompactionWork};
use slmdb_engine::store::parts::Parts;
use slmdb_engine::{CompactionPolicy, lock_order};
use slmdb_env::{Error, Result};
use slmdb_levels::{
    Change, EntrySource, LevelFiles, MergeCounts, MergeError, MergeSettings, Plan, Run, TableOutput, TableRun,
};
use slmdb_manifest::{Edit, StoreState};
use slmdb_sync::scheduled::Mutex;

use super::chunk::{ChunkSource, EntryBytes};
use super::pace::LevelZeroPace;
use super::sources::{LevelSource, window_bytes};
use super::unreadable::Unreadable;
use crate::level_zero::deletes_below;
use crate::state::LabState;

/// After so many bytes a merge looks whether the store closes.
const REPORT_EVERY_BYTES: u64 = 1 << 20;
/// Level 1 has so many runs at least, when it is full,
const RUNS_OF_LEVEL_ONE: u64 = 32;
/// if they are so long.
const RUN_BYTES_LEAST: u64 = 1 << 20;
/// For the MANIFEST record of a compaction for space: about as many files.
pub(super) const INPUTS: usize = 16;
/// A merge has a window on each of two levels.
const LEVEL_WINDOWS: usize = 2;

/// What compactions need of the store.
pub(crate) struct Compactor {
    pub(crate) store: Arc<Parts>,
    pub(crate) state: Arc<LabState>,
    /// Held while a chunk is moved: one at a time.
    pub(crate) chunk: Mutex<()>,
    /// What can't be read. It is left alone until the next opening.
    pub(crate) unreadable: Unreadable,
    pub(crate) pace: Arc<LevelZeroPace>,
}

impl Compactor {
    /// Nothing is compacted yet.
    pub(crate) fn new(store: Arc<Parts>, state: Arc<LabState>, pace: Arc<LevelZeroPace>) -> Compactor {
        Compactor { store, state, chunk: Mutex::ranked(lock_order::CHUNK, ()), unreadable: Unreadable::default(), pace }
    }

    /// A thread's loop, until the store closes or fails.
    pub(crate) fn run(&self) {
        let compact = |wanted| match wanted {
            Some(wanted) => self.compact_for_space(wanted),
            None => self.compact_what_is_due(),
        };
        // A reader that held the levels does not say when it lets go of them.
        let idle = || {
            if self.store.obsolete.remove_unpinned()
                && let Err(error) = self.store.gave_space_back(None)
            {
                tracing::warn!(%error, "the reserve is not full");
            }
        };
        self.store.run_compactions(&self.state.compactions, compact, idle);
    }

    /// Level 0 comes first.
    fn compact_what_is_due(&self) -> Result<bool> {
        let is_manual = self.store.context.options.compaction.policy == CompactionPolicy::Manual;
        if !is_manual {
            self.size_level_one();
        }
        match self.compact_level_zero() {
            Ok(false) if is_manual => Ok(false),
            Ok(false) if self.drop_run_files()? => self.store.gave_space_back(None).map(|()| true),
            Ok(false) => self.compact_levels(),
            worked => worked,
        }
    }

    /// Whether level 0 has so much that chunks of it should go. Where only what is asked for is compacted, it may become
    /// full: then flushes would wait.
    fn is_level_zero_due(&self) -> bool {
        let is_manual = self.store.context.options.compaction.policy == CompactionPolicy::Manual;
        let part = if is_manual { 1.0 } else { self.state.options.level_zero_compaction_at };
        self.state.level_zero.used_bytes() as f64 >= self.state.level_zero.bytes_max() as f64 * part
    }

    /// Moves a chunk of level 0 on, if that is due, and no other thread does. If there is no space for that, it goes in
    /// smaller parts, with the reserve, unless that was in vain a moment ago. What is passed over keeps nothing else back.
    /// LOCKS: chunk (tried); indexing, catalog
    fn compact_level_zero(&self) -> Result<bool> {
        if !self.is_level_zero_due() {
            return Ok(false);
        }
        if let Some(cause) = self.unreadable.why_stuck(self.moment()) {
            self.state.compactions.record_drain(Some(cause));
            return Ok(false);
        }
        let Some(chunk) = self.chunk.try_lock() else { return Ok(false) };
        if self.state.level_zero.immutable().counts().keys == 0 && !self.switch()? {
            return Ok(false);
        }
        let worked =
            if self.state.compactions.was_in_vain() { self.compact_chunk() } else { self.compact_chunk_or_part() };
        drop(chunk);
        self.state.compactions.record_drain(worked.as_ref().err().cloned());
        if self.unreadable.why_stuck(self.moment()).is_some() { Ok(false) } else { worked }
    }

    /// Rises whenever there may be less of what is passed over.
    pub(super) fn moment(&self) -> u64 {
        let counted = &self.store.context.counted;
        counted.flushes.load(Ordering::Relaxed) + counted.compactions.load(Ordering::Relaxed)
    }

    /// See [`Compactor::compact_chunk`]. On a full disk: [`Compactor::compact_oldest_run_file`].
    /// LOCKS: chunk (held)
    pub(super) fn compact_chunk_or_part(&self) -> Result<bool> {
        match self.compact_chunk() {
            Err(Error::Full { .. }) => self.store.in_reserve(INPUTS, || self.compact_oldest_run_file()),
            worked => worked,
        }
    }

    /// LOCKS: indexing, catalog
    pub(super) fn switch(&self) -> Result<bool> {
        let indexing = self.state.level_zero.indexing.lock();
        if *indexing {
            return Ok(false);
        }
        self.state.level_zero.switch(&self.store.catalog).inspect_err(|error| self.fail_unless_it_passes(error))
    }

    /// Moves something from the level that is most above its size to the next one.
    pub(super) fn compact_levels(&self) -> Result<bool> {
        let is_readable = |run: &TableRun| self.unreadable.is_readable(run.number());
        let Some(plan) = self.state.levels.pick_readable(&|_| true, &is_readable) else { return Ok(false) };
        self.compact_in_free_space(plan).map(|()| true)
    }

    /// As [`Compactor::compact`], and leaves the reserve alone.
    pub(super) fn compact_in_free_space(&self, plan: Plan<TableRun>) -> Result<()> {
        if !plan.is_move() {
            self.store.check_space(plan.input_bytes())?;
        }
        self.compact(plan)
    }

    /// Carries out a plan whose inputs are all in levels.
    /// LOCKS: those of [`Compactor::merge`]; indexing, catalog
    pub(super) fn compact(&self, plan: Plan<TableRun>) -> Result<()> {
        if plan.is_move() {
            return self.commit_change(plan.change_of_move(), &[], plan);
        }
        let work = CompactionWork {
            chosen_by: plan.reason().as_str(),
            inputs: plan.inputs().map(|run| run.number()).collect(),
            input_bytes: plan.input_bytes(),
        };
        self.observe(work, |done, unreadable| {
            let (outputs, bytes_read) = self.merge(&plan, None, unreadable)?;
            record(done, &outputs, bytes_read);
            self.commit_change(plan.change(outputs.iter().cloned()), &outputs, plan)
        })
    }

    /// Runs a compaction, and tells of it. What it gave back is there when it is told. An input that can't be read is passed over
    /// from then on.
    /// LOCKS: those of `compact` and [`Parts::gave_space_back`]
    pub(super) fn observe(
        &self,
        work: CompactionWork,
        compact: impl FnOnce(&mut CompactionDone, &mut Option<u32>) -> Result<()>,
    ) -> Result<()> {
        let mut unreadable = None;
        self.store.observe_compaction(work, Error::clone, |done| {
            let compacted = compact(done, &mut unreadable).and_then(|()| self.store.gave_space_back(None));
            compacted.inspect_err(|error| match unreadable {
                Some(file) => self.unreadable.note(file, error),
                None => self.fail_unless_it_passes(error),
            })
        })
    }

    /// Lets the store fail, unless the error may pass: behind what could not be written nothing is sure.
    pub(super) fn fail_unless_it_passes(&self, error: &Error) {
        if !error.may_be_tried_again() && !matches!(error, Error::ReadOnly { .. }) {
            self.store.context.fail(error.clone());
        }
    }

    /// LOCKS: indexing, catalog
    fn commit_change(&self, change: Change<TableRun>, outputs: &[Arc<TableRun>], plan: Plan<TableRun>) -> Result<()> {
        // A verification holds the lock, and sees a MANIFEST that does not change.
        let indexing = self.state.level_zero.indexing.lock();
        self.commit(slmdb_levels::edit_of(&change), outputs, |_, _| ())?;
        drop(indexing);
        self.state.levels.apply(&change).map_err(|what| Error::invalid(format!("levels: {what}")))?;
        self.pace.set();
        let removed: Vec<u32> = change.removed.iter().map(|run| run.number()).collect();
        drop((plan, change));
        self.retire(&removed);
        Ok(())
    }

    /// Merges the inputs of a plan with what a chunk of level 0 has. Returns the outputs, which are durable, and how many
    /// bytes were read. `unreadable`: set to the table file of an input that can't be read.
    /// LOCKS: catalog; snapshots; file numbers
    pub(super) fn merge(
        &self,
        plan: &Plan<TableRun>,
        chunk: Option<ChunkSource>,
        unreadable: &mut Option<u32>,
    ) -> Result<(Vec<Arc<TableRun>>, u64)> {
        // Which table file each source reads.
        let mut reads: Vec<Arc<AtomicU32>> = Vec::new();
        let mut sources: Vec<Box<dyn EntrySource>> = Vec::new();
        let windows = LEVEL_WINDOWS + chunk.as_ref().map_or(0, ChunkSource::windows);
        let window_bytes = window_bytes(self.store.context.options.memory_budget_bytes, windows);
        let held_bytes = (windows * window_bytes) as u64;
        let _held = self.store.context.budget.background.hold(held_bytes);
        let mut cut = plan.cut();
        if let Some(chunk) = chunk {
            let entry_bytes = EntryBytes::of(self.store.catalog.lock().state(), self.store.context.options.block_bytes);
            cut.input_entries += chunk.chunk().entries.len() as u64;
            cut.input_bytes += chunk.chunk().bytes(&entry_bytes);
            reads.push(chunk.reads());
            sources.push(Box::new(chunk.with_windows_of(window_bytes)));
        }
        for runs in [plan.upper(), plan.lower()].into_iter().filter(|runs| !runs.is_empty()) {
            let file = Arc::new(AtomicU32::new(0));
            reads.push(file.clone());
            sources.push(Box::new(LevelSource::new(runs.to_vec(), window_bytes, file)));
        }
        let deletes_below = deletes_below(self.store.catalog.lock().state());
        let mut report = |_: &MergeCounts| {
            if self.state.compactions.is_stopping() || self.store.context.has_failed() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        cut.output_bytes = cut.output_bytes.min(self.state.output_bytes.load(Ordering::Relaxed));
        if plan.to() == 1 {
            cut.output_bytes = cut.output_bytes.min(self.level_one_run_bytes());
        }
        let settings = MergeSettings {
            order: self.store.context.options.comparator.clone(),
            prefix: plan.prefix(),
            cut,
            retention: plan.retention(self.state.level_zero.snapshots.moments(), deletes_below),
            report_every_bytes: REPORT_EVERY_BYTES,
            report: &mut report,
        };
        let merged = slmdb_levels::merge(sources, settings, TableOutput::new(self.files()));
        let (outputs, counts) = merged.map_err(|error| match error {
            MergeError::Ended => Error::ReadOnly { cause: "the store closes".into() },
            MergeError::Source(position, error) => {
                if !error.may_be_tried_again() {
                    *unreadable = reads.get(position).map(|file| file.load(Ordering::Relaxed));
                }
                error
            }
            MergeError::Output(error) => error,
        })?;
        self.store.context.budget.compaction_has_ended(held_bytes);
        self.store.context.budget.freed(counts.bytes_read + counts.bytes_kept);
        Ok((outputs, counts.bytes_read))
    }

    /// Runs of level 1 are short, so that a chunk of level 0 meets few keys that it has not.
    fn level_one_run_bytes(&self) -> u64 {
        (self.state.levels.target_bytes(1) / RUNS_OF_LEVEL_ONE).max(RUN_BYTES_LEAST)
    }

    fn files(&self) -> LevelFiles<'_> {
        LevelFiles { context: &self.store.context, numbers: &self.store.catalog.numbers, tables: &self.store.tables }
    }

    /// Commits what a compaction changes. If that fails, the outputs are given up.
    /// LOCKS: catalog; file numbers
    pub(super) fn commit(
        &self,
        edit: Edit,
        outputs: &[Arc<TableRun>],
        mut amend: impl FnMut(&StoreState, &mut Edit),
    ) -> Result<()> {
        self.provide_for_record(&edit).inspect_err(|_| self.give_up(outputs))?;
        self.store.obsolete.announce(&edit.files_removed);
        let committed = self.store.catalog.commit(|state| {
            let mut edit = edit.clone();
            amend(state, &mut edit);
            self.store.obsolete.announce(&edit.files_removed);
            numbered(state, edit)
        });
        match committed {
            Ok(()) => outputs.iter().for_each(|run| self.store.catalog.numbers.end(run.number())),
            Err(_) => self.give_up(outputs),
        }
        committed
    }

    /// Makes sure that a compaction's record leaves the MANIFEST's space for the flushes to come (INV-34). One that has been lent
    /// the reserve gives more back than its record takes, so it may go on with less.
    /// LOCKS: catalog, reserve
    fn provide_for_record(&self, edit: &Edit) -> Result<()> {
        let keys = edit.files_added.iter().map(|(_, file)| file.smallest_key.len() + file.largest_key.len());
        let (outputs, key_bytes) = (edit.files_added.len(), keys.sum::<usize>() as u64);
        match self.store.catalog.provide_for_outputs(edit.files_removed.len(), outputs, key_bytes) {
            Err(Error::Full { .. }) if outputs == 0 || self.store.catalog.reserve.is_taken() => Ok(()),
            provided => provided,
        }
    }

    /// Gives up outputs that the MANIFEST does not have.
    pub(super) fn give_up(&self, outputs: &[Arc<TableRun>]) {
        outputs.iter().for_each(|run| self.files().give_up(run));
    }

    /// Hands over files that the MANIFEST does not name any more.
    pub(super) fn retire(&self, removed: &[u32]) {
        self.store.obsolete.retire(removed, || ());
    }
}

/// Notes what a compaction has made.
pub(super) fn record(done: &mut CompactionDone, outputs: &[Arc<TableRun>], bytes_read: u64) {
    done.outputs = outputs.iter().map(|run| run.number()).collect();
    done.bytes_written = outputs.iter().map(|run| run.record().bytes).sum();
    done.bytes_read = bytes_read;
}
