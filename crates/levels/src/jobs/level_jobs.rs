//! [`LevelJobs`]: compactions whose inputs are runs of levels.

use std::collections::HashMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use slmdb_engine::background::compaction_queue::CompactionQueue;
use slmdb_engine::files::file_records::numbered;
use slmdb_engine::store::compaction::{CompactionDone, CompactionWork};
use slmdb_engine::store::parts::Parts;
use slmdb_env::{Error, Result};
use slmdb_manifest::{Edit, StoreState};
use slmdb_sync::scheduled::Mutex;

use super::level_source::{Input, LevelSource, window_bytes};
use super::unreadable_files::UnreadableFiles;
use crate::change::{Change, edit_of};
use crate::levels::Levels;
use crate::merge::{MergeCounts, MergeError, MergeSettings, RunOutput, merge};
use crate::picking::Picked;
use crate::plan::Plan;
use crate::run::{EntrySource, Run};
use crate::table_output::LevelFiles;

/// After so many bytes a merge looks whether the store closes.
const REPORT_EVERY_BYTES: u64 = 1 << 20;
/// For the MANIFEST record of a compaction for space: about as many files.
pub const INPUTS: usize = 16;

/// What an engine keeps of a store that has levels.
pub trait LevelsState: Send + Sync + 'static {
    /// What the levels consist of.
    type Run: Run;
    /// What writes the outputs of a merge.
    type Output<'s>: RunOutput<Input<Self::Run>, Run = Arc<Self::Run>, Error = Error>;

    /// The levels.
    fn levels(&self) -> &Levels<Self::Run>;
    /// Writes the outputs of a plan. `files`: where table files are made.
    fn output<'s>(&'s self, files: LevelFiles<'s>, plan: &Plan<Self::Run>) -> Self::Output<'s>;
    /// Gives up a complete output that the MANIFEST does not have, and will never have.
    fn give_up(&self, files: LevelFiles<'_>, run: &Self::Run);
    /// Called when runs have left the levels, and the MANIFEST: they go when nobody reads them any more. Table files go without it.
    fn left(&self, _: &[Arc<Self::Run>]) {}
    /// Whether a plan that [is a move](Plan::is_move) may be carried out as one.
    fn may_move(&self, _: &Plan<Self::Run>) -> bool {
        true
    }
    /// How many bytes of table files the merge of a plan may write.
    fn file_bytes(&self, plan: &Plan<Self::Run>) -> u64 {
        plan.input_bytes()
    }
    /// [`Error::Full`]: a plan that gives nothing back has to wait until others have.
    fn check_space(&self, _: &Plan<Self::Run>) -> Result<()> {
        Ok(())
    }
    /// Which compactions run, and what is wanted of them.
    fn compactions(&self) -> &CompactionQueue;
    /// The moments that snapshots and cursors see.
    /// LOCKS: snapshots
    fn moments(&self) -> Vec<u64>;
    /// Deletes with numbers below this may be dropped at the bottom, by what the MANIFEST says: nothing above the levels has
    /// anything as old.
    fn deletes_below(&self, state: &StoreState) -> u64;
    /// How long an output of a plan becomes at most, in bytes.
    fn output_bytes(&self, plan: &Plan<Self::Run>) -> u64;
    /// Commits something, and makes it visible, while no verification looks at the MANIFEST and the levels.
    /// LOCKS: the engine's own; those of `commit`
    fn in_agreement(&self, commit: &mut dyn FnMut() -> Result<()>) -> Result<()>;
}

/// What a merge reads beside runs: entries from above the levels.
pub struct Inflow<'s> {
    /// How many they are.
    pub entries: u64,
    /// What they will take in a table file, in bytes.
    pub bytes: u64,
    /// How many windows their source has.
    pub windows: usize,
    /// The number of the table file that the source is reading.
    pub reads: Arc<AtomicU32>,
    /// Makes the source, with windows of so many bytes.
    pub source: Box<dyn FnOnce(usize) -> Box<dyn EntrySource> + 's>,
}

/// What a compaction of levels has done.
#[derive(Debug, Clone, Copy)]
pub struct Compacted {
    /// The level that inputs have left.
    pub from: u8,
    /// How many bytes have left it.
    pub left_bytes: u64,
    /// How many bytes were written.
    pub written_bytes: u64,
    /// How long that took, in nanoseconds.
    pub took_ns: u64,
}

/// Compactions whose inputs are runs of levels.
pub struct LevelJobs<S: LevelsState> {
    /// The store.
    pub store: Arc<Parts>,
    /// What the engine keeps of it.
    pub state: Arc<S>,
    /// The files that can't be read. They are left alone until the next opening.
    pub unreadable: UnreadableFiles,
    /// Where among the runs the next compaction for space begins to look.
    pub(super) next_for_space: AtomicUsize,
    /// Runs in which no garbage was found: what a hash makes of the runs around, and how many entries were looked at.
    pub(super) without_garbage: Mutex<HashMap<u32, (u64, u64)>>,
    /// Called when levels have changed.
    on_change: Box<dyn Fn(&Compacted) + Send + Sync>,
}

