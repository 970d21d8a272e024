//! How space is given back: compactions that are made for that alone, and may write into the reserve.
//!
//! Leaf scans free run files only when nearly all of a tree has gone. So where the disk is full, the oldest run file is
//! taken by *file scan*, one part after the other; it goes with the last of them. The reserve has as much as that takes
//! ([`crate::space::OUTPUTS_FOR_SPACE`]). When level 0 is empty, runs are merged with what they overlap below them. A run
//! that overlaps too much of the next level for the space there is, is first split into parts that overlap one run each.
//! At last files with deletes that hide nothing any more are written anew.
//!
//! Each such compaction leaves fewer keys in level 0, or less above other runs, or smaller parts, or fewer deletes. So
//! they come to an end.

use std::cmp::Reverse;
use std::ops::Bound;
use std::sync::Arc;

use slmdb_engine::CompactionPolicy;
use slmdb_engine::background::compaction_queue::SpaceWanted;
use slmdb_engine::space::controller::Resource;
use slmdb_env::{Error, Result};
use slmdb_levels::{KeyRange, LEVEL_LAST, Picked, Plan, Run, TableRun, Version};

use super::compactor::{Compactor, INPUTS};
use crate::level_zero::deletes_below;

/// All keys.
const EVERYTHING: KeyRange<'static> = (Bound::Unbounded, Bound::Unbounded);

impl Compactor {
    /// Gives back some space. Returns whether it did.
    /// LOCKS: chunk (tried); indexing, catalog; those of [`Compactor::merge`]; reserve
    pub(super) fn compact_for_space(&self, wanted: SpaceWanted) -> Result<bool> {
        let Some(_chunk) = self.chunk.try_lock() else { return Ok(false) };
        if self.drop_run_files()? {
            return self.store.gave_space_back(None).map(|()| true);
        }
        match wanted.resource {
            Resource::Pool => {
                self.switch_if_empty()?;
                self.compact_chunk()
            }
            Resource::Disk if self.store.context.options.compaction.policy == CompactionPolicy::Manual => Ok(false),
            Resource::Disk => {
                let state = self.store.catalog.lock().state().clone();
                if self.have_run_files_garbage(&state, wanted.at_any_cost)? {
                    self.switch_if_empty()?;
                    if self.store.in_reserve(INPUTS, || self.compact_oldest_run_file())? {
                        return Ok(true);
                    }
                }
                // What can't be read gives nothing back. Whoever compacts it tells so.
                let is_worth_it = |version: &_, level, run: &_| {
                    matches!(self.hides_garbage(version, level, run, wanted.at_any_cost), Ok(true))
                };
                self.store.in_reserve(INPUTS, || self.compact_levels_in_reserve(EVERYTHING, is_worth_it))
            }
        }
    }

    /// LOCKS: chunk (held); indexing, catalog
    fn switch_if_empty(&self) -> Result<()> {
        if self.state.level_zero.immutable().counts().keys == 0 {
            self.switch()?;
        }
        Ok(())
    }

    /// Merges a run of an upper level that `is_worth_it`, and for which there is space, with what is below it. If there is none,
    /// writes a run anew that has deletes which hide nothing.
    pub(super) fn compact_levels_in_reserve(
        &self,
        range: KeyRange<'_>,
        is_worth_it: impl Fn(&Version<TableRun>, u8, &Arc<TableRun>) -> bool,
    ) -> Result<bool> {
        let mut full = None;
        let mut look = |done| match done {
            Err(error @ Error::Full { .. }) => {
                full = Some(error);
                None
            }
            Ok(false) => None,
            done => Some(done),
        };
        let version = self.state.levels.current();
        for (level, run) in self.upper_runs(&version, range) {
            if !is_worth_it(&version, level, &run) {
                continue;
            }
            if let Some(done) = look(self.bring_down(level, &run)) {
                return done;
            }
        }
        for (level, number) in self.runs_with_garbage(range) {
            if let Some(done) = look(self.rewrite(level, number)) {
                return done;
            }
        }
        full.map_or(Ok(false), Err)
    }

    /// Runs that overlap something below them: those with deletes first, which give most back, and the deepest first,
    /// which are the nearest to what they hide.
    fn upper_runs(&self, version: &Version<TableRun>, range: KeyRange<'_>) -> Vec<(u8, Arc<TableRun>)> {
        let of_level = |level| version.overlapping(level, range).into_iter().map(move |run| (level, run));
        let mut runs: Vec<_> = (1..LEVEL_LAST).flat_map(of_level).collect();
        runs.retain(|(level, run)| is_above_others(version, *level, run));
        runs.sort_by_key(|(level, run)| (run.record().deletes == 0, Reverse(*level)));
        runs
    }

    /// Merges a run with what it overlaps on the next level. If there is no space for that, splits it into parts that
    /// overlap less. Returns whether one of both was done.
    fn bring_down(&self, level: u8, run: &TableRun) -> Result<bool> {
        let Picked::Plan(plan) = self.state.levels.plan_range(level, range_of(run)) else { return Ok(false) };
        if !self.can_read(&plan) {
            return Ok(false);
        }
        if plan.is_move() || plan.input_bytes() <= self.store.room_bytes() {
            return self.compact(plan).map(|()| true);
        }
        if plan.lower().len() < 2 {
            return Ok(false);
        }
        drop(plan);
        let Picked::Plan(parts) = self.state.levels.plan_split(level, run.number()) else { return Ok(false) };
        self.compact(parts).map(|()| true)
    }

    /// Writes a run anew. Returns whether it did.
    pub(super) fn rewrite(&self, level: u8, number: u32) -> Result<bool> {
        match self.state.levels.plan_run(level, number) {
            Picked::Plan(plan) if self.can_read(&plan) => self.compact(plan).map(|()| true),
            _ => Ok(false),
        }
    }

    /// Whether no input is known to be unreadable.
    fn can_read(&self, plan: &Plan<TableRun>) -> bool {
        plan.inputs().all(|run| self.unreadable.is_readable(run.number()))
    }

    /// The runs whose deletes would all go if they were written anew: nothing is below them.
    /// LOCKS: catalog; snapshots
    pub(super) fn runs_with_garbage(&self, range: KeyRange<'_>) -> Vec<(u8, u32)> {
        let deletes_below = deletes_below(self.store.catalog.lock().state());
        let first_moment = self.state.level_zero.snapshots.moments().into_iter().min().unwrap_or(u64::MAX);
        let version = self.state.levels.current();
        let has_garbage = |level: u8, run: &TableRun| {
            let record = run.record();
            let newest = record.highest_sequence;
            record.deletes > 0
                && newest < deletes_below
                && newest <= first_moment
                && !is_above_others(&version, level, run)
        };
        let of_level = |level| version.overlapping(level, range).into_iter().map(move |run| (level, run));
        let runs = (1..=LEVEL_LAST).flat_map(of_level).filter(|(level, run)| has_garbage(*level, run));
        runs.map(|(level, run)| (level, run.number())).collect()
    }
}

/// Whether deeper levels have runs that a run of this level overlaps.
fn is_above_others(version: &Version<TableRun>, level: u8, run: &TableRun) -> bool {
    (level + 1..=LEVEL_LAST).any(|deeper| !version.overlapping(deeper, range_of(run)).is_empty())
}

/// The keys from the first to the last of a run.
fn range_of(run: &TableRun) -> KeyRange<'_> {
    let record = run.record();
    (Bound::Included(&record.smallest_key), Bound::Included(&record.largest_key))
}
