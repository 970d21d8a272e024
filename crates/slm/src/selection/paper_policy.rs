//! The paper's choice (section 3.3): of the candidates the one whose key range overlaps the others' most, with those that
//! it overlaps.
//!
//! For each candidate the overlap ratios with all others are added up. The one with the largest sum is merged with those
//! candidates that it overlaps, those first that it overlaps most, as many as may be merged at once.
//!
//! What the paper leaves open:
//!
//! - A candidate in which nothing is needed any more costs nothing but being given up. Such go first.
//! - A candidate that overlaps no other is compacted alone if it is below the live-key threshold, the one with the most
//!   garbage first. Else nothing would be gained; it waits on the list for one that it overlaps.
//! - So each compaction gets rid of garbage, or of an overlap: what it makes of files does not overlap any more, and covers no
//!   more than they did. A store that is left alone comes to rest.
//! - Nobody is stopped or slowed, however long the list is. (The authors' published code stops writers at 35.)

use slmdb_manifest::FileRecord;

use crate::compaction::plan::{CompactionReason, Plan};
use crate::selection::candidate_source::Source;
use crate::selection::overlap_ratio as overlaps;
use crate::selection::policy::Choice;

struct Candidate<'a> {
    number: u32,
    file: &'a FileRecord,
    source: Source,
}

pub(crate) fn pick(choice: &Choice<'_>) -> Option<Plan> {
    let listed = choice.candidates.listed().into_iter().filter(|(number, _)| (choice.is_free)(*number));
    let found = listed
        .filter_map(|(number, source)| choice.state.files.get(&number).map(|file| Candidate { number, file, source }));
    let candidates: Vec<Candidate<'_>> = found.collect();
    unneeded(choice, &candidates)
        .or_else(|| most_overlapping(choice, &candidates))
        .or_else(|| most_garbage(choice, &candidates))
}

/// A plan for these; the first says what has chosen them.
fn plan<'c>(candidates: impl IntoIterator<Item = &'c Candidate<'c>>) -> Option<Plan> {
    let mut candidates = candidates.into_iter().peekable();
    let reason = CompactionReason::Candidate(candidates.peek()?.source);
    Some(Plan { inputs: candidates.map(|candidate| candidate.number).collect(), reason })
}

/// Those that have nothing that is needed.
fn unneeded(choice: &Choice<'_>, candidates: &[Candidate<'_>]) -> Option<Plan> {
    let unneeded = candidates.iter().filter(|candidate| choice.needed_part(candidate.file) <= 0.0);
    plan(unneeded.take(choice.options.files_merged_max))
}

/// The one that overlaps the others most, with those.
fn most_overlapping(choice: &Choice<'_>, candidates: &[Candidate<'_>]) -> Option<Plan> {
    let files = candidates.iter().map(|candidate| candidate.file);
    let chosen = overlaps::most_overlapping(choice.order, files, choice.options.files_merged_max)?;
    plan(chosen.into_iter().map(|at| &candidates[at]))
}

/// The one with the most garbage, if that is enough for itself.
fn most_garbage(choice: &Choice<'_>, candidates: &[Candidate<'_>]) -> Option<Plan> {
    let parts = candidates.iter().map(|candidate| (candidate, choice.needed_part(candidate.file)));
    let below = parts.filter(|(_, part)| *part < choice.options.live_key_threshold);
    plan(below.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(candidate, _)| candidate))
}

#[cfg(test)]
mod tests;
