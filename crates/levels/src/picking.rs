//! Picking: which runs are merged next.
//!
//! Each level has a **score**: its bytes as a part of what it may hold; for level 0, its runs as a part of
//! [`level_0_runs`](crate::LevelOptions::level_0_runs). The level with the largest score is picked, if that is at
//! least 1. Runs that are leaving already do not count. Of its runs the one is taken that overlaps least below, for
//! its length. If several overlap as little, they take turns.
//!
//! Several compactions may run at once. A plan is refused if
//!
//! - one of its inputs is busy, or
//! - its outputs could overlap those of another plan on the same level. Their inputs may be disjoint, with a gap
//!   between one's that the other's fill.

use std::ops::Bound;
use std::sync::{Arc, OnceLock};

use crate::depth::{LEVEL_LAST, LEVELS_MAX};
use crate::levels::Levels;
use crate::plan::{Hull, Job, Jobs, Plan, PlanReason};
use crate::run::Run;
use crate::version::{KeyRange, Version};

/// What is to be done about a range.
pub enum Picked<R: Run> {
    /// This.
    Plan(Plan<R>),
    /// Something, but other compactions have its runs. Try again when one of them has ended.
    Busy,
    /// Nothing.
    Nothing,
}

/// An inflow can't begin yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Busy {
    /// Another compaction has keys from here on. One that ends before this key may begin.
    pub from: Arc<[u8]>,
}

/// Inputs of a plan.
struct Inputs<R: Run> {
    from: u8,
    to: u8,
    upper: Vec<Arc<R>>,
    lower: Vec<Arc<R>>,
    hull: Hull,
}

impl<R: Run> Inputs<R> {
    fn bytes(&self) -> u64 {
        bytes_of(&self.upper) + bytes_of(&self.lower)
    }
}

fn bytes_of<R: Run>(runs: &[Arc<R>]) -> u64 {
    runs.iter().map(|run| run.record().bytes).sum()
}

impl<R: Run> Levels<R> {
    /// How full each level is: 1 is as full as it may be.
    pub fn scores(&self) -> [f64; LEVELS_MAX] {
        let jobs = self.jobs.lock();
        self.scores_of(&self.current.load_full(), &jobs)
    }

    fn scores_of(&self, version: &Version<R>, jobs: &Jobs) -> [f64; LEVELS_MAX] {
        // (A store at rest looks at no run.)
        let leaves = |run: &&Arc<R>| !jobs.busy.is_empty() && jobs.busy.get(&run.number()) == Some(&true);
        let leaving = |level: u8| version.level(level).iter().filter(leaves);
        let mut scores = [0.0; LEVELS_MAX];
        let runs = version.level(0).len() - leaving(0).count();
        scores[0] = runs as f64 / self.options.level_0_runs as f64;
        for level in 1..LEVEL_LAST {
            let leaving_bytes: u64 = leaving(level).map(|run| run.record().bytes).sum();
            let bytes = version.level_bytes(level) - leaving_bytes;
            scores[usize::from(level)] = bytes as f64 / self.target_bytes(level) as f64;
        }
        scores
    }

    /// The next compaction, and marks its inputs busy. Only from levels that `may` says; the deepest is never asked
    /// for.
    pub fn pick(&self, may: &dyn Fn(u8) -> bool) -> Option<Plan<R>> {
        self.pick_readable(may, &|_| true)
    }

    /// As [`Levels::pick`], without any run that is not readable.
    pub fn pick_readable(&self, may: &dyn Fn(u8) -> bool, is_readable: &dyn Fn(&R) -> bool) -> Option<Plan<R>> {
        let mut jobs = self.jobs.lock();
        let version = self.current.load_full();
        let scores = self.scores_of(&version, &jobs);
        let score = |level: &u8| scores[usize::from(*level)];
        let mut levels: Vec<u8> = (0..LEVEL_LAST).filter(|level| score(level) >= 1.0 && may(*level)).collect();
        levels.sort_by(|left, right| score(right).total_cmp(&score(left)));
        let inputs = levels.into_iter().find_map(|level| match level {
            0 => self.pick_from_level_0(&version, &jobs, is_readable),
            _ => self.pick_from(&version, &jobs, level, is_readable),
        })?;
        let reason = if inputs.from == 0 { PlanReason::Level0Runs } else { PlanReason::LevelBytes };
        Some(self.begin(&mut jobs, &version, inputs, reason))
    }

