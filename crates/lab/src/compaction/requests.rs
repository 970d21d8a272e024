//! Compactions that a caller asks for and waits for.

use slmdb_engine::space::controller::Resource;
use slmdb_env::Result;
use slmdb_levels::KeyRange;
use slmdb_levels::jobs::level_jobs::INPUTS;
use slmdb_sync::scheduled::MutexGuard;

use super::compactor::Compactor;

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
        let drop_garbage = || self.store.in_reserve(INPUTS, || self.levels.drop_garbage(range, Resource::Disk, true));
        // A merge that finds no space may have written much before. So first all that nobody needs.
        self.levels.compact_range(1, range, &|| self.levels.give_back_all(drop_garbage))
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
}
