//! Compactions of levels that a caller asks for and waits for.

use std::cell::Cell;
use std::ops::{Bound, ControlFlow};

use slmdb_env::{Error, Result};

use super::level_jobs::{LevelJobs, LevelsState};
use crate::depth::LEVEL_LAST;
use crate::picking::Picked;
use crate::run::Run;
use crate::version::KeyRange;

impl<S: LevelsState> LevelJobs<S> {
    /// Brings a range down, level by level, and then drops what is left of its deletes. Where there is no space for that, `give_back`
    /// drops what nobody needs, a part at a time; when it finds nothing more, the rest of the range stays on its level. REQUIRES: the
    /// caller [counts](slmdb_engine::background::compaction_queue::CompactionQueue::begin) as one that compacts.
    pub fn compact_range(
        &self,
        first_level: u8,
        range: KeyRange<'_>,
        give_back: &dyn Fn() -> Result<bool>,
    ) -> Result<()> {
        for level in first_level..LEVEL_LAST {
            let deepest = self.state.levels().current().deepest_level(range);
            // (Runs of level 0 overlap. So they go down even if there is nothing below them.)
            if deepest.is_none_or(|deepest| deepest <= level && level > 0) {
                break;
            }
            self.compact_range_of(level, range, give_back)?;
        }
        for (level, number) in self.runs_with_garbage(range) {
            self.step_by_step(give_back, || match self.state.levels().plan_run(level, number) {
                Picked::Plan(plan) => self.compact_in_free_space(plan).map(|()| ControlFlow::Break(())),
                Picked::Busy => {
                    self.state.compactions().wait_for_another();
                    Ok(ControlFlow::Continue(()))
                }
                Picked::Nothing => Ok(ControlFlow::Break(())),
            })?;
        }
        // (What looks for space keeps the version that it looks at, and so its runs.)
        self.look_for_unpinned();
        Ok(())
    }

    fn compact_range_of(&self, level: u8, range: KeyRange<'_>, give_back: &dyn Fn() -> Result<bool>) -> Result<()> {
        // Not more at a time than there is space for.
        self.step_by_step(give_back, || match self.plan_with_space(level, range) {
            Picked::Nothing => Ok(ControlFlow::Break(())),
            Picked::Busy => {
                self.state.compactions().wait_for_another();
                Ok(ControlFlow::Continue(()))
            }
            Picked::Plan(plan) => self.compact_in_free_space(plan).map(ControlFlow::Continue),
        })
    }

    /// Takes steps until the last one. Where one finds no space, something has to give some back. If nothing does, also while nothing
    /// else compacts, that is the end. [`Error::Full`]: there is garbage, and no space to drop it.
    fn step_by_step(
        &self,
        give_back: &dyn Fn() -> Result<bool>,
        step: impl Fn() -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let is_garbage_left = Cell::new(false);
        let step = || {
            is_garbage_left.set(false);
            match step() {
                Err(full @ Error::Full { .. }) => match give_back() {
                    Ok(true) => Ok(ControlFlow::Continue(())),
                    Ok(false) => Err(full),
                    Err(error) => {
                        is_garbage_left.set(true);
                        Err(error)
                    }
                },
                done => done,
            }
        };
        loop {
            self.store.context.check_writable()?;
            match self.state.compactions().again_alone(step) {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => return Ok(()),
                Err(Error::Full { .. }) if !is_garbage_left.get() => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// The next part of moving a range down from a level, with no more inputs than the disk has space for.
    fn plan_with_space(&self, level: u8, range: KeyRange<'_>) -> Picked<S::Run> {
        let room_bytes = self.store.room_bytes();
        match self.state.levels().plan_range_within(level, range, u64::MAX) {
            Picked::Plan(plan) if self.state.file_bytes(&plan) > room_bytes => {
                drop(plan);
                self.state.levels().plan_range_within(level, range, room_bytes)
            }
            picked => picked,
        }
    }

    /// The runs whose deletes would all go if they were written anew: nothing is below them.
    /// LOCKS: catalog; snapshots
    fn runs_with_garbage(&self, range: KeyRange<'_>) -> Vec<(u8, u32)> {
        let deletes_below = self.state.deletes_below(self.store.catalog.lock().state());
        let first_moment = self.state.moments().into_iter().min().unwrap_or(u64::MAX);
        let version = self.state.levels().current();
        let has_garbage = |level: u8, run: &S::Run| {
            let record = run.record();
            let newest = record.highest_sequence;
            let keys = (Bound::Included(&record.smallest_key[..]), Bound::Included(&record.largest_key[..]));
            record.deletes > 0
                && newest < deletes_below
                && newest <= first_moment
                && (level + 1..=LEVEL_LAST).all(|deeper| version.overlapping(deeper, keys).is_empty())
        };
        let of_level = |level| version.overlapping(level, range).into_iter().map(move |run| (level, run));
        let runs = (1..=LEVEL_LAST).flat_map(of_level).filter(|(level, run)| has_garbage(*level, run));
        runs.map(|(level, run)| (level, run.number())).collect()
    }
}
