//! [`TierState`]: what an engine keeps of a store. The first half of a tier.

use std::sync::Arc;

use slmdb_manifest::{Edit, StoreState};
use slmdb_pmem::{AnyMedium, Pool};

use crate::files::obsolete_files::PinnedFiles;
use crate::read::snapshots::Moments;
use crate::space::controller::TierSpace;
use crate::stats::Memory;

/// What an engine keeps of a store, in the fast tier and in memory, and what the store's parts ask of it. It knows no part.
pub trait TierState: TierSpace + PinnedFiles {
    /// The pool.
    fn pool(&self) -> &Arc<Pool<AnyMedium>>;
    /// Snapshots and cursors, and what is kept for them.
    fn moments(&self) -> &dyn Moments;
    /// Adds what it keeps in plain memory, beside the pool's own and what moments keep.
    fn count_memory(&self, memory: &mut Memory);

    /// The length of the longest key that a flush may write, beside those in MemTables, in bytes.
    /// LOCKS: the engine's own
    fn longest_key_bytes(&self) -> u32 {
        0
    }
    /// Called before a record of the MANIFEST is written. The engine may add to it.
    /// LOCKS: catalog (held)
    fn before_commit(&self, _: &StoreState, _: &mut Edit) {}
    /// Called after the attempt to write a record. `is_committed`: whether the MANIFEST has it.
    /// LOCKS: catalog (held)
    fn after_commit(&self, _: &Edit, _is_committed: bool) {}

    /// Has the compaction threads look again: files, space, or what readers see has changed.
    /// LOCKS: compactions
    fn wake_compactions(&self);
    /// Makes all compactions end soon: the store closes, or has failed.
    /// LOCKS: compactions
    fn stop_compactions(&self);
}
