//! How far compactions slow writers: two debts of the store, and the decision for [`slmdb_engine::stall::pacing`].
//!
//! Bypasses that nobody merges would take more and more memory, and files that nobody collects more and more of the disk. So the debts
//! are what bypasses have, as a part of what they have when all are full, and garbage, as a part of what is allowed. Flushes make
//! both with all that they write. Merges pay off what they bring to the last level, collections the garbage that they remove.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use slmdb_engine::CompactionPolicy;
use slmdb_engine::stall::pacing::multiple;
use slmdb_engine::store::flush::FlushedFile;
use slmdb_engine::store::parts::Parts;
use slmdb_env::{Error, Result};
use slmdb_manifest::FileRecord;
use slmdb_sync::scheduled::Mutex;

use crate::options::ChameleonOptions;
use crate::shards::Leads;
use crate::state::ChameleonState;

/// Garbage of this many MemTables slows no writer, however small the store.
const MEMTABLES_OF_GARBAGE: u64 = 2;
/// (debt, writers' rate as a multiple of the rate at which compactions pay), linear in between. Below the first debt writers are not
/// slowed. Of garbage: collections begin at [`COLLECTIONS_BEGIN`](super::garbage::COLLECTIONS_BEGIN).
const GARBAGE: &[(f64, f64)] = &[(1.0, 4.0), (1.1, 1.2), (1.2, 1.0), (1.35, 0.5), (1.6, 0.2)];
/// Of bypasses: all are full at 1, and while they are merged new ones fill.
const BYPASSES: &[(f64, f64)] = &[(1.5, 4.0), (1.8, 1.2), (2.0, 1.0), (2.5, 0.5), (3.0, 0.2)];

/// How far compactions slow writers.
pub(crate) struct Pace {
    store: Arc<Parts>,
    state: Arc<ChameleonState>,
    /// The last compaction found no space.
    finds_no_space: AtomicBool,
    /// Files that can't be read. They are left alone until the next opening.
    unreadable: Mutex<BTreeSet<u32>>,
    /// Shards whose last table can't be read.
    unreadable_shards: Mutex<BTreeSet<u16>>,
    /// Files that have garbage which moments see: with the last of these.
    kept_for: Mutex<BTreeMap<u32, u64>>,
}

/// Table files, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Garbage {
    pub(crate) all_bytes: f64,
    /// What slots lead to.
    pub(crate) needed_bytes: f64,
}

/// What a compaction has done.
#[derive(Debug, Clone, Copy)]
pub(super) struct Paid {
    /// Garbage that it has removed, or what of files it has brought to the last level, in bytes.
    pub(super) paid_bytes: u64,
    pub(super) written_bytes: u64,
}

impl Garbage {
    /// What is garbage, as a part of what may be.
    pub(crate) fn debt(&self, store: &Parts) -> f64 {
        let options = &store.context.options;
        let allowed_part = options.compaction.space_amplification_max - 1.0;
        (self.all_bytes - self.needed_bytes) / (self.needed_bytes * allowed_part).max(1.0)
    }

    /// The same, for writers.
    fn debt_of_writers(&self, store: &Parts) -> f64 {
        let few_bytes = (MEMTABLES_OF_GARBAGE * store.context.options.memtable_bytes) as f64;
        if self.all_bytes - self.needed_bytes <= few_bytes { 0.0 } else { self.debt(store) }
    }
}

impl Pace {
    /// No writer is slowed yet.
    pub(crate) fn new(store: Arc<Parts>, state: Arc<ChameleonState>) -> Pace {
        Pace {
            store,
            state,
            finds_no_space: AtomicBool::new(false),
            unreadable: Mutex::default(),
            unreadable_shards: Mutex::default(),
            kept_for: Mutex::default(),
        }
    }

    /// Takes note that a file can't be read.
    pub(super) fn note_unreadable(&self, file: u32) {
        self.unreadable.lock().insert(file);
    }

    /// Files that can't be read.
    pub(super) fn unreadable(&self) -> BTreeSet<u32> {
        self.unreadable.lock().clone()
    }

    /// Takes note that the last tables of some shards can't be read.
    pub(super) fn note_unreadable_shards(&self, shards: &[u16]) {
        self.unreadable_shards.lock().extend(shards);
    }

