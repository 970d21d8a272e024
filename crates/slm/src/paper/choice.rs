//! The paper's choice (section 3.3): merge the candidate whose key range overlaps the others' most with those that it
//! overlaps. [`overlap_ratio`](crate::selection::overlap_ratio) finds them.
//!
//! What the paper leaves open:
//!
//! - A candidate in which nothing is needed costs nothing to give up. Such candidates go first.
//! - A candidate that overlaps no other is compacted alone if it is below the live-key threshold, the one with the most
//!   garbage first. Otherwise compacting it would gain nothing, and it waits on the list for one that it overlaps.
//! - So each compaction removes garbage or an overlap: its outputs do not overlap each other, and cover no more than
//!   its inputs did. A store that is left alone comes to rest.
//! - Writers are neither stopped nor slowed, however long the list is. The authors' published code stops them at 35.

use std::collections::BTreeMap;

use slmdb_manifest::FileRecord;

use crate::compaction::plan::{CompactionReason, Plan};
use crate::paper::candidate_list::Source;
use crate::selection::live_key_ratio::needed_part;
use crate::selection::overlap_ratio as overlaps;
use crate::selection::policy::Choice;

struct Candidate<'a> {
    number: u32,
    file: &'a FileRecord,
    source: Source,
    needed_part: f64,
}

/// The choice from the files on the list.
pub(super) fn pick(choice: &Choice<'_>, listed: BTreeMap<u32, Source>) -> Option<Plan> {
    let free = listed.into_iter().filter(|(number, _)| (choice.is_free)(*number));
    let found = free.filter_map(|(number, source)| {
        let file = choice.state.files.get(&number)?;
        Some(Candidate { number, file, source, needed_part: needed_part(file, choice.deletes_droppable_through) })
    });
    let candidates: Vec<Candidate<'_>> = found.collect();
    unneeded(choice, &candidates)
        .or_else(|| most_overlapping(choice, &candidates))
        .or_else(|| most_garbage(choice, &candidates))
}

/// A plan for these candidates; the first gives the reason.
fn plan<'c>(candidates: impl IntoIterator<Item = &'c Candidate<'c>>) -> Option<Plan> {
    let mut candidates = candidates.into_iter().peekable();
    let reason = CompactionReason::Candidate(candidates.peek()?.source.name());
    Some(Plan { inputs: candidates.map(|candidate| candidate.number).collect(), reason })
}

/// Candidates in which nothing is needed.
fn unneeded(choice: &Choice<'_>, candidates: &[Candidate<'_>]) -> Option<Plan> {
    let unneeded = candidates.iter().filter(|candidate| candidate.needed_part <= 0.0);
    plan(unneeded.take(choice.options.files_merged_max))
}

/// The candidate that overlaps the others most, with those.
fn most_overlapping(choice: &Choice<'_>, candidates: &[Candidate<'_>]) -> Option<Plan> {
    let files = candidates.iter().map(|candidate| candidate.file);
    let chosen = overlaps::most_overlapping(choice.order, files, choice.options.files_merged_max)?;
    plan(chosen.into_iter().map(|at| &candidates[at]))
}

/// The candidate with the most garbage, if it is below the live-key threshold.
fn most_garbage(choice: &Choice<'_>, candidates: &[Candidate<'_>]) -> Option<Plan> {
    let below = candidates.iter().filter(|candidate| candidate.needed_part < choice.options.live_key_threshold);
    plan(below.min_by(|a, b| a.needed_part.total_cmp(&b.needed_part)))
}

#[cfg(test)]
mod tests;
