//! How levels give space back: compactions that are made for that alone, and may write into the reserve.
//!
//! Runs are merged with what they overlap below them. A run that overlaps too much of the next level for the space there is,
//! is first split into parts that overlap one run each. At last files with deletes that hide nothing any more are written
//! anew. Each such compaction leaves less above other runs, or smaller parts, or fewer deletes. So they come to an end.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;

use slmdb_engine::read::merge::Source;
use slmdb_engine::space::controller::Resource;
use slmdb_env::{Error, Result};

use super::level_jobs::{LevelJobs, LevelsState};
use super::level_source::LEAST_WINDOW_BYTES;
use crate::depth::LEVEL_LAST;
use crate::picking::Picked;
use crate::plan::{Plan, PlanReason};
use crate::run::Run;
use crate::version::{KeyRange, Version};

/// So many keys of a file are looked up, about.
pub const SAMPLES: u64 = 64;
/// If this part of a file's entries is garbage, it is worth a compaction. For deletes the least is.
const WORTH_PART: u64 = 16;

/// Inputs for which there was no space, and what lacked it. Runs of level 0 overlap, so the plans for most of them are the same; each
/// try may merge all of level 0 before it finds that out.
type InVain = HashMap<Vec<u32>, Error>;

/// Entries that were looked at, and how many of them nobody needs.
#[derive(Debug, Default, Clone, Copy)]
pub struct Sampled {
    /// All that were looked at.
    pub entries: u64,
    /// Those that nobody needs.
    pub garbage: u64,
}

impl Sampled {
    /// Counts one more.
    pub fn count(&mut self, is_garbage: bool) {
        self.entries += 1;
        self.garbage += u64::from(is_garbage);
    }

    /// Whether a compaction of their file would give enough back.
    pub fn is_worth_it(&self, at_any_cost: bool) -> bool {
        self.garbage > 0 && (at_any_cost || self.garbage * WORTH_PART >= self.entries)
    }
}

impl<S: LevelsState> LevelJobs<S> {
    /// Merges a run of an upper level that `is_worth_it`, and for which there is space, with what is below it. If there is none,
    /// writes a run anew that has deletes which hide nothing. `resource`: what is to come back.
    pub fn compact_levels_in_reserve(
        &self,
        range: KeyRange<'_>,
        resource: Resource,
        is_worth_it: impl Fn(&Version<S::Run>, u8, &Arc<S::Run>) -> bool,
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
        let reason = match resource {
            Resource::Disk => PlanReason::DiskSpace,
            Resource::Pool => PlanReason::PoolSpace,
        };
        // No run is held while others are merged, or their files would stay as long.
        let mut in_vain = InVain::new();
        for (level, number) in self.upper_runs(range) {
            let Some(keys) = self.keys_if(level, number, &is_worth_it) else { continue };
            if let Some(done) = look(self.bring_down(level, &keys, reason, &mut in_vain)) {
                return done;
            }
        }
        for (level, number) in self.runs_with_garbage(range) {
            if let Some(done) = look(self.rewrite(level, number, reason)) {
                return done;
            }
        }
        full.map_or(Ok(false), Err)
    }

    /// Runs that overlap something below them: those with deletes first, which give most back, and the deepest first,
    /// which are the nearest to what they hide.
    fn upper_runs(&self, range: KeyRange<'_>) -> Vec<(u8, u32)> {
        let version = self.state.levels().current();
        let of_level = |level| version.overlapping(level, range).into_iter().map(move |run| (level, run));
        let mut runs: Vec<_> = (0..LEVEL_LAST).flat_map(of_level).collect();
        runs.retain(|(level, run)| is_above_others(&version, *level, run));
        runs.sort_by_key(|(level, run)| (run.record().deletes == 0, Reverse(*level)));
        runs.iter().map(|(level, run)| (*level, run.number())).collect()
    }

    /// The smallest and the largest key of a run that is still there and is worth it.
    fn keys_if(
        &self,
        level: u8,
        number: u32,
        is_worth_it: impl Fn(&Version<S::Run>, u8, &Arc<S::Run>) -> bool,
    ) -> Option<(Vec<u8>, Vec<u8>)> {
        let version = self.state.levels().current();
        let run = version.level(level).iter().find(|run| run.number() == number)?;
        let (smallest, largest) = (run.record().smallest_key.to_vec(), run.record().largest_key.to_vec());
        is_worth_it(&version, level, run).then_some((smallest, largest))
    }

    /// Merges a run with what it overlaps on the next level; of level 0 also the others that must go along, or the oldest of them
    /// alone if there is too little space. If there is no space for one, splits it into parts that overlap less. Returns whether
    /// anything was done. What was in vain is not tried again.
    fn bring_down(
        &self,
        level: u8,
        keys: &(Vec<u8>, Vec<u8>),
        reason: PlanReason,
        in_vain: &mut InVain,
    ) -> Result<bool> {
        let range = (Bound::Included(&keys.0[..]), Bound::Included(&keys.1[..]));
        let mut down = |input_bytes_max| match self.plan_with_space(level, range, input_bytes_max) {
            Picked::Plan(plan) if self.can_read(&plan) => {
                let inputs: Vec<u32> = plan.inputs().map(|run| run.number()).collect();
                if let Some(full) = in_vain.get(&inputs) {
                    return Err(full.clone());
                }
                self.bring_down_or_split(level, plan.for_reason(reason)).inspect_err(|error| {
                    if matches!(error, Error::Full { .. }) {
                        in_vain.insert(inputs, error.clone());
                    }
                })
            }
            _ => Ok(false),
        };
        match down(u64::MAX) {
            Err(Error::Full { .. }) if level == 0 => down(0),
            done => done,
        }
    }

