//! What open snapshots and cursors still see: their moments, and the records that were replaced since.
//!
//! The index holds the newest version of a key alone. Whoever looks at an earlier moment finds every other version that it
//! sees in one of two places: in a MemTable that is not retired, or in the [map of replaced
//! records](crate::index::replaced_records). The map is consulted by such readers only, and dies with the process.
//!
//! **Who sees what.** A moment is a sequence number that was published when it was registered; it sees, of each key, the
//! newest version at or below it. A cursor keeps the MemTables of its list until it goes. A snapshot may be held for
//! hours, so it keeps none: it takes the list anew for each read. That asks for two rules of a flush of MemTable M:
//!
//! 1. When M's record of a key replaces (or removes) an older one in the index, the old one goes into the map *before*
//!    the leaf's word swings, replaced at the number of M's **oldest** version of the key: from that on M's own versions, or
//!    deletes, are what is seen. A reader asks the index first and the map afterwards. A record may move from the index to
//!    the map in between, never the other way, so it is found in one of them.
//! 2. Versions in M that are not the newest of their key, and that a snapshot sees, are written to the table file beside
//!    the newest, but not indexed; they go into the map before M leaves the readers' list.
//!
//! **Why no snapshot slips through between.** M's file thread asks which snapshots there are only when M is published to
//! its last number ([`Snapshots::snapshots_within`]), and asks under the lock under which moments are registered. A
//! snapshot that registers *before* is in the answer, and the rules are followed for it. One that registers *after* reads
//! the published number after, so its moment is at or above M's last number: of M it sees newest versions alone, and
//! those are in the index, or are replaced later by MemTables that have not asked yet. There is no third case.
//!
//! So for a reader at moment m that takes the list of MemTables, then looks in the index, then in the map: versions at or
//! below m are in MemTables that were active when m was registered, hence in its list or retired before. If one in the list
//! has such a version, the newest of the list's is the newest of all, for MemTables retire in order. If none has, what
//! m sees is in retired ones: the index has it at its own number (at or below m), or the map has it by rule 1 or 2. Nor
//! can the index have an older one than that: all retired MemTables were swung in. Cursors need rule 1 alone, for what
//! rule 2 is about lies in MemTables that they keep; so do cursors of a snapshot, which take their list when they are
//! made. They register the moment anew and may outlive the snapshot.
//!
//! **Forgetting.** Each version in the map is in the charge of the oldest moment that sees it. When that is gone, the next
//! that sees it takes over; if there is none, the version is forgotten at once. New moments are never below those there
//! are (but for cursors of a snapshot, whose moment is there), so nobody older can come.

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

/// How many versions change hands, or are forgotten, before others get a chance at the lock.
const RELEASED_AT_ONCE: usize = 256;

/// Who looks at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holder {
    /// It keeps the MemTables that it needs.
    Cursor,
    /// It keeps none.
    Snapshot,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Snapshots {
    inner: Mutex<Inner>,
    /// How many are registered; read without the lock where only «any at all?» matters.
    open: AtomicUsize,
    /// How many versions the map has; the same. (Whoever has seen a leaf's word swing sees what was added before.)
    kept: AtomicUsize,
}

#[derive(Debug)]
struct Inner {
    moments: BTreeMap<u64, Moment>,
    replaced: ReplacedRecords,
    cursors: usize,
    snapshots: usize,
}

/// Those who look at one sequence number.
#[derive(Debug, Default)]
struct Moment {
    cursors: usize,
    snapshots: usize,
    /// The replaced records that they see and nobody older.
    in_charge_of: Vec<(Arc<[u8]>, u64)>,
}

/// What the map holds now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Versions.
    pub(crate) records: u64,
    /// What they take in memory, about, in bytes.
    pub(crate) bytes: u64,
    /// Cursors that are open.
    pub(crate) cursors: u64,
    /// Snapshots that are held.
    pub(crate) snapshots: u64,
}

