//! What compactions are doing and what is wanted of them; [`crate::Engine::compact_range`].

use std::collections::{BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use slmdb_env::{Error, Result};
use slmdb_manifest::{FileRecord, StoreState};
use slmdb_pmem::Medium;

use super::Plan;
use crate::slm::ordered_key::positions_in_order;
use crate::slm::store::Store;
use crate::slm::{locked, picker};

/// How often those who wait for a compaction look whether it is stuck.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A bound on keys, as [`Store::compact_range`] has them.
pub(crate) type KeyBound = Bound<Vec<u8>>;

/// What compactions are doing, and what is wanted of them.
#[derive(Debug, Default)]
pub(crate) struct Compactions {
    pub(super) inner: Mutex<Inner>,
    /// There may be something to do, or something was done.
    pub(super) changed: Condvar,
    /// The store closes, or has failed.
    stopping: AtomicBool,
    /// Compactions that have begun since the store was opened.
    pub(super) begun: AtomicU64,
}

#[derive(Debug, Default)]
pub(super) struct Inner {
    /// Inputs of compactions that are running.
    pub(super) busy: BTreeSet<u32>,
    /// Files that could not be read.
    pub(super) unfit: BTreeSet<u32>,
    /// What was asked for and has not begun.
    pub(super) asked: VecDeque<Arc<Asked>>,
    /// Counts what may have changed what there is to do.
    pub(super) changes: u64,
    /// When the last compaction ended, on the clock of the environment.
    pub(super) last_end_ns: u64,
}

/// A range whose compaction was asked for.
#[derive(Debug)]
pub(super) struct Asked {
    from: KeyBound,
    to: KeyBound,
    /// How it ended.
    pub(super) ended: Mutex<Option<Result<()>>>,
}

impl Compactions {
    /// The files there are, or their live counts, have changed.
    pub(in crate::slm) fn wake(&self) {
        locked(&self.inner).changes += 1;
        self.changed.notify_all();
    }

    /// Ends all of them soon.
    pub(in crate::slm) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.wake();
    }

    /// Whether something is being compacted.
    pub(in crate::slm) fn is_busy(&self) -> bool {
        !locked(&self.inner).busy.is_empty()
    }

    /// Whether the store closes, or has failed.
    pub(in crate::slm) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}

impl<M: Medium + Clone> Store<M> {
    /// Waits for so long, or until the store closes or somebody asks for a compaction.
    pub(super) fn pause_compactions(&self, pause: Duration) {
        let inner = locked(&self.compactions.inner);
        let is_on = |inner: &mut Inner| !self.compactions.is_stopping() && inner.asked.is_empty();
        let waited = self.compactions.changed.wait_timeout_while(inner, pause, is_on);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// See [`crate::Engine::compact_range`].
    pub(crate) fn compact_range(&self, from: KeyBound, to: KeyBound) -> Result<()> {
        self.check_writable()?;
        self.flush()?;
        let setbacks = locked(&self.traffic).setbacks.count();
        let asked = Arc::new(Asked { from, to, ended: Mutex::default() });
        let mut inner = locked(&self.compactions.inner);
        inner.asked.push_back(asked.clone());
        inner.changes += 1;
        self.compactions.changed.notify_all();
        loop {
            if let Some(ended) = locked(&asked.ended).take() {
                return ended;
            }
            // Then there may be nobody left to answer: a thread that panicked, or one that ended before this was asked.
            if self.compactions.is_stopping() {
                self.check_writable()?;
                return Err(Error::ReadOnly { cause: "the store closes".into() });
            }
            let waited = self.compactions.changed.wait_timeout(inner, LOOK_AGAIN);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
            // The compaction goes on when there is space again; who asked for it is not kept waiting for that.
            locked(&self.traffic).setbacks.check_flush(setbacks)?;
            inner = locked(&self.compactions.inner);
        }
    }

    /// The files with keys in a range; none if there is nothing to gain: no garbage, and no two of them overlap.
    pub(super) fn plan_of_range(&self, asked: &Asked, state: &StoreState) -> Plan {
        let order = &self.options.comparator;
        let overlaps_range = |file: &FileRecord| {
            order.is_up_to(&file.smallest_key, asked.to.as_ref())
                && order.is_from(&file.largest_key, asked.from.as_ref())
        };
        let files: Vec<(&u32, &FileRecord)> = state.files.iter().filter(|(_, file)| overlaps_range(file)).collect();
        let in_order = positions_in_order(files.iter().map(|(_, file)| &file.smallest_key[..]), order);
        let files: Vec<(&u32, &FileRecord)> = in_order.into_iter().map(|position| files[position]).collect();
        let droppable_through = self.checkpoints.deletes_droppable_through();
        let has_garbage = files.iter().any(|(_, file)| picker::garbage(file, droppable_through) > 0);
        let overlaps = files.windows(2).any(|two| order.compare(&two[0].1.largest_key, &two[1].1.smallest_key).is_ge());
        let inputs =
            if has_garbage || overlaps { files.iter().map(|(number, _)| **number).collect() } else { Vec::new() };
        Plan { inputs, chosen_by: "compact_range" }
    }
}
