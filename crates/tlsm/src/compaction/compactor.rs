//! [`Compactor`]: what compaction threads do, and what a caller asks for.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use slmdb_engine::CompactionPolicy;
use slmdb_engine::background::compaction_queue::SpaceWanted;
use slmdb_engine::background::crew::Next;
use slmdb_engine::space::controller::Resource;
use slmdb_engine::store::compaction::Rounds;
use slmdb_engine::store::parts::Parts;
use slmdb_env::{Error, Result};
use slmdb_levels::KeyRange;
use slmdb_levels::jobs::level_jobs::{INPUTS, LevelJobs};
use slmdb_sync::scheduled::Mutex;

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
    pace: Arc<LevelsPace>,
    /// How many threads look for what is due, or do it.
    compacting: AtomicUsize,
    /// What [`Segments::changes`](crate::persistent_skiplist::segments::Segments::changes) was when no list was worth cleaning.
    pub(super) cleaned_in_vain_at: AtomicU64,
    /// What [`Segments::returned`](crate::persistent_skiplist::segments::Segments::returned) was when the reserve was filled again.
    noted_returned: AtomicU64,
    /// Held while a segment is emptied.
    pub(super) emptying: Mutex<()>,
}

impl Compactor {
    /// Nothing is compacted yet.
    pub(crate) fn new(store: Arc<Parts>, state: Arc<TlsmState>, pace: Arc<LevelsPace>) -> Compactor {
        let of_levels = pace.clone();
        let levels = LevelJobs::new(store.clone(), state.clone(), move |done| of_levels.compacted(done));
        let (cleaned_in_vain_at, noted_returned) = (AtomicU64::new(u64::MAX), AtomicU64::new(0));
        Compactor {
            store,
            state,
            levels,
            pace,
            compacting: AtomicUsize::new(0),
            cleaned_in_vain_at,
            noted_returned,
            emptying: Mutex::new(()),
        }
    }

    /// A step of the compactions.
    pub(crate) fn step(&self, rounds: &mut Rounds) -> Next {
        let compact = |wanted| match wanted {
            Some(wanted) => self.compact_for_space(wanted),
            None if self.is_manual() => Ok(false),
            None => self.compact_or_note_no_space(),
        };
        self.store.compaction_step(&self.state.compactions, rounds, compact, || {
            self.levels.look_for_unpinned();
            if let Err(error) = self.note_returned() {
                tracing::warn!(%error, "the reserve is not full");
            }
        })
    }

    fn is_manual(&self) -> bool {
        self.store.context.options.compaction.policy == CompactionPolicy::Manual
    }

    /// Compacts what is due. Notes it if no thread does, because there is no space: then writers are not slowed.
    fn compact_or_note_no_space(&self) -> Result<bool> {
        self.compacting.fetch_add(1, Ordering::Relaxed);
        let compacted = self.compact_what_is_due();
        let was_alone = self.compacting.fetch_sub(1, Ordering::Relaxed) == 1;
        if was_alone && matches!(compacted, Err(Error::Full { .. })) {
            self.state.finds_no_space.store(true, Ordering::Relaxed);
            self.pace.set();
        }
        compacted
    }

    /// Levels come first: what they move down leaves less to clean and to demote. But where lists take much more than they may, or
    /// levels find no space, others come before.
    fn compact_what_is_due(&self) -> Result<bool> {
        if self.is_far_above_bound() && self.make_room_if_due()? {
            return Ok(true);
        }
        match self.levels.compact_levels() {
            Ok(true) => Ok(true),
            Err(error) if !matches!(error, Error::Full { .. }) => Err(error),
            _ if self.make_room_if_due()? => Ok(true),
            nothing => nothing,
        }
    }

    /// Cleans, or else demotes. (What comes back by cleaning costs the disk nothing.)
    fn make_room_if_due(&self) -> Result<bool> {
        Ok(self.clean_if_due().or_else(nothing_if_full)? || self.demote_if_due().or_else(nothing_if_full)?)
    }

    /// Gives back space, of the disk or of the pool. Returns whether it did.
    fn compact_for_space(&self, wanted: SpaceWanted) -> Result<bool> {
        match wanted.resource {
            _ if self.is_manual() => Ok(false),
            Resource::Disk => self.drop_garbage_of_files(EVERYTHING, wanted.at_any_cost),
            Resource::Pool => self.compact_for_pool(wanted),
        }
    }

    fn drop_garbage_of_files(&self, range: KeyRange<'_>, at_any_cost: bool) -> Result<bool> {
        self.store.in_reserve(INPUTS, || self.levels.drop_garbage(range, Resource::Disk, at_any_cost))
    }

    fn drop_garbage_of_lists(&self, wanted: SpaceWanted) -> Result<bool> {
        self.levels.drop_garbage(EVERYTHING, Resource::Pool, wanted.at_any_cost)
    }

    /// Gives back space in the pool by compactions that may take what the pool keeps back for one.
    fn compact_in_pool(&self, wanted: SpaceWanted) -> Result<bool> {
        let compacted = self.empty_segment().or_else(nothing_if_full)?
            || self.drop_garbage_of_lists(wanted).or_else(nothing_if_full)?;
        if compacted {
            self.store.gave_space_back(None)?;
        }
        Ok(compacted)
    }

    /// See [`slmdb_engine::Engine::compact_range`].
    pub(crate) fn compact_range(&self, range: KeyRange<'_>) -> Result<()> {
        self.store.context.check_writable()?;
        self.store.writes.flush()?;
        self.note_returned()?;
        let compact = || self.levels.compact_range(0, range, &|| self.give_back(range));
        self.store.run_requested(&self.state.compactions, compact)
    }

    /// Gives back what nobody needs, and if there is nothing, what may lie in a file. (A merge that finds no space may have written much
    /// before. So first comes all that nobody needs.)
    fn give_back(&self, range: KeyRange<'_>) -> Result<bool> {
        let drop_some = || match self.drop_garbage_of_files(range, true) {
            Ok(true) => Ok(true),
            // The pool may have some all the same.
            Ok(false) | Err(Error::Full { .. }) if self.compact_in_pool(AT_ANY_COST)? => Ok(true),
            done => done,
        };
        Ok(self.levels.give_back_all(drop_some)? || self.compact_for_pool(AT_ANY_COST)?)
    }

    /// Has what is kept back filled again, if readers have let go of lists.
    fn note_returned(&self) -> Result<()> {
        let returned = self.state.segments.returned();
        if self.state.lacks_reserve() && self.noted_returned.swap(returned, Ordering::Relaxed) != returned {
            self.store.gave_space_back(None)?;
        }
        Ok(())
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
        if self.demote().or_else(nothing_if_full)? {
            return Ok(true);
        }
        self.drop_garbage_of_files(EVERYTHING, wanted.at_any_cost).or_else(nothing_if_full)
    }
}

/// What finds no space has done nothing.
pub(crate) fn nothing_if_full(error: Error) -> Result<bool> {
    match error {
        Error::Full { .. } => Ok(false),
        other => Err(other),
    }
}
