//! [`Compactor`]: what compaction threads do, and what a caller asks for.

use std::ops::Bound;
use std::sync::Arc;

use slmdb_engine::CompactionPolicy;
use slmdb_engine::background::compaction_queue::SpaceWanted;
use slmdb_engine::store::parts::Parts;
use slmdb_env::Result;
use slmdb_levels::KeyRange;
use slmdb_levels::jobs::level_jobs::{INPUTS, LevelJobs};

use super::pace::LevelsPace;
use crate::state::TlsmState;

/// All keys.
const EVERYTHING: KeyRange<'static> = (Bound::Unbounded, Bound::Unbounded);

/// What compactions need of the store.
pub(crate) struct Compactor {
    store: Arc<Parts>,
    state: Arc<TlsmState>,
    pub(crate) levels: LevelJobs<TlsmState>,
}

impl Compactor {
    /// Nothing is compacted yet.
    pub(crate) fn new(store: Arc<Parts>, state: Arc<TlsmState>, pace: Arc<LevelsPace>) -> Compactor {
        let levels = LevelJobs::new(store.clone(), state.clone(), move |done| pace.compacted(done));
        Compactor { store, state, levels }
    }

    /// A thread's loop, until the store closes or fails.
    pub(crate) fn run(&self) {
        let compact = |wanted| match wanted {
            Some(wanted) => self.compact_for_space(wanted),
            None if self.is_manual() => Ok(false),
            None => self.levels.compact_levels(),
        };
        self.store.run_compactions(&self.state.compactions, compact, || self.levels.look_for_unpinned());
    }

    fn is_manual(&self) -> bool {
        self.store.context.options.compaction.policy == CompactionPolicy::Manual
    }

    /// Gives back disk space. Returns whether it did.
    fn compact_for_space(&self, wanted: SpaceWanted) -> Result<bool> {
        if self.is_manual() {
            return Ok(false);
        }
        // What can't be read gives nothing back. Whoever compacts it tells so.
        let is_worth_it = |version: &_, level, run: &_| {
            matches!(self.levels.hides_garbage(version, level, run, wanted.at_any_cost), Ok(true))
        };
        self.store.in_reserve(INPUTS, || self.levels.compact_levels_in_reserve(EVERYTHING, is_worth_it))
    }

    /// See [`slmdb_engine::Engine::compact_range`].
    pub(crate) fn compact_range(&self, range: KeyRange<'_>) -> Result<()> {
        self.store.context.check_writable()?;
        self.store.writes.flush()?;
        self.store.run_requested(&self.state.compactions, || self.levels.compact_range(0, range))
    }
}
