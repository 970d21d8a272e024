//! Which table files are compacted (paper, section 3.3; design.md section 10).
//!
//! Two policies can be compared: [`paper`], and [`gain`], the default. Both use the list of [`candidates`], which four
//! sources fill (gain that of seeks alone); three of them need watching: [`leaf_scan`], range queries
//! ([`super::sequentiality`]) and seeks.

pub(super) mod candidates;
mod distances;
mod file_counts;
mod gain;
mod leaf_scan;
mod overlaps;
mod paper;
pub(super) mod room;

use std::collections::BTreeSet;

use slmdb_manifest::{FileRecord, StoreState};
use slmdb_order::KeyOrder;

use self::candidates::{Candidates, needed_part};
pub(super) use self::gain::{ORDER, SMALL_FILES};
use super::compaction::Plan;
use crate::{CompactionOptions, CompactionPolicy};

/// Entries of a file that nobody needs: superseded puts, and deletes that the index checkpoints cover.
pub(super) fn garbage(file: &FileRecord, deletes_droppable_through: u64) -> u64 {
    let is_covered = file.highest_sequence <= deletes_droppable_through;
    let needed = file.live + if is_covered { 0 } else { file.deletes };
    file.entries.saturating_sub(needed)
}

/// The same as a part of its entries.
pub(super) fn garbage_part(file: &FileRecord, deletes_droppable_through: u64) -> f64 {
    garbage(file, deletes_droppable_through) as f64 / file.entries.max(1) as f64
}

/// What a picker sees.
pub(super) struct Choice<'a> {
    pub(super) options: &'a CompactionOptions,
    pub(super) state: &'a StoreState,
    pub(super) order: &'a KeyOrder,
    pub(super) candidates: &'a Candidates,
    /// Whether a file may be taken: no other compaction has it, and it could be read so far.
    pub(super) is_free: &'a dyn Fn(u32) -> bool,
    /// Inputs of compactions that are running.
    pub(super) running: &'a BTreeSet<u32>,
    /// Deletes up to this sequence number are garbage.
    pub(super) deletes_droppable_through: u64,
    /// What a MemTable has, in bytes.
    pub(super) memtable_bytes: u64,
}

impl Choice<'_> {
    /// The part of a file's entries that is needed.
    fn needed_part(&self, file: &FileRecord) -> f64 {
        needed_part(file, self.deletes_droppable_through)
    }
}

/// The files to merge next, if any.
pub(super) fn pick(choice: &Choice<'_>) -> Option<Plan> {
    match choice.options.policy {
        CompactionPolicy::Manual => None,
        CompactionPolicy::Paper => paper::pick(choice),
        CompactionPolicy::Gain => gain::pick(choice),
    }
}
