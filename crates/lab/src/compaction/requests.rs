//! Compactions that a caller asks for and waits for.

use std::ops::Bound;

use slmdb_env::{Error, Result};
use slmdb_levels::{KeyRange, LEVEL_LAST, Picked};
use slmdb_pmem::Medium;

use super::compactor::Compactor;

impl<M: Medium + Clone> Compactor<M> {
    /// See [`slmdb_engine::Engine::compact_range`]: all of level 0, then the range, level by level, and at last what is
    /// left of deletes.
    pub(crate) fn compact_range(&self, range: KeyRange<'_>) -> Result<()> {
        self.context.check_writable()?;
        self.writes.flush()?;
        let wanted = self.compactions.begin();
        let compacted = self.compact_all(range);
        self.compactions.end(compacted.is_ok(), wanted);
        // Another one may still be removing what it has replaced.
        self.compactions.wait_until_idle();
        drop(self.writes.memtables.lock());
        self.writes.work_to_do.notify_all();
        compacted
    }

    fn compact_all(&self, range: KeyRange<'_>) -> Result<()> {
        {
            let _chunk = self.chunk.lock();
            // What is in the immutable tree, and then what is in the mutable one now.
            self.empty_immutable()?;
            self.switch()?;
            self.empty_immutable()?;
            if self.drop_run_files()? {
                self.gave_space_back()?;
            }
        }
        for level in 1..LEVEL_LAST {
            let deepest = self.levels.current().deepest_level(range);
            if deepest.is_none_or(|deepest| deepest <= level) {
                break;
            }
            self.compact_range_of(level, range)?;
        }
        for (level, number) in self.runs_with_garbage(range) {
            if let Picked::Plan(plan) = self.levels.plan_run(level, number) {
                match self.compact_in_free_space(plan) {
                    Err(Error::Full { .. }) => drop(self.in_reserve(|| self.rewrite(level, number))?),
                    compacted => compacted?,
                }
            }
        }
        Ok(())
    }

    /// LOCKS: level 0 compaction (held)
    fn empty_immutable(&self) -> Result<()> {
        let mut was_full = false;
        while self.level_zero.immutable().counts().keys > 0 {
            self.context.check_writable()?;
            match self.compact_chunk_or_part() {
                // Others may have had the space for a moment.
                Err(Error::Full { .. }) if !was_full => was_full = true,
                Ok(true) => was_full = false,
                Ok(false) => drop(self.compactions.wait(0)),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn compact_range_of(&self, level: u8, range: (Bound<&[u8]>, Bound<&[u8]>)) -> Result<()> {
        loop {
            self.context.check_writable()?;
            match self.levels.plan_range(level, range) {
                Picked::Nothing => return Ok(()),
                Picked::Busy => {
                    let _ = self.compactions.wait(0);
                }
                Picked::Plan(plan) => match self.compact_in_free_space(plan) {
                    Err(full @ Error::Full { .. }) => {
                        if !self.in_reserve(|| self.compact_levels_in_reserve(range, true))? {
                            return Err(full);
                        }
                    }
                    compacted => compacted?,
                },
            }
        }
    }
}
