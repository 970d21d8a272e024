//! The versions that open snapshots and cursors still see, and the index no longer has.
//!
//! The index holds only the newest version of a key. A reader of an [earlier
//! moment](super::snapshot_registry) finds every other version that it sees in one of two places: in a
//! MemTable that is not retired, or in the [map of replaced records](super::replaced_versions). Only such readers
//! use the map. It dies with the process.
//!
//! A flush of MemTable M follows two rules:
//!
//! 1. When M's record of a key replaces or removes an older one in the index, the old one goes into the map *before*
//!    the leaf's word swings (INV-12). It counts as replaced at the number of M's **oldest** version of the key: from
//!    that number on, M's own versions are what is seen. A reader asks the index first and the map afterwards. A record
//!    may move from the index to the map in between, never the other way, so the reader finds it in one of them.
//! 2. Versions in M that are not the newest of their key, and that a snapshot sees, are written to the table file but
//!    not indexed. They go into the map before M leaves the readers' list (INV-13).
//!
//! The registry's answer names every snapshot for which rule 2 matters. A later one sees only newest versions of M.
//! Those are in the index, or MemTables that have not asked yet replace them later.
//!
//! **Why a reader finds its version.** A reader at moment m takes the list of MemTables, then looks in the index, then
//! in the map. Versions at or below m are in MemTables that were active when m was registered, so each of these is in
//! the reader's list or was retired before. If one in the list has such a version, the newest of the list's is the
//! newest of all, because MemTables retire in order. If none has, then what m sees is in retired ones: the index has it
//! at its own number (at or below m), or the map has it by rule 1 or 2. The index cannot have an older one than that,
//! since all retired MemTables were swung in.
//!
//! Cursors need rule 1 alone, because what rule 2 is about lies in MemTables that they keep. So do cursors of a
//! snapshot, which take their list when they are made; they register the moment anew and may outlive the snapshot.
//!
//! **Forgetting.** The oldest moment that sees a version in the map has charge of it. When that moment is gone, the
//! next that sees the version takes over. If there is none, the version is forgotten at once (INV-14).

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use slmdb_order::KeyOrder;
use slmdb_sync::scheduled::atomic::AtomicUsize;

use super::replaced_versions::{IndexedVersion, ReplacedVersions};
use super::snapshot_registry::{Registered, SnapshotKind, SnapshotRegistry};
use crate::files::obsolete_files::PinnedFiles;

/// How many versions are passed on or forgotten per hold of the lock, so that other threads get a chance at it.
const RELEASED_AT_ONCE: usize = 256;

/// The replaced records that a moment sees and no older one does, by key and sequence number.
type Charges = Vec<(Arc<[u8]>, u64)>;

/// The versions that open snapshots and cursors still see, and the index no longer has.
#[derive(Debug)]
pub struct Snapshots<V> {
    /// The moments, each with the versions that it has charge of; and the map.
    registry: SnapshotRegistry<Charges, ReplacedVersions<V>>,
    /// Number of versions in the map. Read without the lock where only "any at all?" matters. A reader that has seen a
    /// leaf's word swing sees what was added before.
    kept: AtomicUsize,
}

/// What is open, and what the map keeps for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotStats {
    /// Versions in the map.
    pub records: u64,
    /// Their approximate memory in bytes.
    pub bytes: u64,
    /// Open cursors.
    pub cursors: u64,
    /// Open snapshots.
    pub snapshots: u64,
}

/// Passes on the charge of a version whose oldest viewer, at `gone`, is gone. Returns its file if nothing pins that any
/// more.
fn pass_on<V: IndexedVersion>(
    registered: &mut Registered<Charges, ReplacedVersions<V>>,
    key: Arc<[u8]>,
    sequence: u64,
    gone: u64,
) -> Option<u32> {
    let replaced_at = registered.kept.replaced_at(&key, sequence)?;
    match registered.oldest_viewer(gone, replaced_at) {
        Some(next) => {
            next.push((key, sequence));
            None
        }
        None => registered.kept.remove(&key, sequence),
    }
}

/// The snapshots and cursors of a store, whatever its engine keeps for them.
pub trait Moments: Send + Sync {
    /// See [`SnapshotRegistry::register`].
    /// LOCKS: snapshots
    fn register(&self, kind: SnapshotKind, published: &dyn Fn() -> u64) -> u64;
    /// Ends one registration at `moment`, and forgets what no moment sees any more. Returns the table files that the
    /// map pins no more. A retired file stays unpinned, since nothing new can come to lie in it; any other may be
    /// pinned again by now.
    /// LOCKS: snapshots
    #[must_use]
    fn release(&self, moment: u64, kind: SnapshotKind) -> Vec<u32>;
    /// Number of open cursors and snapshots together.
    fn open(&self) -> usize;
    /// What is open, and what is kept for it.
    /// LOCKS: snapshots
    fn kept(&self) -> SnapshotStats;
    /// Approximate memory of what is kept, in bytes.
    /// LOCKS: snapshots
    fn kept_bytes(&self) -> u64;
}