    /// The oldest run, and all that must go with it.
    fn pick_from_level_0(
        &self,
        version: &Version<R>,
        jobs: &Jobs,
        is_readable: &dyn Fn(&R) -> bool,
    ) -> Option<Inputs<R>> {
        let seeds = version.level(0).iter().rev();
        seeds.filter(|run| !jobs.busy.contains_key(&run.number())).find_map(|run| {
            let inputs = self.complete(version, 0, vec![run.clone()], is_readable)?;
            self.are_free(version, jobs, &inputs).then_some(inputs)
        })
    }

    /// The run of a deeper level that overlaps least below, and what it overlaps.
    fn pick_from(
        &self,
        version: &Version<R>,
        jobs: &Jobs,
        level: u8,
        is_readable: &dyn Fn(&R) -> bool,
    ) -> Option<Inputs<R>> {
        let runs = version.level(level);
        let mut candidates: Vec<(u64, usize, usize)> = Vec::with_capacity(runs.len());
        let first = match &jobs.pointers[usize::from(level)] {
            Some(last) => runs.partition_point(|run| version.order().compare(&run.record().largest_key, last).is_le()),
            None => 0,
        };
        for (position, run) in runs.iter().enumerate().filter(|(_, run)| !jobs.busy.contains_key(&run.number())) {
            let record = run.record();
            let range = (Bound::Included(&record.smallest_key[..]), Bound::Included(&record.largest_key[..]));
            let below = bytes_of(&version.level(level + 1)[version.positions_overlapping(level + 1, range)]);
            // In parts of 1024, so that runs that overlap about as much take turns.
            let part = u128::from(below) * 1024 / u128::from(record.bytes.max(1));
            let turn = (position + runs.len() - first) % runs.len();
            candidates.push((u64::try_from(part).unwrap_or(u64::MAX), turn, position));
        }
        candidates.sort_unstable();
        candidates.into_iter().find_map(|(_, _, position)| {
            let inputs = self.complete(version, level, vec![runs[position].clone()], is_readable)?;
            self.are_free(version, jobs, &inputs).then_some(inputs)
        })
    }

    /// What must go together with these runs of a level, and more runs of it if that costs nothing below. `None`: one of
    /// them is not readable.
    fn complete(
        &self,
        version: &Version<R>,
        from: u8,
        upper: Vec<Arc<R>>,
        is_readable: &dyn Fn(&R) -> bool,
    ) -> Option<Inputs<R>> {
        let are_readable = |inputs: &Inputs<R>| inputs.upper.iter().chain(&inputs.lower).all(|run| is_readable(run));
        let inputs = self.with_all(version, from, upper).filter(are_readable)?;
        let more = self.with_all(version, from, version.overlapping(from, inputs.hull.range()))?;
        let is_better = more.upper.len() > inputs.upper.len()
            && more.lower.len() == inputs.lower.len()
            && more.bytes() <= self.options.input_bytes_max
            && are_readable(&more);
        Some(if is_better { more } else { inputs })
    }

    /// These runs of a level, with what should go with them, and what they overlap on the next.
    fn with_all(&self, version: &Version<R>, from: u8, upper: Vec<Arc<R>>) -> Option<Inputs<R>> {
        let upper = if from == 0 { close_over_level_0(version, upper) } else { upper };
        self.with_lower(version, from, upper)
    }

    /// As many of the oldest of these runs of level 0 as have, with what they overlap on level 1, no more bytes than this; one at
    /// least. Newer ones may stay above them. REQUIRES: the runs are closed over level 0.
    fn oldest_within(&self, version: &Version<R>, runs: &[Arc<R>], input_bytes_max: u64) -> Option<Inputs<R>> {
        let mut starts = 0..runs.len();
        let fits = |inputs: &Inputs<R>| inputs.upper.len() == 1 || inputs.bytes() <= input_bytes_max;
        starts.find_map(|start| self.with_lower(version, 0, runs[start..].to_vec()).filter(fits))
    }

