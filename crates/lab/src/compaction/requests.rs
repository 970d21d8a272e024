//! Compactions that a caller asks for and waits for.

use std::ops::ControlFlow;

use slmdb_env::{Error, Result};
use slmdb_levels::{KeyRange, LEVEL_LAST, Picked, Plan, TableRun};
use slmdb_sync::scheduled::MutexGuard;

use super::compactor::{Compactor, INPUTS};

impl Compactor {
    /// See [`slmdb_engine::Engine::compact_range`]: all of level 0, then the range, level by level, and at last what is
    /// left of deletes.
    pub(crate) fn compact_range(&self, range: KeyRange<'_>) -> Result<()> {
        self.store.context.check_writable()?;
        self.store.writes.flush()?;
        // (Held before it counts as one that runs: another request may be waiting until none does.)
        let chunk = self.chunk.lock();
        self.store.run_requested(&self.state.compactions, || self.compact_all(chunk, range))
    }

    /// LOCKS: chunk (held, given back)
    fn compact_all(&self, chunk: MutexGuard<'_, ()>, range: KeyRange<'_>) -> Result<()> {
        // What is in the immutable tree, and then what is in the mutable one now.
        self.empty_immutable()?;
        self.switch()?;
        self.empty_immutable()?;
        if self.drop_run_files()? {
            self.store.gave_space_back(None)?;
        }
        drop(chunk);
        for level in 1..LEVEL_LAST {
            let deepest = self.state.levels.current().deepest_level(range);
            if deepest.is_none_or(|deepest| deepest <= level) {
                break;
            }
            self.compact_range_of(level, range)?;
        }
        for (level, number) in self.runs_with_garbage(range) {
            self.state.compactions.again_alone(|| match self.state.levels.plan_run(level, number) {
                Picked::Plan(plan) => self.compact_somehow(plan, || self.rewrite(level, number)),
                _ => Ok(()),
            })?;
        }
        Ok(())
    }

    /// LOCKS: chunk (held)
    fn empty_immutable(&self) -> Result<()> {
        while self.state.level_zero.immutable().counts().keys > 0 {
            self.store.context.check_writable()?;
            if !self.state.compactions.again_alone(|| self.compact_chunk_or_part())? {
                self.state.compactions.wait_for_another();
            }
        }
        Ok(())
    }

    fn compact_range_of(&self, level: u8, range: KeyRange<'_>) -> Result<()> {
        // Not more at a time than there is space for.
        let step = || match self.state.levels.plan_range_within(level, range, self.store.room_bytes()) {
            Picked::Nothing => Ok(ControlFlow::Break(())),
            Picked::Busy => {
                self.state.compactions.wait_for_another();
                Ok(ControlFlow::Continue(()))
            }
            Picked::Plan(plan) => self
                .compact_somehow(plan, || self.compact_levels_in_reserve(range, |_, _, _| true))
                .map(ControlFlow::Continue),
        };
        loop {
            self.store.context.check_writable()?;
            if self.state.compactions.again_alone(step)?.is_break() {
                return Ok(());
            }
        }
    }

    /// Carries out a plan, or what gives back space if there is too little.
    fn compact_somehow(&self, plan: Plan<TableRun>, compact_in_reserve: impl FnOnce() -> Result<bool>) -> Result<()> {
        match self.compact_in_free_space(plan) {
            Err(full @ Error::Full { .. }) => {
                self.store.in_reserve(INPUTS, compact_in_reserve)?.then_some(()).ok_or(full)
            }
            compacted => compacted,
        }
    }
}