    fn bring_down_or_split(&self, level: u8, plan: Plan<S::Run>) -> Result<bool> {
        if self.is_move(&plan) || self.state.file_bytes(&plan) <= self.store.room_bytes() {
            return self.compact(plan).map(|()| true);
        }
        match (plan.upper().len(), plan.lower().len()) {
            // Of the pool each part would take more than what it is a part of.
            _ if plan.reason() == PlanReason::PoolSpace => return Ok(false),
            (1, 2..) => {}
            // Two runs that hide something from each other become shorter than they are.
            (1, 1) => return self.compact(plan).map(|()| true),
            _ => return Ok(false),
        }
        let (number, reason) = (plan.upper()[0].number(), plan.reason());
        drop(plan);
        let Picked::Plan(parts) = self.state.levels().plan_split(level, number) else { return Ok(false) };
        self.compact(parts.for_reason(reason)).map(|()| true)
    }

    /// The next part of moving a range down from a level, with no more inputs than so many bytes, and than the disk has space for.
    pub(super) fn plan_with_space(&self, level: u8, range: KeyRange<'_>, input_bytes_max: u64) -> Picked<S::Run> {
        let room_bytes = self.store.room_bytes();
        match self.state.levels().plan_range_within(level, range, input_bytes_max) {
            Picked::Plan(plan) if self.state.file_bytes(&plan) > room_bytes => {
                drop(plan);
                self.state.levels().plan_range_within(level, range, input_bytes_max.min(room_bytes))
            }
            picked => picked,
        }
    }

    /// Writes a run anew. Returns whether it did.
    pub(super) fn rewrite(&self, level: u8, number: u32, reason: PlanReason) -> Result<bool> {
        match self.state.levels().plan_run(level, number) {
            Picked::Plan(plan) if self.can_read(&plan) => self.compact(plan.for_reason(reason)).map(|()| true),
            _ => Ok(false),
        }
    }

    /// Whether no input is known to be unreadable.
    pub(super) fn can_read(&self, plan: &Plan<S::Run>) -> bool {
        plan.inputs().all(|run| self.unreadable.is_readable(&**run))
    }

    /// The runs whose deletes would all go if they were written anew: nothing is below them.
    /// LOCKS: catalog; snapshots
    pub fn runs_with_garbage(&self, range: KeyRange<'_>) -> Vec<(u8, u32)> {
        let deletes_below = self.state.deletes_below(self.store.catalog.lock().state());
        let first_moment = self.state.moments().into_iter().min().unwrap_or(u64::MAX);
        let version = self.state.levels().current();
        let has_garbage = |level: u8, run: &S::Run| {
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

    /// Whether a run has deletes, or newer versions of keys that are below it.
    pub fn hides_garbage(
        &self,
        version: &Version<S::Run>,
        level: u8,
        run: &Arc<S::Run>,
        at_any_cost: bool,
    ) -> Result<bool> {
        let record = run.record();
        let deletes = Sampled { entries: record.entries, garbage: record.deletes };
        if deletes.is_worth_it(at_any_cost) {
            return Ok(true);
        }
        // The first ones: others would take a read each.
        let (mut sampled, mut source) = (Sampled::default(), run.source(LEAST_WINDOW_BYTES)?);
        while sampled.entries < SAMPLES && source.advance()? {
            let key = source.key();
            let mut hides = false;
            for older in older_runs_of_level_0(version, level, &**run) {
                hides = hides || older.get(key, u64::MAX)?.is_some();
            }
            for deeper in level + 1..=LEVEL_LAST {
                hides = hides || version.has_key(deeper, key)?;
            }
            sampled.count(hides);
        }
        Ok(sampled.is_worth_it(at_any_cost))
    }
}

/// The runs of level 0 that are older than one of them. None for another level.
fn older_runs_of_level_0<'v, R: Run>(version: &'v Version<R>, level: u8, run: &R) -> &'v [Arc<R>] {
    let runs = version.level(0);
    let position = runs.iter().position(|other| level == 0 && other.number() == run.number());
    position.map_or(&[], |position| &runs[position + 1..])
}

/// Whether a run of this level overlaps others that are older: on deeper levels, or on level 0.
fn is_above_others<R: Run>(version: &Version<R>, level: u8, run: &R) -> bool {
    let overlaps = |older: &Arc<R>| version.overlaps(older, range_of(run));
    older_runs_of_level_0(version, level, run).iter().any(overlaps)
        || (level + 1..=LEVEL_LAST).any(|deeper| !version.overlapping(deeper, range_of(run)).is_empty())
}

/// The keys from the first to the last of a run.
fn range_of(run: &impl Run) -> KeyRange<'_> {
    let record = run.record();
    (Bound::Included(&record.smallest_key), Bound::Included(&record.largest_key))
}