    /// These runs of a level, and what they overlap on the next.
    fn with_lower(&self, version: &Version<R>, from: u8, upper: Vec<Arc<R>>) -> Option<Inputs<R>> {
        let order = version.order();
        let hull = Hull::of(order, &upper)?;
        let lower = version.overlapping(from + 1, hull.range());
        let hull = hull.with(order, &lower);
        Some(Inputs { from, to: from + 1, upper, lower, hull })
    }

    /// Whether no running compaction has one of the inputs, or outputs that may overlap these.
    fn are_free(&self, version: &Version<R>, jobs: &Jobs, inputs: &Inputs<R>) -> bool {
        let mut runs = inputs.upper.iter().chain(&inputs.lower);
        // (On level 0 runs may overlap.)
        let meets =
            |job: &Job| inputs.to > 0 && job.to == inputs.to && job.hull.overlaps(version.order(), &inputs.hull);
        runs.all(|run| !jobs.busy.contains_key(&run.number())) && !jobs.running.values().any(meets)
    }

    /// The next part of moving a range down from a level. Call it again after each, until there is nothing: then no
    /// run of the level has keys of the range. Nothing is below the deepest level; see [`Levels::plan_rewrite`].
    pub fn plan_range(&self, level: u8, range: KeyRange<'_>) -> Picked<R> {
        self.plan_range_within(level, range, u64::MAX)
    }

    /// As [`Levels::plan_range`], with no more bytes of inputs than this, unless one run alone has more with what it overlaps: for
    /// where there is little space.
    pub fn plan_range_within(&self, level: u8, range: KeyRange<'_>, input_bytes_max: u64) -> Picked<R> {
        if level >= LEVEL_LAST {
            return Picked::Nothing;
        }
        let space_bytes = input_bytes_max;
        let input_bytes_max = self.options.input_bytes_max.min(space_bytes);
        self.plan_first_free(level, range, usize::MAX, |version, runs| {
            let first = vec![runs.first()?.clone()];
            if level == 0 {
                return self.oldest_within(version, &close_over_level_0(version, first), space_bytes);
            }
            let mut inputs = self.with_lower(version, level, first)?;
            for count in 2..=runs.len() {
                let more = self.with_lower(version, level, runs[..count].to_vec())?;
                if more.bytes() > input_bytes_max {
                    break;
                }
                inputs = more;
            }
            Some(inputs)
        })
    }

    /// The first part of merging a range of a level in place, so that garbage goes. Go on behind the largest key of the
    /// plan's [bounds](Plan::bounds). Level 0 is not merged in place; see [`Levels::plan_run`].
    pub fn plan_rewrite(&self, level: u8, range: KeyRange<'_>) -> Picked<R> {
        if level == 0 || level > LEVEL_LAST {
            return Picked::Nothing;
        }
        // What is behind the first runs must not go before them: the caller would not come back.
        let starts_max = 1;
        self.plan_first_free(level, range, starts_max, |version, runs| {
            let mut lower = vec![runs.first()?.clone()];
            for run in &runs[1..] {
                if bytes_of(&lower) + run.record().bytes > self.options.input_bytes_max {
                    break;
                }
                lower.push(run.clone());
            }
            let hull = Hull::of(version.order(), &lower)?;
            Some(Inputs { from: level, to: level, upper: Vec::new(), lower, hull })
        })
    }

    /// A plan for one run to be written anew in place: to copy it elsewhere, or to leave out its garbage. Of level 0
    /// there is no other way, and the run becomes one output there.
    pub fn plan_run(&self, level: u8, number: u32) -> Picked<R> {
        self.plan_run_for(level, number, PlanReason::Rewrite)
    }

