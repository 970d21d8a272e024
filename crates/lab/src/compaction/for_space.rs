//! How space is given back: compactions that are made for that alone, and may write into the reserve.
//!
//! Leaf scans free run files only when nearly all of a tree has gone. So where the disk is full, the oldest run file is
//! taken by *file scan*, one part after the other; it goes with the last of them. The reserve has as much as that takes
//! ([`crate::space::OUTPUTS_FOR_SPACE`]). When level 0 is empty, levels are merged downwards, and at last files with
//! deletes that hide nothing any more are written anew.
//!
//! Each such compaction leaves fewer keys in level 0, or less above the deepest level, or fewer deletes. So they come to
//! an end.

use std::ops::Bound;

use slmdb_engine::CompactionPolicy;
use slmdb_engine::files::catalog::Catalog;
use slmdb_engine::space::controller::Resource;
use slmdb_engine::space::reserve::OutputSpace;
use slmdb_env::{Error, Result};
use slmdb_levels::{KeyRange, LEVEL_LAST, Picked, Plan, Run, TableRun};
use slmdb_pmem::Medium;
use slmdb_sync::epoch;

use super::compactor::Compactor;
use crate::level_zero::deletes_below;

/// For the MANIFEST record of a compaction for space: about as many files.
const INPUTS: usize = 16;

/// All keys.
const EVERYTHING: KeyRange<'static> = (Bound::Unbounded, Bound::Unbounded);

/// Ends the use of the reserve, however a compaction ends.
struct Lent<'c>(&'c Catalog);

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.0.reserve.release();
    }
}

impl<M: Medium + Clone> Compactor<M> {
    /// Gives back some space of a resource. Returns whether it did.
    /// LOCKS: level 0 compaction (tried); indexing, catalog; those of [`Compactor::merge`]; reserve
    pub(super) fn compact_for_space(&self, resource: Resource) -> Result<bool> {
        let Some(_chunk) = self.chunk.try_lock() else { return Ok(false) };
        if self.drop_run_files()? {
            return self.gave_space_back().map(|()| true);
        }
        if self.level_zero.immutable().counts().keys == 0 {
            self.switch()?;
        }
        match resource {
            Resource::Pool => self.compact_chunk(),
            Resource::Disk => self.in_reserve(|| {
                if self.compact_oldest_run_file()? {
                    return Ok(true);
                }
                let is_manual = self.context.options.compaction.policy == CompactionPolicy::Manual;
                if is_manual { Ok(false) } else { self.compact_levels_in_reserve(EVERYTHING) }
            }),
        }
    }

    /// Runs a compaction that may use the reserve. `false`: another one has it, or there was nothing to do.
    /// LOCKS: catalog, reserve; those of `compact`
    pub(super) fn in_reserve(&self, compact: impl FnOnce() -> Result<bool>) -> Result<bool> {
        // Not without space for its own record in the MANIFEST (INV-34).
        self.catalog.provide_for_compaction(INPUTS, OutputSpace::Reserve)?;
        let done = {
            if !self.catalog.reserve.lend()? {
                return Ok(false);
            }
            let _lent = Lent(&self.catalog);
            compact()
        };
        self.gave_space_back()?;
        done
    }

    /// Merges the first run of a level, for which there is space, with what is below it. If all levels but the deepest are
    /// empty, writes a run anew that has deletes which hide nothing.
    pub(super) fn compact_levels_in_reserve(&self, range: KeyRange<'_>) -> Result<bool> {
        let mut full = None;
        for plan in self.plans_for_space(range) {
            let free_bytes = self.context.env.available_bytes(&self.context.directory).unwrap_or(u64::MAX);
            if !plan.is_move() && plan.input_bytes() > free_bytes {
                continue;
            }
            match self.compact(plan) {
                Err(error @ Error::Full { .. }) => full = Some(error),
                done => return done.map(|()| true),
            }
        }
        full.map_or(Ok(false), Err)
    }

    /// Plans of one upper run each, made when they are asked for.
    fn plans_for_space<'c>(&'c self, range: KeyRange<'c>) -> impl Iterator<Item = Plan<TableRun>> + 'c {
        let version = self.levels.current();
        let deepest = version.deepest_level(range).unwrap_or(0);
        let above: Vec<_> = (1..deepest)
            .flat_map(|level| version.overlapping(level, range).into_iter().map(move |run| (level, run)))
            .collect();
        let downwards = above.into_iter().map(|(level, run)| {
            let record = run.record();
            let of_run = (Bound::Included(&record.smallest_key[..]), Bound::Included(&record.largest_key[..]));
            self.levels.plan_range(level, of_run)
        });
        let anew = self.runs_with_garbage(range).into_iter().map(|(level, number)| self.levels.plan_run(level, number));
        downwards.chain(anew).filter_map(|picked| match picked {
            Picked::Plan(plan) => Some(plan),
            Picked::Busy | Picked::Nothing => None,
        })
    }

    /// The runs of the deepest level whose deletes would all go if they were written anew.
    /// LOCKS: catalog; snapshots
    pub(super) fn runs_with_garbage(&self, range: KeyRange<'_>) -> Vec<(u8, u32)> {
        let deletes_below = deletes_below(self.catalog.lock().state());
        let first_moment = self.level_zero.snapshots.moments().into_iter().min().unwrap_or(u64::MAX);
        let version = self.levels.current();
        let Some(deepest) = version.deepest_level(range).filter(|level| (1..=LEVEL_LAST).contains(level)) else {
            return Vec::new();
        };
        let runs = version.overlapping(deepest, range).into_iter().filter(|run| {
            let record = run.record();
            let newest = record.highest_sequence;
            record.deletes > 0 && newest < deletes_below && newest <= first_moment
        });
        runs.map(|run| (deepest, run.number())).collect()
    }

    /// After a compaction's inputs are gone: refills the reserve first, then wakes the threads that wait for space.
    /// LOCKS: catalog; reserve; memtables; compactions
    pub(super) fn gave_space_back(&self) -> Result<()> {
        self.catalog.reserve.set_files(self.catalog.lock().state().files.values().map(|file| file.length_bytes));
        match self.catalog.fill_reserve() {
            Err(error) if !error.may_be_tried_again() => return Err(error),
            _ => {}
        }
        // Or slots of the pool would wait until this thread takes out as much again.
        epoch::pin().flush();
        self.compactions.wake();
        let mut memtables = self.writes.memtables.lock();
        memtables.space_returned += 1;
        self.writes.work_to_do.notify_all();
        Ok(())
    }
}
