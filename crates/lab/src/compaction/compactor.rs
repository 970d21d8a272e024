//! [`Compactor`]: what compaction threads do. Level 0 comes first, then the level that is most above its size.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use slmdb_engine::background::crew::Next;
use slmdb_engine::store::compaction::Rounds;
use slmdb_engine::store::parts::Parts;
use slmdb_engine::{CompactionPolicy, lock_order};
use slmdb_env::{Error, Result};
use slmdb_levels::jobs::level_jobs::{Compacted, INPUTS, LevelJobs};
use slmdb_sync::scheduled::Mutex;

use super::pace::LevelZeroPace;
use super::unreadable::Unreadable;
use crate::state::LabState;

/// What compactions need of the store.
pub(crate) struct Compactor {
    pub(crate) store: Arc<Parts>,
    pub(crate) state: Arc<LabState>,
    /// Held while a chunk is moved: one at a time.
    pub(crate) chunk: Mutex<()>,
    pub(crate) unreadable: Unreadable,
    pub(crate) levels: LevelJobs<LabState>,
    pub(crate) pace: Arc<LevelZeroPace>,
}

impl Compactor {
    /// Nothing is compacted yet.
    pub(crate) fn new(store: Arc<Parts>, state: Arc<LabState>, pace: Arc<LevelZeroPace>) -> Compactor {
        let on_change = {
            let pace = pace.clone();
            move |_: &Compacted| pace.set()
        };
        Compactor {
            levels: LevelJobs::new(store.clone(), state.clone(), on_change),
            store,
            state,
            chunk: Mutex::ranked(lock_order::CHUNK, ()),
            unreadable: Unreadable::default(),
            pace,
        }
    }

    /// A step of the compactions.
    pub(crate) fn step(&self, rounds: &mut Rounds) -> Next {
        let compact = |wanted| match wanted {
            Some(wanted) => self.compact_for_space(wanted),
            None => self.compact_what_is_due(),
        };
        self.store.compaction_step(&self.state.compactions, rounds, compact, || self.levels.look_for_unpinned())
    }

    /// Level 0 comes first.
    fn compact_what_is_due(&self) -> Result<bool> {
        let is_manual = self.store.context.options.compaction.policy == CompactionPolicy::Manual;
        if !is_manual {
            self.size_level_one();
        }
        match self.compact_level_zero() {
            Ok(false) if is_manual => Ok(false),
            Ok(false) if self.drop_run_files()? => self.store.gave_space_back(None).map(|()| true),
            Ok(false) => self.levels.compact_levels(),
            worked => worked,
        }
    }

    /// Whether level 0 has so much that chunks of it should go. Where only what is asked for is compacted, it may become
    /// full: then flushes would wait.
    fn is_level_zero_due(&self) -> bool {
        let is_manual = self.store.context.options.compaction.policy == CompactionPolicy::Manual;
        let part = if is_manual { 1.0 } else { self.state.options.level_zero_compaction_at };
        self.state.level_zero.used_bytes() as f64 >= self.state.level_zero.bytes_max() as f64 * part
    }

    /// Moves a chunk of level 0 on, if that is due, and no other thread does. If there is no space for that, it goes in
    /// smaller parts, with the reserve, unless that was in vain a moment ago. What is passed over keeps nothing else back.
    /// LOCKS: chunk (tried); indexing, catalog
    fn compact_level_zero(&self) -> Result<bool> {
        if !self.is_level_zero_due() {
            return Ok(false);
        }
        if let Some(cause) = self.why_stuck() {
            self.state.compactions.record_drain(Some(cause));
            return Ok(false);
        }
        let Some(chunk) = self.chunk.try_lock() else { return Ok(false) };
        if self.state.level_zero.immutable().counts().keys == 0 && !self.switch()? {
            return Ok(false);
        }
        let worked =
            if self.state.compactions.was_in_vain() { self.compact_chunk() } else { self.compact_chunk_or_part() };
        drop(chunk);
        self.state.compactions.record_drain(worked.as_ref().err().cloned());
        if self.why_stuck().is_some() { Ok(false) } else { worked }
    }

    /// The error for who needs more of level 0 to go, if nothing has happened since nothing but what is passed over was left.
    fn why_stuck(&self) -> Option<Error> {
        self.unreadable.why_stuck(&self.levels.unreadable, self.moment())
    }

    /// Rises whenever there may be less of what is passed over.
    pub(super) fn moment(&self) -> u64 {
        let counted = &self.store.context.counted;
        counted.flushes.load(Ordering::Relaxed) + counted.compactions.load(Ordering::Relaxed)
    }

    /// See [`Compactor::compact_chunk`]. On a full disk: [`Compactor::compact_oldest_run_file`].
    /// LOCKS: chunk (held)
    pub(super) fn compact_chunk_or_part(&self) -> Result<bool> {
        match self.compact_chunk() {
            Err(Error::Full { .. }) => self.store.in_reserve(INPUTS, || self.compact_oldest_run_file()),
            worked => worked,
        }
    }

    /// LOCKS: indexing, catalog
    pub(super) fn switch(&self) -> Result<bool> {
        let indexing = self.state.level_zero.indexing.lock();
        if *indexing {
            return Ok(false);
        }
        self.state.level_zero.switch(&self.store.catalog).inspect_err(|error| self.levels.fail_unless_it_passes(error))
    }
}