    /// Shards whose last table can't be read.
    pub(super) fn unreadable_shards(&self) -> BTreeSet<u16> {
        self.unreadable_shards.lock().clone()
    }

    /// Takes note that files have garbage which this moment sees.
    pub(super) fn note_kept(&self, files: impl Iterator<Item = u32>, moment: u64) {
        self.kept_for.lock().extend(files.map(|file| (file, moment)));
    }

    /// Forgets files that are the store's no more.
    pub(super) fn forget(&self, files: &[u32]) {
        self.kept_for.lock().retain(|file, _| !files.contains(file));
    }

    /// Files whose garbage has to stay for now.
    /// LOCKS: snapshots
    pub(super) fn with_kept_garbage(&self) -> BTreeSet<u32> {
        let oldest = self.state.snapshots.moments().first().copied().unwrap_or(u64::MAX);
        let mut kept_for = self.kept_for.lock();
        kept_for.retain(|_, moment| *moment >= oldest);
        kept_for.keys().chain(&self.unreadable()).copied().collect()
    }

    /// Counts a flush.
    /// LOCKS: snapshots; indexing; catalog
    pub(crate) fn flushed(&self, file: &FlushedFile) {
        let now_ns = self.store.context.env.monotonic_ns();
        self.store.writes.pacing.debt_made(file.entries, file.entries, file.bytes, now_ns);
        self.set();
    }

    /// Runs a compaction, and counts what it has done.
    /// LOCKS: those of `compact`; indexing; catalog
    pub(super) fn paid<T>(&self, compact: impl FnOnce() -> Result<(T, Paid)>) -> Result<T> {
        let began_ns = self.store.context.env.monotonic_ns();
        let compacted = compact();
        self.finds_no_space.store(matches!(compacted, Err(Error::Full { .. })), Ordering::Relaxed);
        if let Ok((_, paid)) = &compacted
            && paid.paid_bytes > 0
        {
            let took_ns = self.store.context.env.monotonic_ns().saturating_sub(began_ns);
            self.store.writes.pacing.debt_paid(paid.paid_bytes, paid.written_bytes, took_ns);
        }
        self.set();
        compacted.map(|(made, _)| made)
    }

    /// Sets how far writers are slowed.
    /// LOCKS: snapshots; indexing; catalog
    fn set(&self) {
        let options = &self.store.context.options;
        // Where compactions wait for space, no writer has to wait for compactions.
        let has_none = options.compaction.policy == CompactionPolicy::Manual;
        let is_free = has_none || self.finds_no_space.load(Ordering::Relaxed);
        let of_debt = |curve, debt| if is_free { None } else { multiple(curve, debt) };
        let garbage = of_debt(GARBAGE, self.garbage().debt_of_writers(&self.store));
        let is_bounded = options.own::<ChameleonOptions>().is_bypass_bounded();
        let bypasses = of_debt(BYPASSES, self.state.index.fullness(&self.unreadable_shards())).filter(|_| is_bounded);
        let slower = [garbage, bypasses].into_iter().flatten().reduce(f64::min);
        // Merges wait for collections, so no thread is idle that could help.
        self.store.set_compaction_pace(slower, 1, 1);
    }

    /// What the table files have. (No compaction helps with garbage that has to stay, so it counts as needed.)
    /// LOCKS: snapshots; indexing; catalog
    pub(crate) fn garbage(&self) -> Garbage {
        let kept = self.with_kept_garbage();
        // Of a file that is in the MANIFEST all slots are there, then.
        let writers = self.state.index.writers.lock();
        let catalog = self.store.catalog.lock();
        let mut garbage = Garbage::default();
        for (number, file) in &catalog.state().files {
            let current = writers.leads_to().get(number).map_or(0, Leads::entries);
            garbage.all_bytes += file.length_bytes as f64;
            let needed_part = if kept.contains(number) { 1.0 } else { part_of(current, file) };
            garbage.needed_bytes += needed_part * file.length_bytes as f64;
        }
        garbage
    }
}

/// Which part of a file's entries slots lead to.
pub(super) fn part_of(current: u64, file: &FileRecord) -> f64 {
    current as f64 / file.entries.max(1) as f64
}
