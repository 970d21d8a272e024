//! [`Checkpoints`]: when the next index checkpoint is due, and which deletes the last ones allow to drop.

use std::sync::atomic::Ordering;

use slmdb_engine::lock_order;
use slmdb_manifest::StoreState;
use slmdb_sync::scheduled::atomic::AtomicU64;
use slmdb_sync::scheduled::{Mutex, MutexGuard};

use crate::manifest_section::{CheckpointRecord, Section};

/// A checkpoint costs about as much as the index is large. So none is taken before one in this many of the index's keys
/// was flushed again.
pub(crate) const OF_INDEX_PART: u64 = 2;
/// A clean close takes one earlier, after this part of what the option says, because it shortens the next opening.
const AT_CLOSE_PART: u64 = 16;

/// When the next checkpoint is due, and which deletes the last ones allow to drop.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    /// Held while a checkpoint is taken.
    pub(crate) taking: Mutex<()>,
    /// Entries flushed since the last one was begun.
    pub(crate) entries_since: AtomicU64,
    /// Entries that make the next one due.
    pub(crate) entries_due: AtomicU64,
    /// Two checkpoints cover the deletes up to this sequence number.
    pub(crate) deletes_droppable_through: AtomicU64,
    /// Deletes up to this sequence number hide nothing any more ([`super::needless_deletes`]). Changed under the indexing
    /// lock.
    pub(crate) needless_through: AtomicU64,
}

/// The S of the older of the last two checkpoints; 0 if there are fewer.
pub(crate) fn droppable_through(checkpoints: &[CheckpointRecord]) -> u64 {
    if checkpoints.len() < 2 { 0 } else { checkpoints[0].through }
}

/// How many checkpoints a store needs that takes a new one. The second is for deletes that are dropped: without it a
/// damaged one would cost the store. While nothing was deleted, all table files are as good. A store that has two keeps
/// two, because a compaction that is under way may be dropping deletes.
pub(crate) fn wanted_checkpoints(state: &StoreState, section: &Section) -> usize {
    let has_deletes = section.deletes_dropped_through > 0 || state.files.values().any(|file| file.deletes > 0);
    if has_deletes || section.checkpoints.len() > 1 { 2 } else { 1 }
}

impl Default for Checkpoints {
    fn default() -> Checkpoints {
        Checkpoints {
            taking: Mutex::ranked(lock_order::INDEX_CHECKPOINT, ()),
            entries_since: AtomicU64::new(0),
            entries_due: AtomicU64::new(0),
            deletes_droppable_through: AtomicU64::new(0),
            needless_through: AtomicU64::new(0),
        }
    }
}

impl Checkpoints {
    /// For a store that is opened. `taken`: the checkpoints of its MANIFEST.
    pub(crate) fn new(state: &StoreState, taken: &[CheckpointRecord], entries_due: u64) -> Checkpoints {
        let (through, entries) = taken.last().map_or((0, 0), |last| (last.through, last.entries));
        let since = state.files.values().filter(|file| file.highest_sequence > through).map(|file| file.entries).sum();
        let checkpoints = Checkpoints::default();
        checkpoints.entries_since.store(since, Ordering::Relaxed);
        checkpoints.entries_due.store(entries_due.max(entries / OF_INDEX_PART), Ordering::Relaxed);
        checkpoints.deletes_droppable_through.store(droppable_through(taken), Ordering::Release);
        checkpoints
    }

    /// Counts entries that a flush has brought into table files.
    pub(crate) fn flushed(&self, entries: u64) {
        self.entries_since.fetch_add(entries, Ordering::Relaxed);
    }

    /// Deletes up to this sequence number need not be kept in table files: two checkpoints cover them, or they hide
    /// nothing (INV-18).
    pub(crate) fn deletes_droppable_through(&self) -> u64 {
        self.deletes_droppable_through.load(Ordering::Acquire).max(self.needless_through.load(Ordering::Acquire))
    }

    /// What the MANIFEST is told of deletes that a compaction has dropped, up to this sequence number. Nothing of those
    /// that hid nothing: a rebuild needs no checkpoint for them, and there may be none.
    /// LOCKS: indexing (held)
    pub(crate) fn dropped_through(&self, dropped_through: u64) -> u64 {
        if dropped_through > self.needless_through.load(Ordering::Acquire) { dropped_through } else { 0 }
    }

    /// While the guard is held no checkpoint is taken or removed.
    /// LOCKS: index checkpoint
    pub(crate) fn hold(&self) -> MutexGuard<'_, ()> {
        self.taking.lock()
    }

    pub(crate) fn is_due(&self) -> bool {
        self.entries_since.load(Ordering::Relaxed) >= self.entries_due.load(Ordering::Relaxed)
    }

    pub(crate) fn is_due_at_close(&self, entries_due: u64) -> bool {
        self.entries_since.load(Ordering::Relaxed) >= (entries_due / AT_CLOSE_PART).max(1)
    }

    /// Puts the next checkpoint off, after one could not be taken, until twice as many entries are flushed.
    pub(crate) fn put_off(&self) {
        let since = self.entries_since.load(Ordering::Relaxed);
        self.entries_due.fetch_max(since.saturating_mul(2), Ordering::Relaxed);
    }
}
