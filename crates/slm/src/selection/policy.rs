//! What a policy sees when it is asked which files are merged next.

use std::collections::BTreeSet;

use slmdb_engine::CompactionOptions;
use slmdb_manifest::{FileRecord, StoreState};
use slmdb_order::KeyOrder;

use crate::selection::candidate_list::Candidates;
use crate::selection::live_key_ratio::needed_part;

/// What a picker sees.
pub(crate) struct Choice<'a> {
    pub(crate) options: &'a CompactionOptions,
    pub(crate) state: &'a StoreState,
    pub(crate) order: &'a KeyOrder,
    pub(crate) candidates: &'a Candidates,
    /// Whether a file may be taken: no other compaction has it, and it could be read so far.
    pub(crate) is_free: &'a dyn Fn(u32) -> bool,
    /// Inputs of compactions that are running.
    pub(crate) running: &'a BTreeSet<u32>,
    /// Deletes up to this sequence number are garbage.
    pub(crate) deletes_droppable_through: u64,
    /// What a MemTable has, in bytes.
    pub(crate) memtable_bytes: u64,
}

impl Choice<'_> {
    /// The part of a file's entries that is needed.
    pub(crate) fn needed_part(&self, file: &FileRecord) -> f64 {
        needed_part(file, self.deletes_droppable_through)
    }
}
