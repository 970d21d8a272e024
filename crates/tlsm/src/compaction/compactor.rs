//! [`Compactor`]: what compaction threads do, and what a caller asks for.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use slmdb_engine::CompactionPolicy;
use slmdb_engine::background::compaction_queue::SpaceWanted;
use slmdb_engine::space::controller::{Resource, TierSpace};
use slmdb_engine::store::parts::Parts;
use slmdb_env::{Error, Result};
use slmdb_levels::KeyRange;
use slmdb_levels::jobs::level_jobs::{INPUTS, LevelJobs};

use super::pace::LevelsPace;
use crate::state::TlsmState;

/// All keys.
const EVERYTHING: KeyRange<'static> = (Bound::Unbounded, Bound::Unbounded);

/// Space in the pool for whoever has asked for a compaction.
const AT_ANY_COST: SpaceWanted = SpaceWanted { resource: Resource::Pool, at_any_cost: true };

/// What compactions need of the store.
pub(crate) struct Compactor {
    pub(crate) store: Arc<Parts>,
    pub(crate) state: Arc<TlsmState>,
    pub(crate) levels: LevelJobs<TlsmState>,
    /// What [`Segments::changes`](crate::persistent_skiplist::segments::Segments::changes) was when no list was worth cleaning.
    pub(super) cleaned_in_vain_at: AtomicU64,
}

impl Compactor {
    /// Nothing is compacted yet.
    pub(crate) fn new(store: Arc<Parts>, state: Arc<TlsmState>, pace: Arc<LevelsPace>) -> Compactor {
        let levels = LevelJobs::new(store.clone(), state.clone(), move |done| pace.compacted(done));
        Compactor { store, state, levels, cleaned_in_vain_at: AtomicU64::new(u64::MAX) }
    }

    /// A thread's loop, until the store closes or fails.
    pub(crate) fn run(&self) {
        let compact = |wanted| match wanted {
            Some(wanted) => self.compact_for_space(wanted),
            None if self.is_manual() => Ok(false),
            None => self.compact_what_is_due(),
        };
        self.store.run_compactions(&self.state.compactions, compact, || self.levels.look_for_unpinned());
    }

    fn is_manual(&self) -> bool {
        self.store.context.options.compaction.policy == CompactionPolicy::Manual
    }

    /// Levels come first: what they move down leaves less to demote and to clean. But where lists take much more than they may, or
    /// levels find no space, others come before.
    fn compact_what_is_due(&self) -> Result<bool> {
        if self.is_far_above_bound() && self.demote_if_due().or_else(nothing_if_full)? {
            return Ok(true);
        }
        match self.levels.compact_levels() {
            Ok(true) => Ok(true),
            Err(error) if !matches!(error, Error::Full { .. }) => Err(error),
            nothing => {
                let others =
                    self.demote_if_due().or_else(nothing_if_full)? || self.clean_if_due().or_else(nothing_if_full)?;
                if others { Ok(true) } else { nothing }
            }
        }
    }

    /// Gives back space, of the disk or of the pool. Returns whether it did.
    fn compact_for_space(&self, wanted: SpaceWanted) -> Result<bool> {
        match wanted.resource {
            _ if self.is_manual() => Ok(false),
            Resource::Disk => self.compact_for_disk(wanted),
            Resource::Pool => self.compact_for_pool(wanted),
        }
    }

    fn compact_levels_for_space(&self, wanted: SpaceWanted) -> Result<bool> {
        // What can't be read gives nothing back. Whoever compacts it tells so.
        let is_worth_it = |version: &_, level, run: &_| {
            matches!(self.levels.hides_garbage(version, level, run, wanted.at_any_cost), Ok(true))
        };
        self.levels.compact_levels_in_reserve(EVERYTHING, wanted.resource, is_worth_it)
    }

    /// Gives back space of the disk. If it is the pool that has none for that, gives back space there.
    fn compact_for_disk(&self, wanted: SpaceWanted) -> Result<bool> {
        match self.store.in_reserve(INPUTS, || self.compact_levels_for_space(wanted)) {
            Err(Error::Full { path, .. }) if path == self.state.pool_path() => {
                self.compact_in_pool(SpaceWanted { resource: Resource::Pool, ..wanted })
            }
            compacted => compacted,
        }
    }

    /// Gives back space in the pool by compactions that may take what the pool keeps back for one.
    fn compact_in_pool(&self, wanted: SpaceWanted) -> Result<bool> {
        let compacted = self.in_pool_reserve(|| match self.clean().or_else(nothing_if_full)? {
            false => self.compact_levels_for_space(wanted).or_else(nothing_if_full),
            true => Ok(true),
        });
        if matches!(compacted, Ok(true)) {
            self.store.gave_space_back(None)?;
        }
        compacted
    }

    fn in_pool_reserve(&self, compact: impl FnOnce() -> Result<bool>) -> Result<bool> {
        self.state.uses_pool_reserve.store(true, Ordering::Relaxed);
        let compacted = compact();
        self.state.uses_pool_reserve.store(false, Ordering::Relaxed);
        compacted
    }

    /// See [`slmdb_engine::Engine::compact_range`].
    pub(crate) fn compact_range(&self, range: KeyRange<'_>) -> Result<()> {
        self.store.context.check_writable()?;
        self.store.writes.flush()?;
        self.store.run_requested(&self.state.compactions, || {
            loop {
                match self.levels.compact_range(0, range) {
                    // As long as something gives space back there, it goes on.
                    Err(Error::Full { path, .. })
                        if path == self.state.pool_path() && self.compact_for_pool(AT_ANY_COST)? => {}
                    done => return done,
                }
            }
        })
    }

    /// Gives back space in the pool: first what nobody needs, then what may lie in a file. If there is no space for files, gives back
    /// some of that.
    fn compact_for_pool(&self, wanted: SpaceWanted) -> Result<bool> {
        if self.compact_in_pool(wanted)? {
            return Ok(true);
        }
        if !self.state.policy.may_demote() {
            return Ok(false);
        }
        if self.demote_oldest().or_else(nothing_if_full)? {
            return Ok(true);
        }
        let of_disk = SpaceWanted { resource: Resource::Disk, ..wanted };
        let compact = || self.in_pool_reserve(|| self.compact_levels_for_space(of_disk));
        self.store.in_reserve(INPUTS, compact).or_else(nothing_if_full)
    }
}

/// What finds no space has done nothing.
pub(crate) fn nothing_if_full(error: Error) -> Result<bool> {
    match error {
        Error::Full { .. } => Ok(false),
        other => Err(other),
    }
}