    /// The same, for this reason.
    pub fn plan_run_for(&self, level: u8, number: u32, reason: PlanReason) -> Picked<R> {
        let mut jobs = self.jobs.lock();
        let version = self.current.load_full();
        let run = version.level(level).iter().find(|run| run.number() == number);
        let Some(hull) = run.and_then(|run| Hull::of(version.order(), std::slice::from_ref(run))) else {
            return Picked::Nothing;
        };
        let lower = run.into_iter().cloned().collect();
        let inputs = Inputs { from: level, to: level, upper: Vec::new(), lower, hull };
        if !self.are_free(&version, &jobs, &inputs) {
            return Picked::Busy;
        }
        Picked::Plan(self.begin(&mut jobs, &version, inputs, reason))
    }

    /// A plan of what `inputs_of` makes of the level's runs in the range, or of those but for the first, and so on,
    /// so many times at most: the first that is free.
    fn plan_first_free(
        &self,
        level: u8,
        range: KeyRange<'_>,
        starts_max: usize,
        inputs_of: impl Fn(&Version<R>, &[Arc<R>]) -> Option<Inputs<R>>,
    ) -> Picked<R> {
        let mut jobs = self.jobs.lock();
        let version = self.current.load_full();
        let runs = version.overlapping(level, range);
        if runs.is_empty() {
            return Picked::Nothing;
        }
        let mut all = (0..runs.len().min(starts_max)).filter_map(|start| inputs_of(&version, &runs[start..]));
        match all.find(|inputs| self.are_free(&version, &jobs, inputs)) {
            Some(inputs) => Picked::Plan(self.begin(&mut jobs, &version, inputs, PlanReason::Range)),
            None => Picked::Busy,
        }
    }

    /// A plan for what comes from above the levels to level `to`, with keys from `smallest` to `largest`. It has what
    /// is there as lower inputs, and no upper ones.
    pub fn plan_inflow(&self, to: u8, smallest: &[u8], largest: &[u8]) -> Result<Plan<R>, Busy> {
        let mut jobs = self.jobs.lock();
        let version = self.current.load_full();
        let hull = Hull { smallest: smallest.into(), largest: largest.into() };
        let lower = version.overlapping(to, hull.range());
        let hull = hull.with(version.order(), &lower);
        let inputs = Inputs { from: to, to, upper: Vec::new(), lower, hull };
        if self.are_free(&version, &jobs, &inputs) {
            return Ok(self.begin(&mut jobs, &version, inputs, PlanReason::Inflow));
        }
        let busy_runs = inputs.lower.iter().filter(|run| jobs.busy.contains_key(&run.number()));
        let busy_runs = busy_runs.map(|run| &run.record().smallest_key);
        let meets = |job: &&Job| job.to == to && job.hull.overlaps(version.order(), &inputs.hull);
        let of_jobs = jobs.running.values().filter(meets).map(|job| &job.hull.smallest);
        let first = busy_runs.chain(of_jobs).min_by(|left, right| version.order().compare(left, right));
        Err(Busy { from: first.unwrap_or(&inputs.hull.smallest).clone() })
    }

    fn begin(&self, jobs: &mut Jobs, version: &Arc<Version<R>>, inputs: Inputs<R>, reason: PlanReason) -> Plan<R> {
        jobs.last += 1;
        let plan = Plan {
            id: jobs.last,
            jobs: self.jobs.clone(),
            version: version.clone(),
            from: inputs.from,
            to: inputs.to,
            grandparents: version.overlapping(inputs.to + 1, inputs.hull.range()),
            grandparent_bytes_max: if inputs.to == 0 { u64::MAX } else { self.options.grandparent_bytes_max },
            output_bytes: if inputs.to == 0 { u64::MAX } else { self.options.run_bytes },
            upper: inputs.upper,
            lower: inputs.lower,
            hull: inputs.hull,
            reason,
            decided: OnceLock::new(),
        };
        plan.begin(jobs);
        plan
    }
}

/// These runs of level 0, and all of it that overlap them, and so on. An older version of a key must not stay above a newer one
/// (LevelDB, issue 320), so all older ones have to go along. The newer ones save a merge.
fn close_over_level_0<R: Run>(version: &Version<R>, mut runs: Vec<Arc<R>>) -> Vec<Arc<R>> {
    loop {
        let Some(hull) = Hull::of(version.order(), &runs) else { return runs };
        let more = version.overlapping(0, hull.range());
        if more.len() <= runs.len() {
            return more;
        }
        runs = more;
    }
}
