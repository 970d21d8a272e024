//! What open snapshots and cursors still see: their moments, and the records that were replaced since.
//!
//! The index holds only the newest version of a key. A reader of an earlier moment finds every other version that it
//! sees in one of two places: in a MemTable that is not retired, or in the [map of replaced
//! records](crate::index::replaced_records). Only such readers use the map. It dies with the process.
//!
//! **Who sees what.** A moment is a sequence number that was published when it was registered. It sees, of each key,
//! the newest version at or below it. A cursor keeps the MemTables of its list until it goes (INV-11). A snapshot may
//! be held for hours, so it keeps none: each of its reads takes the list anew. That asks for two rules of a flush of
//! MemTable M:
//!
//! 1. When M's record of a key replaces or removes an older one in the index, the old one goes into the map *before*
//!    the leaf's word swings (INV-12). It counts as replaced at the number of M's **oldest** version of the key: from
//!    that number on, M's own versions are what is seen. A reader asks the index first and the map afterwards. A record
//!    may move from the index to the map in between, never the other way, so the reader finds it in one of them.
//! 2. Versions in M that are not the newest of their key, and that a snapshot sees, are written to the table file but
//!    not indexed. They go into the map before M leaves the readers' list (INV-13).
//!
//! **Why no snapshot slips through between.** M's file thread asks which snapshots there are only when M is published
//! to its last number ([`Snapshots::snapshots_within`]), and under the lock under which moments are registered. A
//! snapshot that registers *before* is in the answer, and the rules are followed for it. A snapshot that registers
//! *after* reads the published number after, so its moment is at or above M's last number. It sees only newest versions
//! of M. Those are in the index, or MemTables that have not asked yet replace them later. There is no third case.
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
//! next that sees the version takes over. If there is none, the version is forgotten at once (INV-14). No moment older
//! than the registered ones can come: a new moment is the published number, or that of a snapshot that is registered.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use slmdb_engine::files::location::Location;
use slmdb_engine::files::obsolete_files::PinnedFiles;
use slmdb_engine::lock_order;
use slmdb_order::KeyOrder;
use slmdb_sync::scheduled::Mutex;
use slmdb_sync::scheduled::atomic::AtomicUsize;

use crate::index::replaced_records::ReplacedRecords;

/// How many versions are passed on or forgotten per hold of the lock, so that other threads get a chance at it.
const RELEASED_AT_ONCE: usize = 256;

/// What holds a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SnapshotKind {
    /// Keeps the MemTables that it needs.
    Cursor,
    /// Keeps no MemTable.
    Snapshot,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Snapshots {
    inner: Mutex<Inner>,
    /// Number of registered cursors and snapshots. Read without the lock where only "any at all?" matters.
    open: AtomicUsize,
    /// Number of versions in the map, read likewise. A reader that has seen a leaf's word swing sees what was added
    /// before.
    kept: AtomicUsize,
}

#[derive(Debug)]
struct Inner {
    moments: BTreeMap<u64, Moment>,
    replaced: ReplacedRecords,
    cursors: usize,
    snapshots: usize,
}

/// The cursors and snapshots at one sequence number.
#[derive(Debug, Default)]
struct Moment {
    cursors: usize,
    snapshots: usize,
    /// The replaced records that this moment sees and no older one does.
    in_charge_of: Vec<(Arc<[u8]>, u64)>,
}

/// What is open, and what the map keeps for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SnapshotStats {
    /// Versions in the map.
    pub(crate) records: u64,
    /// Their approximate memory in bytes.
    pub(crate) bytes: u64,
    /// Open cursors.
    pub(crate) cursors: u64,
    /// Open snapshots.
    pub(crate) snapshots: u64,
}

impl Inner {
    fn count(&mut self, moment: u64, holder: SnapshotKind) -> (&mut usize, &mut usize) {
        let at = self.moments.entry(moment).or_default();
        match holder {
            SnapshotKind::Cursor => (&mut at.cursors, &mut self.cursors),
            SnapshotKind::Snapshot => (&mut at.snapshots, &mut self.snapshots),
        }
    }

    /// The moment in charge of a version that is visible from `from` until `until`. `None`: no moment sees it.
    fn oldest_viewer(&mut self, from: u64, until: u64) -> Option<&mut Moment> {
        // `range_mut` panics if the start is above the end.
        (from < until).then(|| self.moments.range_mut(from..until).next().map(|(_, moment)| moment)).flatten()
    }

    /// Passes on the charge of a version whose oldest viewer, at `gone`, is gone. Returns its file if nothing pins that
    /// any more.
    fn pass_on(&mut self, key: Arc<[u8]>, sequence: u64, gone: u64) -> Option<u32> {
        let replaced_at = self.replaced.replaced_at(&key, sequence)?;
        match self.oldest_viewer(gone, replaced_at) {
            Some(next) => {
                next.in_charge_of.push((key, sequence));
                None
            }
            None => self.replaced.remove(&key, sequence),
        }
    }
}

impl Snapshots {
    /// An empty registry, for a store with this order of keys.
    pub(crate) fn new(order: KeyOrder) -> Snapshots {
        let (moments, replaced) = (BTreeMap::new(), ReplacedRecords::new(order));
        Snapshots {
            inner: Mutex::ranked(lock_order::SNAPSHOTS, Inner { moments, replaced, cursors: 0, snapshots: 0 }),
            open: AtomicUsize::default(),
            kept: AtomicUsize::default(),
        }
    }

