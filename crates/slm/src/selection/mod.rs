//! Which table files are compacted (paper, section 3.3).
//!
//! Two policies can be compared: [`paper_policy`], and [`garbage_policy`], the default. Both use the list of
//! [`candidate_list`], which four sources fill (gain that of seeks alone); three of them need watching: [`leaf_node_scan`],
//! range queries ([`sequentiality_degree`]) and seeks.

pub(crate) mod candidate_list;
pub(crate) mod candidate_source;
pub(crate) mod distances;
pub(crate) mod garbage_policy;
pub(crate) mod leaf_node_scan;
pub(crate) mod low_space_policy;
pub(crate) mod naming;
pub(crate) mod overlap_ratio;
pub(crate) mod paper_policy;
pub(crate) mod scan_position;
pub(crate) mod seeks;
pub(crate) mod sequentiality_degree;

use std::collections::BTreeSet;

use slmdb_engine::{CompactionOptions, CompactionPolicy};
use slmdb_manifest::{FileRecord, StoreState};
use slmdb_order::KeyOrder;

use crate::compaction::plan::Plan;
use crate::selection::candidate_list::{Candidates, needed_part};

/// Entries of a file that nobody needs: superseded puts, and deletes that the index checkpoints cover.
pub(crate) fn garbage(file: &FileRecord, deletes_droppable_through: u64) -> u64 {
    let is_covered = file.highest_sequence <= deletes_droppable_through;
    let needed = file.live + if is_covered { 0 } else { file.deletes };
    file.entries.saturating_sub(needed)
}

/// The same as a part of its entries.
pub(crate) fn garbage_part(file: &FileRecord, deletes_droppable_through: u64) -> f64 {
    garbage(file, deletes_droppable_through) as f64 / file.entries.max(1) as f64
}

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
    fn needed_part(&self, file: &FileRecord) -> f64 {
        needed_part(file, self.deletes_droppable_through)
    }
}

/// The files to merge next, if any.
pub(crate) fn pick(choice: &Choice<'_>) -> Option<Plan> {
    match choice.options.policy {
        CompactionPolicy::Paper => paper_policy::pick(choice),
        CompactionPolicy::Gain => garbage_policy::pick(choice),
        _ => None,
    }
}
