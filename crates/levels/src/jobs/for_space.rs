//! How levels give space back: runs are written anew without what nobody needs. Such a compaction may write into the reserve.
//!
//! Each takes one run, and stays on its level. Whether an entry is needed is looked up: a newer version of its key may be on any
//! upper level, and a delete may have something to hide on any deeper one. So it takes no more space than the run has, whatever
//! it overlaps, and leaves fewer entries. So they come to an end.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use slmdb_engine::read::merge::Source;
use slmdb_engine::space::controller::Resource;
use slmdb_env::{Error, Result};
use slmdb_table::EntryKind;

use super::level_jobs::{LevelJobs, LevelsState};
use super::level_source::LEAST_WINDOW_BYTES;
use crate::around::Around;
use crate::depth::LEVEL_LAST;
use crate::picking::Picked;
use crate::plan::{Plan, PlanReason};
use crate::run::{EntrySource, Run};
use crate::version::{KeyRange, Version};

/// So many keys of a file are looked up, about.
pub const SAMPLES: u64 = 64;
/// If this part of a file's entries is garbage, it is worth a compaction. For deletes the least is.
const WORTH_PART: u64 = 16;

/// One request gives space back twice for each run, and so many times more.
const GIVEN_MORE: usize = 16;

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

/// What may be left out.
#[derive(Debug, Clone, Copy)]
struct Needless {
    /// What newer versions hide that have this number at most: all registered moments see these.
    moment: u64,
    /// Deletes with lower numbers, if they hide nothing.
    delete: u64,
}

impl<S: LevelsState> LevelJobs<S> {
    /// Writes a run anew that has entries which nobody needs: the first for which there is space. Returns whether there is one.
    /// `resource`: what is to come back. At any cost one entry is enough.
    pub fn drop_garbage(&self, range: KeyRange<'_>, resource: Resource, at_any_cost: bool) -> Result<bool> {
        let reason = match resource {
            Resource::Disk => PlanReason::DiskSpace,
            Resource::Pool => PlanReason::PoolSpace,
        };
        let mut full = None;
        // First few entries of each. Only if it has to be, all.
        let samples: &[u64] = if at_any_cost { &[SAMPLES, u64::MAX] } else { &[SAMPLES] };
        for &samples in samples {
            // No run is held while others are written, or their space would stay as long. The last call has found nothing before its
            // own, and that one is clean now.
            let mut runs = self.runs_for(range, resource);
            let first = self.next_for_space.load(Ordering::Relaxed) % runs.len().max(1);
            runs.rotate_left(first);
            for (position, (level, number)) in runs.into_iter().enumerate() {
                if self.state.compactions().is_stopping() || self.store.context.has_failed() {
                    return Ok(false);
                }
                if !self.has_garbage(level, number, samples, at_any_cost) {
                    continue;
                }
                match self.rewrite(level, number, reason) {
                    Err(error @ Error::Full { .. }) => full = Some(error),
                    Ok(false) => {}
                    done => {
                        self.next_for_space.store(first + position, Ordering::Relaxed);
                        return done;
                    }
                }
            }
        }
        let version = self.state.levels().current();
        let numbers: HashSet<u32> = version.runs().map(|(_, run)| run.number()).collect();
        self.without_garbage.lock().retain(|number, _| numbers.contains(number));
        full.map_or(Ok(false), Err)
    }

    /// Lets something give space back until it finds nothing more, or no space itself. Returns whether it gave any.
    pub fn give_back_all(&self, mut give_back: impl FnMut() -> Result<bool>) -> Result<bool> {
        let mut has_given = false;
        // While writers go on, more garbage comes. (A version that is held, be it in the head of a loop, keeps what is written anew.)
        let times = 2 * self.state.levels().current().runs().count() + GIVEN_MORE;
        for _ in 0..times {
            self.store.context.check_writable()?;
            match give_back() {
                Ok(true) => has_given = true,
                Err(Error::Full { .. }) if has_given => break,
                done => return done.map(|_| has_given),
            }
        }
        Ok(has_given)
    }