    /// Registers the moment that `published` returns. It is called under the lock, so a flush that did not see this
    /// moment has only versions that the moment covers (INV-13).
    /// LOCKS: snapshots
    pub(crate) fn register(&self, holder: SnapshotKind, published: impl FnOnce() -> u64) -> u64 {
        let mut inner = self.inner.lock();
        self.open.fetch_add(1, Ordering::SeqCst);
        let moment = published();
        let (here, all) = inner.count(moment, holder);
        *here += 1;
        *all += 1;
        moment
    }

    /// Ends one registration at `moment`, and forgets what no moment sees any more. Returns the table files that the
    /// map pins no more. A retired file stays unpinned, since nothing new can come to lie in it; any other may be
    /// pinned again by now.
    /// LOCKS: snapshots
    #[must_use]
    pub(crate) fn release(&self, moment: u64, holder: SnapshotKind) -> Vec<u32> {
        let mut in_charge_of = {
            let mut inner = self.inner.lock();
            self.open.fetch_sub(1, Ordering::SeqCst);
            let (here, all) = inner.count(moment, holder);
            *here = here.saturating_sub(1);
            *all = all.saturating_sub(1);
            match inner.moments.get(&moment) {
                Some(at) if at.cursors + at.snapshots > 0 => return Vec::new(),
                _ => {}
            }
            let gone = inner.moments.remove(&moment).unwrap_or_default();
            if inner.moments.is_empty() {
                let empty = ReplacedRecords::new(inner.replaced.order().clone());
                let forgotten = std::mem::replace(&mut inner.replaced, empty);
                self.kept.store(0, Ordering::Release);
                // Freeing them may take a while.
                drop(inner);
                return forgotten.pinned();
            }
            gone.in_charge_of
        };
        let mut unpinned = Vec::new();
        while !in_charge_of.is_empty() {
            let some = in_charge_of.split_off(in_charge_of.len().saturating_sub(RELEASED_AT_ONCE));
            let mut inner = self.inner.lock();
            unpinned.extend(some.into_iter().filter_map(|(key, sequence)| inner.pass_on(key, sequence, moment)));
            self.kept.store(inner.replaced.len(), Ordering::Release);
        }
        unpinned
    }

    /// Number of open cursors and snapshots together.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    /// What is open, and what is kept for it.
    pub(crate) fn kept(&self) -> SnapshotStats {
        let inner = self.inner.lock();
        SnapshotStats {
            records: inner.replaced.len() as u64,
            bytes: inner.replaced.bytes() as u64,
            cursors: inner.cursors as u64,
            snapshots: inner.snapshots as u64,
        }
    }

    /// Approximate memory of the map in bytes.
    pub(crate) fn kept_bytes(&self) -> u64 {
        if self.kept.load(Ordering::Acquire) == 0 { 0 } else { self.inner.lock().replaced.bytes() as u64 }
    }

    /// The moments of snapshots from `first` to before `last`, the numbers of a MemTable that is about to be flushed.
    /// REQUIRES: the MemTable is published to its last number, so that later snapshots see only its newest versions
    /// (INV-13).
    /// LOCKS: snapshots
    pub(crate) fn snapshots_within(&self, first: u64, last: u64) -> Vec<u64> {
        let inner = self.inner.lock();
        if first >= last {
            return Vec::new();
        }
        let of_snapshots = inner.moments.range(first..last).filter(|(_, at)| at.snapshots > 0);
        of_snapshots.map(|(&moment, _)| moment).collect()
    }

    /// Keeps `old`, a version of `key` in a table file, if a moment sees it. The version `replaced_at` is about to
    /// replace or remove it, or did so before `old` was ever indexed. REQUIRES: for a record of the index, the leaf's
    /// lock is held and the word has not swung (INV-12).
    /// LOCKS: snapshots
    pub(crate) fn note_replaced(&self, key: &[u8], old: Location, replaced_at: u64) {
        if self.open() == 0 {
            return;
        }
        let mut inner = self.inner.lock();
        if inner.oldest_viewer(old.sequence, replaced_at).is_none() {
            return;
        }
        let Some(key) = inner.replaced.insert(key, old, replaced_at) else { return };
        self.kept.store(inner.replaced.len(), Ordering::Release);
        if let Some(viewer) = inner.oldest_viewer(old.sequence, replaced_at) {
            viewer.in_charge_of.push((key, old.sequence));
        }
    }

    /// The replaced record of `key` that `moment` sees.
    pub(crate) fn replaced(&self, key: &[u8], moment: u64) -> Option<Location> {
        if self.kept.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.inner.lock().replaced.get(key, moment)
    }

    /// The replaced records with keys in the range that `moment` sees, in key order.
    pub(crate) fn replaced_in(&self, range: (Bound<&[u8]>, Bound<&[u8]>), moment: u64) -> Vec<(Arc<[u8]>, Location)> {
        if self.kept.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        self.inner.lock().replaced.in_range(range, moment)
    }
}

impl PinnedFiles for Snapshots {
    /// Whether a version in the map lies in this table file, so that the file must stay.
    fn pins(&self, file: u32) -> bool {
        self.kept.load(Ordering::Acquire) > 0 && self.inner.lock().replaced.pins(file)
    }
}

#[cfg(test)]
mod tests;
