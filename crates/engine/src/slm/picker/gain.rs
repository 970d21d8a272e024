//! The default choice, by gain: compact no more than the space demands, and then where a byte rewritten gains most.
//!
//! Cleaning here is what cleaning is in a log-structured file system: a file of which the part *u* is needed costs *u* of
//! its length to rewrite and gives back *1 - u*. So the file with the most garbage goes first. And waiting pays: the longer
//! a file is left alone, the more of it dies for nothing. Hence a compaction begins as late as the bound on space
//! allows, [`CompactionOptions::space_amplification_max`](crate::CompactionOptions): when garbage, with what the compaction
//! itself takes until its inputs go, would come up to it. When every key is overwritten as often as any other, the files
//! that are cleaned at 1.4 are half dead, and each byte put is written twice, by flush and compaction together.
//!
//! What a compaction takes meanwhile is bounded, too: it rewrites [`REWRITTEN_PART`] of the store at a time, or one file.
//! So large stores merge many files at once, which also puts them in order, and small ones few.
//!
//! Three more rules. A file of garbage alone goes at once: there is nothing to rewrite. A file without garbage is never
//! rewritten, with one exception: files much smaller than a MemTable (from flushes before their time) are merged when there
//! are many. And a file is not rewritten for less garbage than the bound allows on average; a store over the bound
//! has a file with more.

use super::{Choice, garbage_part};
use crate::slm::compaction::Plan;
use crate::slm::traffic::entries_max;

/// One compaction writes at most this part of what is needed of the store, unless a single file is more.
const REWRITTEN_PART: f64 = 1.0 / 32.0;
/// While a compaction writes a byte, so many more bytes of table files come: its own, and those of flushes until it has ended and
/// the next has taken as much away.
const BYTES_MEANWHILE: f64 = 3.0;
/// A file is merged with the one that has the most garbage if it has this part of that, at least (in parts of their lengths).
const GARBAGE_PART_BESIDE: f64 = 0.8;
/// A file is small if it has less than this part of a MemTable, or of a compaction's file: in bytes and in entries.
const SMALL_PART: f64 = 0.25;
/// So many small files are merged.
const SMALL_FILES: usize = 8;

/// A file that may be taken.
struct Candidate {
    number: u32,
    length_bytes: f64,
    entries: f64,
    garbage_part: f64,
}

impl Candidate {
    fn needed_bytes(&self) -> f64 {
        self.length_bytes * (1.0 - self.garbage_part)
    }
}

pub(super) fn pick(choice: &Choice<'_>) -> Option<Plan> {
    let (mut candidates, mut needed_bytes) = (Vec::new(), 0.0);
    for (&number, file) in &choice.state.files {
        let garbage_part = garbage_part(file, choice.deletes_droppable_through);
        let candidate =
            Candidate { number, length_bytes: file.length_bytes as f64, entries: file.entries as f64, garbage_part };
        needed_bytes += candidate.needed_bytes();
        if (choice.is_free)(number) {
            candidates.push(candidate);
        }
    }
    candidates.sort_by(|a, b| b.garbage_part.total_cmp(&a.garbage_part));
    dead(choice, &candidates)
        .or_else(|| with_most_garbage(choice, &candidates, needed_bytes))
        .or_else(|| small(choice, &candidates))
}

fn plan<'a>(chosen: impl Iterator<Item = &'a Candidate>, chosen_by: &'static str) -> Option<Plan> {
    let inputs: Vec<u32> = chosen.map(|candidate| candidate.number).collect();
    (!inputs.is_empty()).then_some(Plan { inputs, chosen_by })
}

/// Files of garbage alone.
fn dead(choice: &Choice<'_>, candidates: &[Candidate]) -> Option<Plan> {
    let dead = candidates.iter().take_while(|candidate| candidate.garbage_part >= 1.0);
    plan(dead.take(choice.options.files_merged_max), "garbage alone")
}

/// The files with the most garbage, if it is time.
fn with_most_garbage(choice: &Choice<'_>, candidates: &[Candidate], needed_bytes: f64) -> Option<Plan> {
    let garbage_bytes_max = needed_bytes * (choice.options.space_amplification_max - 1.0);
    let garbage_part_min = 1.0 - 1.0 / choice.options.space_amplification_max;
    let garbage_bytes: f64 = candidates.iter().map(|candidate| candidate.length_bytes * candidate.garbage_part).sum();
    let most = candidates.first().map_or(0.0, |first| first.garbage_part);
    let is_worth_it = |candidate: &&Candidate| {
        candidate.garbage_part >= garbage_part_min && candidate.garbage_part >= most * GARBAGE_PART_BESIDE
    };
    let mut rewritten_bytes = 0.0;
    let mut chosen = Vec::new();
    for candidate in candidates.iter().take_while(is_worth_it).take(choice.options.files_merged_max) {
        let with_it_bytes = rewritten_bytes + candidate.needed_bytes();
        if !chosen.is_empty() && with_it_bytes > needed_bytes * REWRITTEN_PART {
            break;
        }
        rewritten_bytes = with_it_bytes;
        chosen.push(candidate);
    }
    let is_time = garbage_bytes + BYTES_MEANWHILE * rewritten_bytes >= garbage_bytes_max;
    plan(chosen.into_iter().filter(|_| is_time), "most garbage")
}

