//! [`Plan`]: what a compaction reads, and where its outputs go.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, OnceLock};

use slmdb_engine::read::merge::common_prefix;
use slmdb_order::KeyOrder;
use slmdb_sync::scheduled::Mutex;

use crate::change::Change;
use crate::depth::LEVELS_MAX;
use crate::merge::Cut;
use crate::retention::Retention;
use crate::run::Run;
use crate::version::{KeyRange, Version};

/// Why runs are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanReason {
    /// Level 0 has too many.
    Level0Runs,
    /// Their level has too many bytes.
    LevelBytes,
    /// A caller asked for the range.
    Range,
    /// Something from above the levels comes to theirs.
    Inflow,
    /// The engine wants the run written anew, without its garbage.
    Rewrite,
    /// The engine wants it elsewhere: of TLSM, in a file.
    Demotion,
    /// Little of what its segments have is still needed (TLSM).
    Cleaning,
    /// A segment is emptied, because the pool is full (TLSM).
    Emptying,
    /// The disk is full, and the run has garbage. It stays on its level.
    DiskSpace,
    /// The same of the pool.
    PoolSpace,
}

impl PlanReason {
    /// Its name in events and traces.
    pub fn as_str(self) -> &'static str {
        match self {
            PlanReason::Level0Runs => "level 0 runs",
            PlanReason::LevelBytes => "level bytes",
            PlanReason::Range => "compact_range",
            PlanReason::Inflow => "inflow",
            PlanReason::Rewrite => "rewrite",
            PlanReason::Demotion => "demotion",
            PlanReason::Cleaning => "cleaning",
            PlanReason::Emptying => "emptying",
            PlanReason::DiskSpace => "disk space",
            PlanReason::PoolSpace => "pool space",
        }
    }
}

/// A range of keys with both ends in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hull {
    pub(crate) smallest: Arc<[u8]>,
    pub(crate) largest: Arc<[u8]>,
}

impl Hull {
    /// The smallest hull of these runs. `None`: there are none.
    pub(crate) fn of<R: Run>(order: &KeyOrder, runs: &[Arc<R>]) -> Option<Hull> {
        let record = runs.first()?.record();
        let first = Hull { smallest: record.smallest_key.clone(), largest: record.largest_key.clone() };
        Some(first.with(order, &runs[1..]))
    }

    /// This hull, grown by these runs.
    pub(crate) fn with<R: Run>(mut self, order: &KeyOrder, runs: &[Arc<R>]) -> Hull {
        for record in runs.iter().map(|run| run.record()) {
            if order.compare(&record.smallest_key, &self.smallest).is_lt() {
                self.smallest = record.smallest_key.clone();
            }
            if order.compare(&record.largest_key, &self.largest).is_gt() {
                self.largest = record.largest_key.clone();
            }
        }
        self
    }

    pub(crate) fn range(&self) -> KeyRange<'_> {
        (Bound::Included(&self.smallest), Bound::Included(&self.largest))
    }

    pub(crate) fn overlaps(&self, order: &KeyOrder, other: &Hull) -> bool {
        order.compare(&self.smallest, &other.largest).is_le() && order.compare(&other.smallest, &self.largest).is_le()
    }
}

/// The compactions that are under way, and where the next ones begin.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    pub(crate) running: BTreeMap<u64, Job>,
    pub(crate) last: u64,
    /// The runs that are inputs of some job. `true`: it leaves its level with it.
    pub(crate) busy: BTreeMap<u32, bool>,
    /// The largest key of what left each level last.
    pub(crate) pointers: [Option<Arc<[u8]>>; LEVELS_MAX],
}

/// Where the outputs of a compaction may lie.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) to: u8,
    pub(crate) hull: Hull,
}

/// What a compaction reads, and where its outputs go. No other plan has one of its inputs until it is dropped; so it is
/// dropped only when its [`Change`] is applied, or will never be.
pub struct Plan<R: Run> {
    pub(crate) id: u64,
    pub(crate) jobs: Arc<Mutex<Jobs>>,
    pub(crate) version: Arc<Version<R>>,
    pub(crate) from: u8,
    pub(crate) to: u8,
    pub(crate) upper: Vec<Arc<R>>,
    pub(crate) lower: Vec<Arc<R>>,
    pub(crate) grandparents: Vec<Arc<R>>,
    pub(crate) grandparent_bytes_max: u64,
    pub(crate) output_bytes: u64,
    pub(crate) hull: Hull,
    pub(crate) reason: PlanReason,
    /// See [`Plan::decide_once`].
    pub(crate) decided: OnceLock<u64>,
}

impl<R: Run> Plan<R> {
    /// The level that inputs leave. That of the outputs, if there is none.
    pub fn from(&self) -> u8 {
        self.from
    }

    /// The level of the outputs.
    pub fn to(&self) -> u8 {
        self.to
    }

    /// The inputs that leave their level. Level 0: newest first. Other levels: in key order.
    pub fn upper(&self) -> &[Arc<R>] {
        &self.upper
    }

