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

use std::path::Path;
use std::sync::atomic::Ordering;

use slmdb_engine::Options;
use slmdb_engine::batch::Totals;
use slmdb_engine::space::allowance::Grant;
use slmdb_engine::space::controller::{Resource, TakenFrom, TierSpace};
use slmdb_engine::space::reserve::{Reserve, is_usual, longest_file};
use slmdb_env::Result;
use slmdb_manifest::StoreState;

use crate::state::SlmState;
use slmdb_engine::background::compaction_queue::SpaceWanted;

impl TierSpace for SlmState {
    fn pool_path(&self) -> &Path {
        self.index.pool.path()
    }

    /// LOCKS: indexed keys
    fn reserve(&self, grant: &Grant, from: TakenFrom) -> Result<()> {
        let kept_back_bytes = if from == TakenFrom::Reserve { 0 } else { self.pool_reserve.segment_bytes() };
        let indexed = *self.pool_reserve.indexed_keys.lock();
        self.index.keys.reserve(grant, indexed, kept_back_bytes)
    }

    /// LOCKS: indexed keys
    fn note_flushed(&self, flushed: &Totals) {
        self.pool_reserve.indexed_keys.lock().add_all(flushed.long_keys());
    }

    fn count_files(&self, options: &Options, state: &StoreState, reserve: &Reserve) {
        reserve.set_outputs(1, longest_file(options, state.files.values().map(|file| file.length_bytes)));
        let sizes = self.index.keys.sizes_of_files();
        let usual = state.files.iter().filter(|(_, file)| is_usual(options, file.length_bytes));
        let extents = usual.filter_map(|(number, _)| sizes.get(number)).map(|size| size.extent_bytes);
        self.pool_reserve.segment_bytes.store(extents.max().unwrap_or(0), Ordering::Relaxed);
    }

    fn returned_by_readers(&self) -> u64 {
        self.index.keys.returned_by_readers()
    }

    fn readers_hold(&self) -> bool {
        self.index.keys.awaits_readers()
    }

    /// LOCKS: compactions
    fn compact_for(&self, resource: Resource, at_any_cost: bool) -> bool {
        let mut inner = self.compactions.inner.lock();
        if self.compactions.is_stopping() {
            return false;
        }
        if !inner.busy.is_empty() {
            return true;
        }
        let wanted = SpaceWanted { resource, at_any_cost };
        if self.is_manual || inner.nothing_to_gain.covers(wanted) {
            return false;
        }
        inner.space_wanted = Some(wanted);
        inner.changes += 1;
        self.compactions.notify();
        true
    }
}