/// Small files, if there are many.
fn small(choice: &Choice<'_>, candidates: &[Candidate]) -> Option<Plan> {
    let usual_bytes = choice.options.table_file_bytes.min(choice.memtable_bytes);
    let is_small = |candidate: &&Candidate| {
        candidate.length_bytes < usual_bytes as f64 * SMALL_PART
            && candidate.entries < entries_max(usual_bytes) as f64 * SMALL_PART
    };
    let mut small: Vec<&Candidate> = candidates.iter().filter(is_small).collect();
    small.sort_by(|a, b| a.length_bytes.total_cmp(&b.length_bytes));
    let many = SMALL_FILES.min(choice.options.files_merged_max);
    (many > 1 && small.len() >= many).then(|| plan(small.into_iter().take(many), "small files")).flatten()
}

#[cfg(test)]
mod tests {
    use slmdb_manifest::{FileRecord, MediumKind, MediumRecord, StoreState};

    use slmdb_order::KeyOrder;

    use super::*;
    use crate::slm::picker::Candidates;
    use crate::{CompactionOptions, Options};

    /// Table files of 1000 bytes and 100 entries, each with so many live ones.
    fn store(live: &[u64]) -> StoreState {
        let record = |live: u64| FileRecord { length_bytes: 1000, entries: 100, live, ..FileRecord::default() };
        let files = live.iter().enumerate().map(|(at, &live)| (at as u32 + 1, record(live))).collect();
        let kind = MediumKind::Dram;
        let medium = MediumRecord { kind, pool_path: None, pool_uuid: None, boot_id: [0; 16] };
        StoreState { files, ..StoreState::new([1; 16], "slm", "bytewise", medium) }
    }

    fn picked(state: &StoreState, busy: &[u32]) -> Option<Vec<u32>> {
        let options = CompactionOptions { table_file_bytes: 1000, ..CompactionOptions::default() };
        let is_free = |number: u32| !busy.contains(&number);
        let (options, deletes_droppable_through) = (&options, 0);
        let candidates = Candidates::new(&Options::default(), state);
        let choice = Choice {
            options,
            state,
            order: &KeyOrder::Bytewise,
            candidates: &candidates,
            is_free: &is_free,
            deletes_droppable_through,
            memtable_bytes: 1000,
        };
        pick(&choice).map(|plan| plan.inputs)
    }

    #[test]
    fn nothing_is_compacted_before_space_demands_it() {
        let with = |spread: &[u64]| store(&[&[100; 40], spread].concat());
        assert_eq!(picked(&with(&[]), &[]), None);
        assert_eq!(picked(&with(&[10, 20]), &[]), None, "most of two files is little of the store");
        let half_dead = with(&[50; 60]);
        assert!(half_dead.files.len() == 100 && picked(&half_dead, &[]).is_some_and(|inputs| inputs[0] > 40));
    }

    #[test]
    fn what_is_dead_goes_at_once_and_alone() {
        assert_eq!(picked(&store(&[100, 0, 100, 0, 50]), &[]), Some(vec![2, 4]));
        assert_eq!(picked(&store(&[100, 0, 100, 0, 100]), &[2, 4]), None);
    }

    #[test]
    fn the_most_garbage_first_and_a_part_of_the_store_at_a_time() {
        let mut live = vec![60; 200];
        live[70] = 9;
        live[80] = 10;
        live[90] = 30;
        let inputs = picked(&store(&live), &[]).expect("far over the bound");
        assert_eq!(inputs, [71, 81], "the third has too little garbage to go with them");
        let inputs = picked(&store(&live), &[71, 81, 91]).expect("still over the bound");
        let needed = 60 * 197 + 49;
        assert_eq!(inputs.len(), needed / 32 / 60, "a 32nd of what is needed, in files of 60");
    }

    #[test]
    fn a_file_is_not_rewritten_for_little() {
        // One file is much of such a store, so that the time has come soon: but not for so little.
        assert_eq!(picked(&store(&[80, 80]), &[]), None);
        assert_eq!(picked(&store(&[100, 70]), &[]), Some(vec![2]));
    }

    #[test]
    fn small_files_are_merged_when_there_are_many() {
        let mut state = store(&[100; 20]);
        for file in state.files.values_mut().take(7) {
            file.length_bytes = 200;
        }
        assert_eq!(picked(&state, &[]), None);
        state.files.values_mut().nth(12).expect("there are 20").length_bytes = 100;
        assert_eq!(picked(&state, &[]), Some(vec![13, 1, 2, 3, 4, 5, 6, 7]));
    }
}
