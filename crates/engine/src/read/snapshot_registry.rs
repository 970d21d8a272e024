//! [`SnapshotRegistry`]: which moments open cursors and snapshots read.
//!
//! A moment is a sequence number that was published when it was registered. Of each key it sees the newest version at
//! or below it. An engine keeps an older version as long as a registered moment sees it.
//!
//! Cursors and snapshots differ in what they keep alive. A cursor keeps the MemTables that it began with (INV-11). A
//! snapshot may be held for hours, so it keeps none: each of its reads begins with the MemTables of that time. So a
//! flush must write the older versions that a snapshot sees, and no others.
//!
//! **Why no snapshot slips through.** A flush asks for the snapshots within its MemTable's numbers
//! ([`SnapshotRegistry::snapshots_within`]) only when the MemTable is published to its last number. It asks under the
//! lock under which moments are registered. A snapshot that registers *before* is in the answer. A snapshot that
//! registers *after* reads the published number after, so its moment is at or above the MemTable's last number, and it
//! sees only the newest versions of that MemTable. There is no third case (INV-13).
//!
//! No moment older than the registered ones can come: a new moment is the published number, or that of a snapshot that
//! is registered. So a version that no moment sees can be forgotten at once (INV-14).
//!
//! An engine may keep state of its own, `K`, under the same lock, and a note, `N`, at each moment.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use slmdb_sync::scheduled::atomic::AtomicUsize;
use slmdb_sync::scheduled::{Mutex, MutexGuard};

use crate::lock_order;

/// What reads at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotKind {
    /// Keeps the MemTables that it began with.
    Cursor,
    /// Keeps no MemTable.
    Snapshot,
}

/// The cursors and snapshots at one sequence number.
#[derive(Debug, Default)]
struct Moment<N> {
    cursors: usize,
    snapshots: usize,
    note: N,
}

/// The registered moments, and what the engine keeps with them.
#[derive(Debug)]
pub struct Registered<N, K> {
    moments: BTreeMap<u64, Moment<N>>,
    cursors: usize,
    snapshots: usize,
    /// The engine's own.
    pub kept: K,
}

/// Which moments open cursors and snapshots read.
#[derive(Debug)]
pub struct SnapshotRegistry<N, K> {
    registered: Mutex<Registered<N, K>>,
    /// Number of registered cursors and snapshots. Read without the lock where only "any at all?" matters.
    open: AtomicUsize,
}

impl<N: Default, K> Registered<N, K> {
    /// The counts of a kind: at a moment, and at all moments.
    fn counts(&mut self, moment: u64, kind: SnapshotKind) -> (&mut usize, &mut usize) {
        let at = self.moments.entry(moment).or_default();
        match kind {
            SnapshotKind::Cursor => (&mut at.cursors, &mut self.cursors),
            SnapshotKind::Snapshot => (&mut at.snapshots, &mut self.snapshots),
        }
    }

    /// The note at the oldest moment that sees a version which is visible from `from` until `until`. `None`: no moment
    /// sees it.
    pub fn oldest_viewer(&mut self, from: u64, until: u64) -> Option<&mut N> {
        // `range_mut` panics if the start is above the end.
        (from < until).then(|| self.moments.range_mut(from..until).next().map(|(_, moment)| &mut moment.note)).flatten()
    }

    /// The registered moments, ascending.
    pub fn moments(&self) -> Vec<u64> {
        self.moments.keys().copied().collect()
    }

    /// Whether no moment is registered.
    pub fn is_empty(&self) -> bool {
        self.moments.is_empty()
    }

    /// Number of open cursors.
    pub fn cursors(&self) -> usize {
        self.cursors
    }

    /// Number of open snapshots.
    pub fn snapshots(&self) -> usize {
        self.snapshots
    }
}

impl<N: Default, K> SnapshotRegistry<N, K> {
    /// An empty registry, with what the engine keeps in it.
    pub fn new(kept: K) -> SnapshotRegistry<N, K> {
        let registered = Registered { moments: BTreeMap::new(), cursors: 0, snapshots: 0, kept };
        SnapshotRegistry { registered: Mutex::ranked(lock_order::SNAPSHOTS, registered), open: AtomicUsize::default() }
    }