impl Inner {
    fn count(&mut self, moment: u64, holder: Holder) -> (&mut usize, &mut usize) {
        let at = self.moments.entry(moment).or_default();
        match holder {
            Holder::Cursor => (&mut at.cursors, &mut self.cursors),
            Holder::Snapshot => (&mut at.snapshots, &mut self.snapshots),
        }
    }

    /// Who is in charge of a version that is visible from `from` until `until`; `None`: nobody sees it.
    fn oldest_viewer(&mut self, from: u64, until: u64) -> Option<&mut Moment> {
        // An empty range may not be asked for the wrong way round.
        (from < until).then(|| self.moments.range_mut(from..until).next().map(|(_, moment)| moment)).flatten()
    }

    /// Passes a version on whose oldest viewer, at `gone`, is gone. Returns the file that is pinned no more, if so.
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
    /// None yet, of a store with this order of keys.
    pub(crate) fn new(order: KeyOrder) -> Snapshots {
        let (moments, replaced) = (BTreeMap::new(), ReplacedRecords::new(order));
        Snapshots {
            inner: Mutex::ranked(lock_order::SNAPSHOTS, Inner { moments, replaced, cursors: 0, snapshots: 0 }),
            open: AtomicUsize::default(),
            kept: AtomicUsize::default(),
        }
    }

    /// Registers the moment that `published` tells; it is asked under the lock, so that a flush that did not see this
    /// one has only versions that its moment covers.
    pub(crate) fn register(&self, holder: Holder, published: impl FnOnce() -> u64) -> u64 {
        let mut inner = self.inner.lock();
        self.open.fetch_add(1, Ordering::SeqCst);
        let moment = published();
        let (here, all) = inner.count(moment, holder);
        *here += 1;
        *all += 1;
        moment
    }

    /// Ends what was registered at `moment`; what nobody can see any more is forgotten. Returns the table files that the map
    /// pinned until now and pins no more. One that is retired stays so, since nothing new can come to lie in it; one that
    /// is not may be pinned again by now.
    #[must_use]
    pub(crate) fn release(&self, moment: u64, holder: Holder) -> Vec<u32> {
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
                // It may take a while until all of them are freed.
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

    /// How many cursors and snapshots are open together.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    /// What is kept for them.
    pub(crate) fn kept(&self) -> Kept {
        let inner = self.inner.lock();
        Kept {
            records: inner.replaced.len() as u64,
            bytes: inner.replaced.bytes() as u64,
            cursors: inner.cursors as u64,
            snapshots: inner.snapshots as u64,
        }
    }

    /// What the map takes in memory, about, in bytes.
    pub(crate) fn kept_bytes(&self) -> u64 {
        if self.kept.load(Ordering::Acquire) == 0 { 0 } else { self.inner.lock().replaced.bytes() as u64 }
    }

    /// The moments of snapshots from `first` to before `last`, the numbers of a MemTable that is about to be flushed.
    /// REQUIRES: it is published to its last number, so that snapshots to come see its newest versions alone.
    pub(crate) fn snapshots_within(&self, first: u64, last: u64) -> Vec<u64> {
        let inner = self.inner.lock();
        if first >= last {
            return Vec::new();
        }
        let of_snapshots = inner.moments.range(first..last).filter(|(_, at)| at.snapshots > 0);
        of_snapshots.map(|(&moment, _)| moment).collect()
    }

    /// What has sequence number `replaced_at` is about to replace (or remove) `old`, a version of `key` in a table file; or
    /// has done so before that was ever indexed. REQUIRES: of the index's record under the leaf's lock, before the swing.
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

    /// The replaced record of `key` that is seen at `moment`.
    pub(crate) fn replaced(&self, key: &[u8], moment: u64) -> Option<Location> {
        if self.kept.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.inner.lock().replaced.get(key, moment)
    }

    /// The replaced records with keys in the range that are seen at `moment`, in key order.
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
