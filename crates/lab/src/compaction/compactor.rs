//! [`Compactor`]: what compaction threads do. Level 0 comes first, then the level that is most above its size.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use slmdb_engine::context::StoreContext;
use slmdb_engine::files::catalog::Catalog;
use slmdb_engine::files::file_records::numbered;
use slmdb_engine::files::obsolete_files::ObsoleteFiles;
use slmdb_engine::files::table_cache::Tables;
use slmdb_engine::write::write_path::WritePath;
use slmdb_engine::{CompactionPolicy, lock_order};
use slmdb_env::{Error, Result};
use slmdb_levels::{
    EntrySource, KeyRange, LEVEL_LAST, LevelFiles, Levels, MergeCounts, MergeError, MergeSettings, Picked, Plan, Run,
    TableOutput, TableRun,
};
use slmdb_manifest::{Edit, StoreState};
use slmdb_pmem::Medium;
use slmdb_sync::scheduled::Mutex;

use super::queue::CompactionQueue;
use crate::level_zero::{LevelZero, deletes_below};

/// After so many bytes a merge looks whether the store closes.
const REPORT_EVERY_BYTES: u64 = 1 << 20;

/// What compactions need of the store.
pub(crate) struct Compactor<M: Medium> {
    pub(crate) context: Arc<StoreContext>,
    pub(crate) writes: Arc<WritePath<M>>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) level_zero: Arc<LevelZero<M>>,
    pub(crate) levels: Arc<Levels<TableRun>>,
    pub(crate) tables: Arc<Tables>,
    pub(crate) obsolete: Arc<ObsoleteFiles>,
    pub(crate) compactions: Arc<CompactionQueue>,
    /// Held while a chunk is moved: one at a time.
    pub(crate) chunk: Mutex<()>,
}

/// The lock that is held while a chunk is moved.
pub(crate) fn chunk_lock() -> Mutex<()> {
    Mutex::ranked(lock_order::LEAF_NODE_SCAN, ())
}