    /// Locks the registry.
    /// LOCKS: snapshots
    pub fn lock(&self) -> MutexGuard<'_, Registered<N, K>> {
        self.registered.lock()
    }

    /// Registers the moment that `published` returns. It is called under the lock, so a flush that did not see this
    /// moment has only versions that the moment covers (INV-13).
    /// LOCKS: snapshots
    pub fn register(&self, kind: SnapshotKind, published: impl FnOnce() -> u64) -> u64 {
        let mut registered = self.registered.lock();
        self.open.fetch_add(1, Ordering::SeqCst);
        let moment = published();
        let (here, all) = registered.counts(moment, kind);
        *here += 1;
        *all += 1;
        moment
    }

    /// Ends one registration at `moment`. If that was the last one there, returns the moment's note, with the lock.
    /// LOCKS: snapshots
    pub fn release(&self, moment: u64, kind: SnapshotKind) -> Option<(N, MutexGuard<'_, Registered<N, K>>)> {
        let mut registered = self.registered.lock();
        self.open.fetch_sub(1, Ordering::SeqCst);
        let (here, all) = registered.counts(moment, kind);
        *here = here.saturating_sub(1);
        *all = all.saturating_sub(1);
        match registered.moments.get(&moment) {
            Some(at) if at.cursors + at.snapshots > 0 => None,
            _ => {
                let gone = registered.moments.remove(&moment).unwrap_or_default();
                Some((gone.note, registered))
            }
        }
    }

    /// Number of open cursors and snapshots together.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    /// The moments of snapshots from `first` to before `last`, the numbers of a MemTable that is about to be flushed.
    /// REQUIRES: the MemTable is published to its last number, so that later snapshots see only its newest versions
    /// (INV-13).
    /// LOCKS: snapshots
    pub fn snapshots_within(&self, first: u64, last: u64) -> Vec<u64> {
        let registered = self.registered.lock();
        if first >= last {
            return Vec::new();
        }
        let of_snapshots = registered.moments.range(first..last).filter(|(_, at)| at.snapshots > 0);
        of_snapshots.map(|(&moment, _)| moment).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A registry with these snapshots, and a note at each moment.
    fn with_snapshots(moments: &[u64]) -> SnapshotRegistry<Vec<&'static str>, ()> {
        let registry = SnapshotRegistry::new(());
        moments.iter().for_each(|&moment| assert_eq!(registry.register(SnapshotKind::Snapshot, || moment), moment));
        registry
    }

    #[test]
    fn a_flush_sees_the_snapshots_of_its_own_numbers() {
        let registry = with_snapshots(&[9, 10, 15, 19, 20]);
        registry.register(SnapshotKind::Cursor, || 12);
        assert_eq!(registry.snapshots_within(10, 20), [10, 15, 19]);
        assert_eq!(registry.snapshots_within(20, 10), [0; 0]);
        // A cursor of the snapshot goes on with the moment, but needs nothing written.
        registry.register(SnapshotKind::Cursor, || 15);
        assert!(registry.release(15, SnapshotKind::Snapshot).is_none());
        assert_eq!(registry.snapshots_within(10, 20), [10, 19]);
    }

    #[test]
    fn a_note_goes_with_the_last_of_its_moment() {
        let registry = with_snapshots(&[5, 5, 9]);
        registry.lock().oldest_viewer(4, 9).unwrap().push("seen at 5");
        assert!(registry.lock().oldest_viewer(6, 9).is_none());
        assert!(registry.lock().oldest_viewer(9, 6).is_none());
        assert!(registry.release(5, SnapshotKind::Snapshot).is_none());
        let (note, registered) = registry.release(5, SnapshotKind::Snapshot).unwrap();
        assert_eq!((note, registered.is_empty(), registered.snapshots()), (vec!["seen at 5"], false, 1));
        drop(registered);
        let (note, registered) = registry.release(9, SnapshotKind::Snapshot).unwrap();
        assert_eq!((note, registered.is_empty(), registered.cursors()), (vec![], true, 0));
        drop(registered);
        assert_eq!(registry.open(), 0);
    }
}
