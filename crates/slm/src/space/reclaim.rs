//! How space is given back: compactions that are made for that alone.
//!
//! A compaction writes new files beside the old ones, which go at its end. On a disk or in a pool that is filled to the
//! last byte it could never begin, and the garbage would stay for ever. So before a put is admitted, space for *one
//! output* is reserved (INV-32): on the disk the [reserve](slmdb_engine::space::reserve), in the pool as much as the
//! largest key segment takes.
//!
//! A compaction *for space* writes one file into that reserve, from one file or from several that become one
//! ([`crate::selection::low_space_policy`]). What its inputs give back fills the reserve first; the rest is for others.
//!
//! A thread that finds no space asks for such a compaction, waits for it, and tries again. Each leaves less garbage or
//! fewer files. One that finds no space itself is not tried again before something has changed. So this ends.

use std::sync::Arc;

use slmdb_engine::CompactionPolicy;
use slmdb_engine::context::StoreContext;
use slmdb_engine::space::controller::{Reclaim, Resource};
use slmdb_engine::write::write_path::WritePath;
use slmdb_env::Error;
use slmdb_pmem::Medium;

use crate::compaction::queue::{CompactionQueue, SpaceWanted};
use crate::index::Index;

/// Asks for compactions that give space back, and wakes the threads that wait for them.
pub(crate) struct SpaceReclaim<M: Medium> {
    pub(crate) context: Arc<StoreContext>,
    pub(crate) writes: Arc<WritePath<M>>,
    pub(crate) index: Arc<Index<M>>,
    pub(crate) compactions: Arc<CompactionQueue>,
}

impl<M: Medium + Clone> Reclaim for SpaceReclaim<M> {
    fn lacking(&self, full: &Error) -> Resource {
        match full {
            Error::Full { path, .. } if path == self.index.pool.path() => Resource::Pool,
            _ => Resource::Disk,
        }
    }

    fn returned_by_readers(&self) -> u64 {
        self.index.segments.returned()
    }

    fn readers_hold(&self, resource: Resource) -> bool {
        resource == Resource::Pool && self.index.segments.awaits_readers()
    }

    fn compact_for(&self, resource: Resource, at_any_cost: bool) -> bool {
        let is_manual = self.context.options.compaction.policy == CompactionPolicy::Manual;
        let mut inner = self.compactions.inner.lock();
        if self.compactions.is_stopping() {
            return false;
        }
        if !inner.busy.is_empty() {
            return true;
        }
        if is_manual || inner.nothing_to_gain[usize::from(at_any_cost)] {
            return false;
        }
        inner.space_wanted = Some(SpaceWanted { resource, at_any_cost });
        inner.changes += 1;
        self.compactions.changed.notify_all();
        true
    }
}

impl<M: Medium + Clone> SpaceReclaim<M> {
    /// Counts space, or garbage, that has come, so that requests that found none are tried again.
    /// LOCKS: compactions; memtables
    pub(crate) fn space_came_back(&self) {
        self.compactions.wake();
        self.writes.memtables.lock().space_returned += 1;
        self.wake_waiting();
    }

    /// Wakes waiting threads: a compaction has ended, or there will be none.
    /// LOCKS: memtables
    pub(crate) fn wake_waiting(&self) {
        let _traffic = self.writes.memtables.lock();
        self.writes.work_to_do.notify_all();
    }
}