impl<M: Medium + Clone> Compactor<M> {
    /// A thread's loop, until the store closes or fails.
    pub(crate) fn run(&self) {
        let mut seen = 0;
        loop {
            let worked = self.work_once();
            match worked {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) if error.may_be_tried_again() || matches!(error, Error::Corruption { .. }) => {
                    tracing::warn!(%error, "a compaction was given up for now");
                }
                Err(Error::ReadOnly { .. }) => return,
                Err(error) => return self.context.fail(error),
            }
            match self.compactions.wait(seen) {
                Some(changes) => seen = changes,
                None => return,
            }
        }
    }

    /// Does one piece of work. Returns whether there was any.
    fn work_once(&self) -> Result<bool> {
        if self.compactions.is_stopping() || self.context.has_failed() {
            return Ok(false);
        }
        self.compactions.begin();
        let is_wanted = self.compactions.is_space_wanted();
        let worked = self.compact_level_zero(is_wanted);
        let worked = match worked {
            Ok(false) if self.context.options.compaction.policy != CompactionPolicy::Manual => self.compact_levels(),
            worked => worked,
        };
        self.compactions.end(!matches!(worked, Ok(true)));
        if matches!(worked, Ok(true)) {
            self.writes.memtables.lock().space_returned += 1;
            self.writes.work_to_do.notify_all();
        }
        worked
    }

    /// Whether level 0 has so much that chunks of it should go.
    fn is_level_zero_due(&self) -> bool {
        let options = &self.context.options.lab;
        let due_bytes = options.level_zero_bytes as f64 * options.level_zero_compaction_at;
        self.level_zero.used_bytes() as f64 >= due_bytes
    }

    /// Moves a chunk of level 0 on, if that is due or wanted, and no other thread does.
    /// LOCKS: level 0 compaction (tried); indexing, catalog
    fn compact_level_zero(&self, is_wanted: bool) -> Result<bool> {
        if !is_wanted && !self.is_level_zero_due() {
            return Ok(false);
        }
        let Some(_chunk) = self.chunk.try_lock() else { return Ok(false) };
        if self.level_zero.immutable().counts().keys == 0 && !self.switch()? {
            return Ok(false);
        }
        self.compact_chunk()
    }

    /// LOCKS: indexing, catalog
    fn switch(&self) -> Result<bool> {
        let indexing = self.level_zero.indexing.lock();
        if *indexing { Ok(false) } else { self.level_zero.switch(&self.catalog) }
    }

    /// Moves something from the level that is most above its size to the next one.
    fn compact_levels(&self) -> Result<bool> {
        match self.levels.pick(&|_| true) {
            Some(plan) => self.compact(plan).map(|()| true),
            None => Ok(false),
        }
    }

    /// Carries out a plan whose inputs are all in levels.
    /// LOCKS: those of [`Compactor::merge`]; indexing, catalog
    fn compact(&self, plan: Plan<TableRun>) -> Result<()> {
        let (change, outputs) = if plan.is_move() {
            (plan.change_of_move(), Vec::new())
        } else {
            let sources = plan.inputs().map(|run| Ok(Box::new(run.source()?) as Box<dyn EntrySource>));
            let outputs = self.merge(&plan, sources.collect::<Result<_>>()?)?;
            (plan.change(outputs.iter().cloned()), outputs)
        };
        // A verification holds the lock, and sees a MANIFEST that does not change.
        let indexing = self.level_zero.indexing.lock();
        self.commit(slmdb_levels::edit_of(&change), &outputs, |_, _| ())?;
        drop(indexing);
        self.levels.apply(&change).map_err(|what| Error::invalid(format!("levels: {what}")))?;
        let removed: Vec<u32> = change.removed.iter().map(|run| run.number()).collect();
        drop((plan, change));
        self.retire(&removed);
        Ok(())
    }

    /// Merges the inputs of a plan. The outputs are durable.
    /// LOCKS: catalog; snapshots; file numbers
    pub(super) fn merge(
        &self,
        plan: &Plan<TableRun>,
        sources: Vec<Box<dyn EntrySource>>,
    ) -> Result<Vec<Arc<TableRun>>> {
        let deletes_below = deletes_below(self.catalog.lock().state());
        let mut report = |_: &MergeCounts| {
            if self.compactions.is_stopping() || self.context.has_failed() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let settings = MergeSettings {
            order: self.context.options.comparator.clone(),
            prefix: plan.prefix(),
            cut: plan.cut(),
            retention: plan.retention(self.level_zero.snapshots.moments(), deletes_below),
            report_every_bytes: REPORT_EVERY_BYTES,
            report: &mut report,
        };
        let merged = slmdb_levels::merge(sources, settings, TableOutput::new(self.files()));
        let (outputs, counts) = merged.map_err(|error| match error {
            MergeError::Ended => Error::ReadOnly { cause: "the store closes".into() },
            MergeError::Source(_, error) | MergeError::Output(error) => error,
        })?;
        self.context.counted.compactions.fetch_add(1, Ordering::Relaxed);
        self.context.counted.compaction_bytes_read.fetch_add(counts.bytes_read, Ordering::Relaxed);
        Ok(outputs)
    }

    fn files(&self) -> LevelFiles<'_> {
        LevelFiles { context: &self.context, numbers: &self.catalog.numbers, tables: &self.tables }
    }

    /// Commits what a compaction changes. If that fails, the outputs are given up.
    /// LOCKS: catalog; file numbers
    pub(super) fn commit(
        &self,
        edit: Edit,
        outputs: &[Arc<TableRun>],
        mut amend: impl FnMut(&StoreState, &mut Edit),
    ) -> Result<()> {
        self.obsolete.announce(&edit.files_removed);
        let committed = self.catalog.commit(|state| {
            let mut edit = edit.clone();
            amend(state, &mut edit);
            self.obsolete.announce(&edit.files_removed);
            numbered(state, edit)
        });
        match committed {
            Ok(()) => outputs.iter().for_each(|run| self.catalog.numbers.end(run.number())),
            Err(_) => self.give_up(outputs),
        }
        committed
    }

    /// Gives up outputs that the MANIFEST does not have.
    pub(super) fn give_up(&self, outputs: &[Arc<TableRun>]) {
        outputs.iter().for_each(|run| self.files().give_up(run));
    }

    /// Hands over files that the MANIFEST does not name any more.
    pub(super) fn retire(&self, removed: &[u32]) {
        self.obsolete.retire(removed, || ());
    }

    /// See [`slmdb_engine::Engine::compact_range`]: all of level 0, then the range, level by level.
    pub(crate) fn compact_range(&self, range: KeyRange<'_>) -> Result<()> {
        self.context.check_writable()?;
        self.writes.flush()?;
        // Twice: what is in the immutable tree, and then what was in the mutable one.
        for _ in 0..2 {
            let _chunk = self.chunk.lock();
            while self.level_zero.immutable().counts().keys > 0 {
                self.context.check_writable()?;
                self.compact_chunk()?;
            }
            self.switch()?;
        }
        let _chunk = self.chunk.lock();
        while self.level_zero.immutable().counts().keys > 0 {
            self.context.check_writable()?;
            self.compact_chunk()?;
        }
        drop(_chunk);
        for level in 1..LEVEL_LAST {
            let deepest = self.levels.current().deepest_level(range);
            if deepest.is_none_or(|deepest| deepest <= level) {
                break;
            }
            self.compact_range_of(level, range)?;
        }
        Ok(())
    }

    fn compact_range_of(&self, level: u8, range: (Bound<&[u8]>, Bound<&[u8]>)) -> Result<()> {
        loop {
            self.context.check_writable()?;
            match self.levels.plan_range(level, range) {
                Picked::Nothing => return Ok(()),
                Picked::Plan(plan) => self.compact(plan)?,
                Picked::Busy => drop(self.compactions.wait(0)),
            }
        }
    }
}
