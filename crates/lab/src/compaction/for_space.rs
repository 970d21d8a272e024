//! How space is given back: compactions that are made for that alone, and may write into the reserve.
//!
//! Leaf scans free run files only when nearly all of a tree has gone. So where the disk is full, the oldest run file is
//! taken by *file scan*, one part after the other; it goes with the last of them. The reserve has as much as that takes
//! ([`slmdb_levels::jobs::outputs::OUTPUTS_FOR_SPACE`]). When level 0 is empty, [the levels](slmdb_levels::jobs::for_space) give back what they
//! can.

use std::ops::Bound;

use slmdb_engine::CompactionPolicy;
use slmdb_engine::background::compaction_queue::SpaceWanted;
use slmdb_engine::space::controller::Resource;
use slmdb_env::Result;
use slmdb_levels::KeyRange;
use slmdb_levels::jobs::level_jobs::INPUTS;

use super::compactor::Compactor;

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
                let drop_garbage = || self.levels.drop_garbage(EVERYTHING, wanted.resource, wanted.at_any_cost);
                self.store.in_reserve(INPUTS, drop_garbage)
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
}