    /// The inputs on the outputs' level, in key order.
    pub fn lower(&self) -> &[Arc<R>] {
        &self.lower
    }

    /// All inputs.
    pub fn inputs(&self) -> impl Iterator<Item = &Arc<R>> + Clone {
        self.upper.iter().chain(&self.lower)
    }

    /// Length of all inputs, in bytes.
    pub fn input_bytes(&self) -> u64 {
        self.inputs().map(|run| run.record().bytes).sum()
    }

    /// Why it was made.
    pub fn reason(&self) -> PlanReason {
        self.reason
    }

    /// A number that an engine decides on for the outputs. The first answer stays: space was asked for by it.
    pub fn decide_once(&self, decide: impl FnOnce() -> u64) -> u64 {
        *self.decided.get_or_init(decide)
    }

    /// The version that it was made for.
    pub fn version(&self) -> &Arc<Version<R>> {
        &self.version
    }

    /// The smallest and the largest key that outputs may have.
    pub fn bounds(&self) -> (&Arc<[u8]>, &Arc<[u8]>) {
        (&self.hull.smallest, &self.hull.largest)
    }

    /// Whether its inputs may go down as they are, by an edit of the MANIFEST alone: nothing is below them, and what
    /// they overlap further down is within bounds. Runs of level 0 overlap each other, so only one of them may. Who
    /// wants garbage to go merges nevertheless.
    pub fn is_move(&self) -> bool {
        let may_be = self.lower.is_empty() && !self.upper.is_empty() && self.from != self.to;
        let are_disjoint = self.from > 0 || self.upper.len() == 1;
        may_be && are_disjoint && self.upper.iter().all(|run| self.grandparent_bytes(run) <= self.grandparent_bytes_max)
    }

    fn grandparent_bytes(&self, run: &R) -> u64 {
        let record = run.record();
        let range = (Bound::Included(&record.smallest_key[..]), Bound::Included(&record.largest_key[..]));
        let overlapping = self.grandparents.iter().filter(|other| self.version.overlaps(other, range));
        overlapping.map(|other| other.record().bytes).sum()
    }

    /// The change for a [trivial move](Plan::is_move).
    pub fn change_of_move(&self) -> Change<R> {
        Change { moved: self.upper.iter().map(|run| (run.clone(), self.to)).collect(), ..Change::default() }
    }

    /// The change that puts these outputs in place of the inputs.
    pub fn change(&self, outputs: impl IntoIterator<Item = Arc<R>>) -> Change<R> {
        let added = outputs.into_iter().map(|run| (self.to, run)).collect();
        Change { removed: self.inputs().cloned().collect(), added, moved: Vec::new() }
    }

    /// Whether its one input becomes one output: in a full pool parts of a list would take more.
    pub(crate) fn stays_one(&self) -> bool {
        matches!(self.reason, PlanReason::PoolSpace | PlanReason::Emptying)
    }

    /// Where the outputs of its merge end. An inflow is not counted in it.
    pub fn cut(&self) -> Cut<R> {
        let or_all = |bytes| if self.stays_one() { u64::MAX } else { bytes };
        Cut {
            output_bytes: or_all(self.output_bytes),
            grandparents: self.grandparents.clone(),
            grandparent_bytes_max: or_all(self.grandparent_bytes_max),
            input_entries: self.inputs().map(|run| run.record().entries).sum(),
            input_bytes: self.input_bytes(),
        }
    }

    /// What its merge keeps: see [`Retention::new`].
    pub fn retention(&self, moments: Vec<u64>, deletes_below: u64) -> Retention<R> {
        let retention = Retention::new(self.version.clone(), self.to, moments, deletes_below);
        match (self.reason, self.inputs().next()) {
            (PlanReason::DiskSpace | PlanReason::PoolSpace, Some(run)) => retention.looking_up(run.number()),
            _ => retention,
        }
    }

    /// What all its keys begin with, those of an inflow included.
    pub fn prefix(&self) -> Vec<u8> {
        if !self.version.order().is_bytewise() {
            return Vec::new();
        }
        common_prefix([&self.hull.smallest[..], &self.hull.largest[..]].into_iter())
    }

    /// Marks its inputs busy.
    pub(crate) fn begin(&self, jobs: &mut Jobs) {
        jobs.busy.extend(self.upper.iter().map(|run| (run.number(), true)));
        jobs.busy.extend(self.lower.iter().map(|run| (run.number(), false)));
        jobs.running.insert(self.id, Job { to: self.to, hull: self.hull.clone() });
        if let (Some(last), 1..) = (self.upper.last(), self.from) {
            jobs.pointers[usize::from(self.from)] = Some(last.record().largest_key.clone());
        }
    }
}

impl<R: Run> Drop for Plan<R> {
    fn drop(&mut self) {
        let mut jobs = self.jobs.lock();
        if jobs.running.remove(&self.id).is_some() {
            for run in self.upper.iter().chain(&self.lower) {
                jobs.busy.remove(&run.number());
            }
        }
    }
}