    /// The runs that take of a resource, the deepest first: they have most.
    fn runs_for(&self, range: KeyRange<'_>, resource: Resource) -> Vec<(u8, u32)> {
        let version = self.state.levels().current();
        let of_level = |level| version.overlapping(level, range).into_iter().map(move |run| (level, run));
        let runs = (0..=LEVEL_LAST).rev().flat_map(of_level);
        let runs = runs.filter(|(_, run)| run.is_file() == (resource == Resource::Disk));
        runs.map(|(level, run)| (level, run.number())).collect()
    }

    /// Whether enough of a run is garbage. What can't be read gives nothing back: who compacts it tells so. A run in which none was found
    /// has none as long as the runs above and below it are the same, and no snapshot goes.
    /// LOCKS: catalog; snapshots
    fn has_garbage(&self, level: u8, number: u32, samples: u64, at_any_cost: bool) -> bool {
        let version = self.state.levels().current();
        let Some(run) = version.level(level).iter().find(|run| run.number() == number) else { return false };
        let needless = self.needless();
        let keys = (Bound::Included(&run.record().smallest_key[..]), Bound::Included(&run.record().largest_key[..]));
        let overlapping: Vec<_> = (0..=LEVEL_LAST).flat_map(|other| version.overlapping(other, keys)).collect();
        let newest = overlapping.iter().map(|run| run.record().highest_sequence).max().unwrap_or(0);
        let mut around = DefaultHasher::new();
        // Above the newest these bounds make no difference.
        (needless.moment.min(newest), needless.delete.min(newest + 1)).hash(&mut around);
        overlapping.iter().for_each(|other| other.number().hash(&mut around));
        let looked_at = (around.finish(), samples);
        let is_clean = |(around, samples): (u64, u64)| around == looked_at.0 && samples >= looked_at.1;
        if self.without_garbage.lock().get(&number).copied().is_some_and(is_clean) {
            return false;
        }
        let Ok(sampled) = self.sample(&version, level, run, needless, samples) else { return false };
        if sampled.garbage == 0 {
            self.without_garbage.lock().insert(number, looked_at);
        }
        sampled.is_worth_it(at_any_cost)
    }

    /// LOCKS: catalog; snapshots
    fn needless(&self) -> Needless {
        let moment = self.state.moments().into_iter().min().unwrap_or(u64::MAX);
        Needless { moment, delete: self.state.deletes_below(self.store.catalog.lock().state()) }
    }

    fn sample(
        &self,
        version: &Arc<Version<S::Run>>,
        level: u8,
        run: &Arc<S::Run>,
        needless: Needless,
        samples: u64,
    ) -> Result<Sampled> {
        let mut around = Around::new(version.clone(), level);
        let (mut sampled, mut source) = (Sampled::default(), run.source(LEAST_WINDOW_BYTES)?);
        // Of what is looked at in full, the first is enough.
        let is_enough = |sampled: &Sampled| sampled.entries >= samples || (samples > SAMPLES && sampled.garbage > 0);
        while !is_enough(&sampled) && source.advance()? {
            let (key, sequence) = (source.key(), source.sequence());
            let may_be_spent =
                source.kind() == EntryKind::Delete && sequence < needless.delete && sequence <= needless.moment;
            let is_garbage = around.newer(run.number(), key)?.is_some_and(|newer| newer <= needless.moment)
                || (may_be_spent && !around.has_older(run.number(), key)?);
            sampled.count(is_garbage);
        }
        Ok(sampled)
    }

    /// Writes a run anew. Returns whether it did.
    pub fn rewrite(&self, level: u8, number: u32, reason: PlanReason) -> Result<bool> {
        match self.state.levels().plan_run_for(level, number, reason) {
            Picked::Plan(plan) if self.can_read(&plan) => self.compact(plan).map(|()| true),
            _ => Ok(false),
        }
    }

    /// Whether no input is known to be unreadable.
    pub(super) fn can_read(&self, plan: &Plan<S::Run>) -> bool {
        plan.inputs().all(|run| self.unreadable.is_readable(&**run))
    }
}
