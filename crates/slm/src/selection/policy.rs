//! [`Choice`]: what a policy is given to choose the next files to merge.

use std::collections::BTreeSet;

use slmdb_engine::CompactionOptions;
use slmdb_manifest::StoreState;
use slmdb_order::KeyOrder;

use crate::compaction::controller::Load;
use crate::selection::file_notes::FileNotes;

/// The input of a policy.
pub(crate) struct Choice<'a> {
    pub(crate) options: &'a CompactionOptions,
    pub(crate) state: &'a StoreState,
    pub(crate) order: &'a KeyOrder,
    pub(crate) notes: &'a FileNotes,
    /// Whether a file may be taken: it is in no other compaction, and could be read so far.
    pub(crate) is_free: &'a dyn Fn(u32) -> bool,
    /// Inputs of running compactions.
    pub(crate) running: &'a BTreeSet<u32>,
    /// Deletes up to this sequence number are garbage.
    pub(crate) deletes_droppable_through: u64,
    /// Size of a MemTable.
    pub(crate) memtable_bytes: u64,
    /// How the store is used.
    pub(crate) load: Load,
    /// Garbage that flushes of waiting MemTables will make.
    pub(crate) coming_bytes: f64,
}