impl<S: LevelsState> LevelJobs<S> {
    /// Nothing is compacted yet. `on_change` is called when levels have changed.
    pub fn new(
        store: Arc<Parts>,
        state: Arc<S>,
        on_change: impl Fn(&Compacted) + Send + Sync + 'static,
    ) -> LevelJobs<S> {
        LevelJobs {
            store,
            state,
            unreadable: UnreadableFiles::default(),
            next_for_space: AtomicUsize::new(0),
            without_garbage: Mutex::default(),
            on_change: Box::new(on_change),
        }
    }

    /// Moves something from the level that is most above its size to the next one. If there is no space for that, moves the oldest
    /// runs of level 0 alone, or something from another level. [`Error::Full`]: there is no space for any.
    pub fn compact_levels(&self) -> Result<bool> {
        let is_readable = |run: &S::Run| self.unreadable.is_readable(run);
        let (mut full, mut tried) = (None, 0_u8);
        loop {
            let may = |level: u8| tried >> level & 1 == 0;
            let Some(plan) = self.state.levels().pick_readable(&may, &is_readable) else { break };
            let level = plan.from();
            let done = match self.compact_in_free_space(plan) {
                Err(error @ Error::Full { .. }) if level == 0 => self.compact_oldest_run().unwrap_or(Err(error)),
                done => done,
            };
            match done {
                Err(error @ Error::Full { .. }) => full = full.or(Some(error)),
                done => return done.map(|()| true),
            }
            tried |= 1 << level;
        }
        full.map_or(Ok(false), Err)
    }

    /// Moves the oldest run of level 0 down, with no more others than must go along. `None`: that is not possible now.
    fn compact_oldest_run(&self) -> Option<Result<()>> {
        match self.state.levels().plan_range_within(0, (Bound::Unbounded, Bound::Unbounded), 0) {
            Picked::Plan(plan) if self.can_read(&plan) => Some(self.compact_in_free_space(plan)),
            _ => None,
        }
    }

    /// As [`LevelJobs::compact`], and leaves the reserve alone.
    pub fn compact_in_free_space(&self, plan: Plan<S::Run>) -> Result<()> {
        if !self.is_move(&plan) {
            self.state.check_space(&plan)?;
            self.store.check_space(self.state.file_bytes(&plan))?;
        }
        self.compact(plan)
    }

    /// Whether a plan is carried out by an edit of the MANIFEST alone.
    pub(super) fn is_move(&self, plan: &Plan<S::Run>) -> bool {
        plan.is_move() && self.state.may_move(plan)
    }

    /// Carries out a plan whose inputs are all in levels.
    /// LOCKS: those of [`LevelJobs::merge`] and [`LevelsState::in_agreement`]; catalog
    pub fn compact(&self, plan: Plan<S::Run>) -> Result<()> {
        let began_ns = self.store.context.env.monotonic_ns();
        if self.is_move(&plan) {
            return self.commit_change(plan.change_of_move(), &[], plan, began_ns);
        }
        let work = CompactionWork {
            chosen_by: plan.reason().as_str(),
            inputs: plan.inputs().map(|run| run.number()).collect(),
            input_bytes: plan.input_bytes(),
        };
        self.observe(work, |done, unreadable| {
            let (outputs, bytes_read) = self.merge(&plan, None, unreadable)?;
            record(done, &outputs, bytes_read);
            self.commit_change(plan.change(outputs.iter().cloned()), &outputs, plan, began_ns)
        })
    }

