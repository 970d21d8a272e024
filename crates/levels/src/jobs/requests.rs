//! Compactions of levels that a caller asks for and waits for.

use std::ops::ControlFlow;

use slmdb_engine::space::controller::Resource;
use slmdb_env::{Error, Result};

use super::level_jobs::{INPUTS, LevelJobs, LevelsState};
use crate::depth::LEVEL_LAST;
use crate::picking::Picked;
use crate::plan::{Plan, PlanReason};
use crate::version::KeyRange;

impl<S: LevelsState> LevelJobs<S> {
    /// Brings a range down, level by level, and then drops what is left of its deletes. REQUIRES: the caller
    /// [counts](slmdb_engine::background::compaction_queue::CompactionQueue::begin) as one that compacts.
    pub fn compact_range(&self, first_level: u8, range: KeyRange<'_>) -> Result<()> {
        for level in first_level..LEVEL_LAST {
            let deepest = self.state.levels().current().deepest_level(range);
            // (Runs of level 0 overlap. So they go down even if there is nothing below them.)
            if deepest.is_none_or(|deepest| deepest <= level && level > 0) {
                break;
            }
            self.compact_range_of(level, range)?;
        }
        for (level, number) in self.runs_with_garbage(range) {
            self.state.compactions().again_alone(|| match self.state.levels().plan_run(level, number) {
                Picked::Plan(plan) => self.compact_somehow(plan, || self.rewrite(level, number, PlanReason::Rewrite)),
                _ => Ok(()),
            })?;
        }
        // (What looks for space keeps the version that it looks at, and so its runs.)
        self.look_for_unpinned();
        Ok(())
    }

    fn compact_range_of(&self, level: u8, range: KeyRange<'_>) -> Result<()> {
        // Not more at a time than there is space for.
        let step = || match self.plan_with_space(level, range, u64::MAX) {
            Picked::Nothing => Ok(ControlFlow::Break(())),
            Picked::Busy => {
                self.state.compactions().wait_for_another();
                Ok(ControlFlow::Continue(()))
            }
            Picked::Plan(plan) => self
                .compact_somehow(plan, || self.compact_levels_in_reserve(range, Resource::Disk, |_, _, _| true))
                .map(ControlFlow::Continue),
        };
        loop {
            self.store.context.check_writable()?;
            if self.state.compactions().again_alone(step)?.is_break() {
                return Ok(());
            }
        }
    }

    /// Carries out a plan, or what gives back space if there is too little.
    fn compact_somehow(&self, plan: Plan<S::Run>, compact_in_reserve: impl FnOnce() -> Result<bool>) -> Result<()> {
        match self.compact_in_free_space(plan) {
            Err(full @ Error::Full { .. }) => {
                self.store.in_reserve(INPUTS, compact_in_reserve)?.then_some(()).ok_or(full)
            }
            compacted => compacted,
        }
    }
}