impl<V: IndexedVersion> Moments for Snapshots<V> {
    fn register(&self, kind: SnapshotKind, published: &dyn Fn() -> u64) -> u64 {
        self.registry.register(kind, published)
    }

    fn release(&self, moment: u64, kind: SnapshotKind) -> Vec<u32> {
        let Some((mut charges, mut registered)) = self.registry.release(moment, kind) else { return Vec::new() };
        if registered.is_empty() {
            let empty = ReplacedVersions::new(registered.kept.order().clone());
            let forgotten = std::mem::replace(&mut registered.kept, empty);
            self.kept.store(0, Ordering::Release);
            // Freeing them may take a while.
            drop(registered);
            return forgotten.pinned();
        }
        drop(registered);
        let mut unpinned = Vec::new();
        while !charges.is_empty() {
            let some = charges.split_off(charges.len().saturating_sub(RELEASED_AT_ONCE));
            let mut registered = self.registry.lock();
            unpinned
                .extend(some.into_iter().filter_map(|(key, sequence)| pass_on(&mut registered, key, sequence, moment)));
            self.kept.store(registered.kept.len(), Ordering::Release);
        }
        unpinned
    }

    fn open(&self) -> usize {
        self.registry.open()
    }

    fn kept(&self) -> SnapshotStats {
        let registered = self.registry.lock();
        SnapshotStats {
            records: registered.kept.len() as u64,
            bytes: registered.kept.bytes() as u64,
            cursors: registered.cursors() as u64,
            snapshots: registered.snapshots() as u64,
        }
    }

    fn kept_bytes(&self) -> u64 {
        if self.kept.load(Ordering::Acquire) == 0 { 0 } else { self.registry.lock().kept.bytes() as u64 }
    }
}

impl<V: IndexedVersion> Snapshots<V> {
    /// Nothing is seen yet, in a store with this order of keys.
    pub fn new(order: KeyOrder) -> Snapshots<V> {
        Snapshots { registry: SnapshotRegistry::new(ReplacedVersions::new(order)), kept: AtomicUsize::default() }
    }

    /// All registered moments, ascending.
    /// LOCKS: snapshots
    pub fn moments(&self) -> Vec<u64> {
        if self.open() == 0 { Vec::new() } else { self.registry.lock().moments() }
    }

    /// Whether a moment sees a version that is visible from `from` until `until`.
    /// LOCKS: snapshots
    pub fn sees(&self, from: u64, until: u64) -> bool {
        self.open() > 0 && self.registry.lock().oldest_viewer(from, until).is_some()
    }

    /// See [`SnapshotRegistry::snapshots_within`].
    pub fn snapshots_within(&self, first: u64, last: u64) -> Vec<u64> {
        self.registry.snapshots_within(first, last)
    }

    /// Keeps `old`, a version of `key` in a table file, if a moment sees it. The version `replaced_at` is about to
    /// replace or remove it, or did so before `old` was ever indexed. REQUIRES: for a record of the index, the leaf's
    /// lock is held and the word has not swung (INV-12).
    /// LOCKS: snapshots
    pub fn note_replaced(&self, key: &[u8], old: V, replaced_at: u64) {
        if self.open() == 0 {
            return;
        }
        let mut registered = self.registry.lock();
        if registered.oldest_viewer(old.sequence(), replaced_at).is_none() {
            return;
        }
        let Some(key) = registered.kept.insert(key, old, replaced_at) else { return };
        self.kept.store(registered.kept.len(), Ordering::Release);
        if let Some(charges) = registered.oldest_viewer(old.sequence(), replaced_at) {
            charges.push((key, old.sequence()));
        }
    }

    /// The replaced record of `key` that `moment` sees.
    pub fn replaced(&self, key: &[u8], moment: u64) -> Option<V> {
        if self.kept.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.registry.lock().kept.get(key, moment)
    }

    /// The replaced records with keys in the range that `moment` sees, in key order.
    pub fn replaced_in(&self, range: (Bound<&[u8]>, Bound<&[u8]>), moment: u64) -> Vec<(Arc<[u8]>, V)> {
        if self.kept.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        self.registry.lock().kept.in_range(range, moment)
    }
}

impl<V: IndexedVersion> PinnedFiles for Snapshots<V> {
    /// Whether a version in the map lies in this table file, so that the file must stay.
    fn pins(&self, file: u32) -> bool {
        self.kept.load(Ordering::Acquire) > 0 && self.registry.lock().kept.pins(file)
    }
}

#[cfg(test)]
mod tests;
