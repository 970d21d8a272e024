//! Which table files are compacted (paper, section 3.3; design.md section 10).

use slmdb_manifest::{FileRecord, StoreState};

use super::compaction::Plan;
use crate::{CompactionOptions, CompactionPolicy};

/// Entries of a file that nobody needs: superseded puts, and deletes that the index checkpoints cover.
pub(super) fn garbage(file: &FileRecord, deletes_droppable_through: u64) -> u64 {
    let is_covered = file.highest_sequence <= deletes_droppable_through;
    let needed = file.live + if is_covered { 0 } else { file.deletes };
    file.entries.saturating_sub(needed)
}

/// The files to merge next, if any. `is_free`: whether a file may be taken.
pub(super) fn pick(
    options: &CompactionOptions,
    state: &StoreState,
    is_free: &dyn Fn(u32) -> bool,
    deletes_droppable_through: u64,
) -> Option<Plan> {
    if options.policy == CompactionPolicy::Manual {
        return None;
    }
    let needed_part =
        |file: &FileRecord| 1.0 - garbage(file, deletes_droppable_through) as f64 / file.entries.max(1) as f64;
    let mut candidates: Vec<(u32, f64)> = state
        .files
        .iter()
        .filter(|(number, _)| is_free(**number))
        .map(|(number, file)| (*number, needed_part(file)))
        .filter(|(_, part)| *part < options.live_key_threshold)
        .collect();
    candidates.sort_by(|a, b| a.1.total_cmp(&b.1));
    candidates.truncate(options.files_merged_max);
    let inputs: Vec<u32> = candidates.into_iter().map(|(number, _)| number).collect();
    (!inputs.is_empty()).then_some(Plan { inputs, chosen_by: "live-key ratio" })
}