    /// Runs a compaction, and tells of it. What it gave back is there when it is told. An input that can't be read is passed over
    /// from then on.
    /// LOCKS: those of `compact` and [`Parts::gave_space_back`]
    pub fn observe(
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

    /// Removes files that nobody reads any more, for an idle thread: a reader does not say when it lets go of a version.
    pub fn look_for_unpinned(&self) {
        // (Those that are no files are asked for by nobody else.)
        self.state.levels().pinned();
        if self.store.obsolete.remove_unpinned()
            && let Err(error) = self.store.gave_space_back(None)
        {
            tracing::warn!(%error, "the reserve is not full");
        }
    }

    /// Lets the store fail, unless the error may pass: behind what could not be written nothing is sure.
    pub fn fail_unless_it_passes(&self, error: &Error) {
        if !error.may_be_tried_again() && !matches!(error, Error::ReadOnly { .. }) {
            self.store.context.fail(error.clone());
        }
    }

    /// LOCKS: those of [`LevelsState::in_agreement`]; catalog
    fn commit_change(
        &self,
        change: Change<S::Run>,
        outputs: &[Arc<S::Run>],
        plan: Plan<S::Run>,
        began_ns: u64,
    ) -> Result<()> {
        self.state.in_agreement(&mut || {
            self.commit(edit_of(&change), outputs, |_, _| ())?;
            let applied = self.state.levels().apply(&change);
            applied.map(drop).map_err(|what| Error::invalid(format!("levels: {what}")))
        })?;
        let removed: Vec<u32> = change.removed.iter().filter(|run| run.is_file()).map(|run| run.number()).collect();
        let done = Compacted {
            from: plan.from(),
            left_bytes: plan.upper().iter().map(|run| run.record().bytes).sum(),
            written_bytes: outputs.iter().map(|run| run.record().bytes).sum(),
            took_ns: self.store.context.env.monotonic_ns().saturating_sub(began_ns),
        };
        self.state.left(&change.removed);
        drop((plan, change));
        (self.on_change)(&done);
        self.retire(&removed);
        Ok(())
    }

    /// Merges the inputs of a plan with what comes from above the levels. Returns the outputs, which are durable, and how many
    /// bytes were read. `unreadable`: set to the number of an input that can't be read.
    /// LOCKS: catalog; snapshots; file numbers
    pub fn merge(
        &self,
        plan: &Plan<S::Run>,
        inflow: Option<Inflow<'_>>,
        unreadable: &mut Option<u32>,
    ) -> Result<(Vec<Arc<S::Run>>, u64)> {
        // Which table file each source reads.
        let mut reads: Vec<Arc<AtomicU32>> = Vec::new();
        let mut sources: Vec<Input<S::Run>> = Vec::new();
        // Runs of level 0 overlap, so each is a source of its own. Those of another level are one, in their order.
        let upper: Vec<_> = if plan.from() == 0 { plan.upper().chunks(1).collect() } else { vec![plan.upper()] };
        let levels = upper.into_iter().chain([plan.lower()]).filter(|runs| !runs.is_empty());
        let windows = levels.clone().count() + inflow.as_ref().map_or(0, |inflow| inflow.windows);
        let window_bytes = window_bytes(self.store.context.options.memory_budget_bytes, windows);
        let held_bytes = (windows * window_bytes) as u64;
        let _held = self.store.context.budget.background.hold(held_bytes);
        let mut cut = plan.cut();
        if let Some(inflow) = inflow {
            cut.input_entries += inflow.entries;
            cut.input_bytes += inflow.bytes;
            reads.push(inflow.reads);
            sources.push(Input::above((inflow.source)(window_bytes)));
        }
        for runs in levels {
            let file = Arc::new(AtomicU32::new(0));
            reads.push(file.clone());
            sources.push(Input::level(LevelSource::new(runs.to_vec(), window_bytes, file)));
        }
        let deletes_below = self.state.deletes_below(self.store.catalog.lock().state());
        let mut report = |_: &MergeCounts| {
            if self.state.compactions().is_stopping() || self.store.context.has_failed() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        if !plan.stays_one() {
            cut.output_bytes = cut.output_bytes.min(self.state.output_bytes(plan));
        }
        let settings = MergeSettings {
            order: self.store.context.options.comparator.clone(),
            prefix: plan.prefix(),
            cut,
            retention: plan.retention(self.state.moments(), deletes_below),
            report_every_bytes: REPORT_EVERY_BYTES,
            report: &mut report,
        };
        let merged = merge(sources, settings, self.state.output(self.files(), plan));
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

    /// What makes and removes the files of outputs.
    fn files(&self) -> LevelFiles<'_> {
        LevelFiles { context: &self.store.context, numbers: &self.store.catalog.numbers, tables: &self.store.tables }
    }

    /// Commits what a compaction changes. If that fails, the outputs are given up.
    /// LOCKS: catalog; file numbers
    pub fn commit(
        &self,
        edit: Edit,
        outputs: &[Arc<S::Run>],
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
        committed.inspect_err(|_| self.give_up(outputs))
    }

    /// Makes sure that a compaction's record leaves the MANIFEST's space for the flushes to come (INV-34). One that has been lent
    /// the reserve gives more back than its record takes, so it may go on with less.
    /// LOCKS: catalog, reserve
    fn provide_for_record(&self, edit: &Edit) -> Result<()> {
        let added = edit.files_added.iter().chain(&edit.lists_added);
        let keys = added.map(|(_, run)| run.smallest_key.len() + run.largest_key.len());
        let (outputs, key_bytes) = (edit.files_added.len() + edit.lists_added.len(), keys.sum::<usize>() as u64);
        let inputs = edit.files_removed.len() + edit.lists_removed.len();
        match self.store.catalog.provide_for_outputs(inputs, outputs, key_bytes) {
            Err(Error::Full { .. }) if outputs == 0 || self.store.catalog.reserve.is_taken() => Ok(()),
            provided => provided,
        }
    }

    /// Gives up outputs that the MANIFEST does not have.
    pub fn give_up(&self, outputs: &[Arc<S::Run>]) {
        outputs.iter().for_each(|run| self.state.give_up(self.files(), run));
    }

    /// Hands over files that the MANIFEST does not name any more.
    pub fn retire(&self, removed: &[u32]) {
        self.store.obsolete.retire(removed, || ());
    }
}

/// Notes what a compaction has made.
pub fn record<R: Run>(done: &mut CompactionDone, outputs: &[Arc<R>], bytes_read: u64) {
    done.outputs = outputs.iter().map(|run| run.number()).collect();
    done.bytes_written = outputs.iter().filter(|run| run.is_file()).map(|run| run.record().bytes).sum();
    done.bytes_read = bytes_read;
}
