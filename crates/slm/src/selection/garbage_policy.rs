//! The default policy: compact no more than the space bound demands, and where a rewritten byte gains most.
//!
//! Cleaning here is what it is in a log-structured file system. A file of which the part *u* is needed costs *u* of
//! its length to rewrite and gives back *1 - u*. So the file with the most garbage goes first. And waiting pays,
//! because more of each file dies meanwhile. Hence a compaction begins as late as the bound on space allows
//! ([`CompactionOptions::space_amplification_max`](slmdb_engine::CompactionOptions)): when garbage, with what the
//! compaction itself takes until its inputs go, would reach it ([`controller`](crate::compaction::controller)). When
//! all keys are overwritten equally often, the files that are cleaned at 1.4 are half dead, and each byte put is
//! written twice, by flush and compaction together.
//!
//! What a compaction takes meanwhile is bounded, too: it rewrites [`REWRITTEN_PART`] of the store at a time, or one
//! file. So large stores merge many files at once, which also puts them in order, and small ones few.
//!
//! More rules:
//!
//! - A file of garbage alone goes at once, because nothing is rewritten.
//! - A file is not rewritten for less garbage than the bound allows on average. A store over the bound has a file with
//!   more.
//! - Files much smaller than a MemTable (from early flushes) are merged when there are many.
//! - Files without garbage are otherwise rewritten only for order: where they overlap and scans pay for it.
//!
//! **Order.** What a scan pays for disorder is seeks. They are counted for each file
//! ([`candidates`](crate::selection::candidate_list)), and a file is named after one seek per 16 KiB of it: a cursor
//! had to turn to it from another file and wait for a block. By LevelDB's reckoning so many seeks cost what merging the
//! file costs. So a store without scans is never put in order, and one with scans pays once as much as its scans have
//! paid.
//!
//! Files that seeks have named are merged with those of them that they [overlap](crate::selection::overlap_ratio), when
//! nothing else is to be done. Their outputs stand beside them until the end, so no more are merged at once than there
//! is space for beside garbage. [When](crate::compaction::order_schedule) that begins depends on writers and on the disk,
//! too. Outputs of one merge do not overlap each other, so the store comes to rest, however it is read.

use slmdb_engine::space::allowance::entries_max;
use slmdb_manifest::FileRecord;

use crate::compaction::controller::{RESTING_PART, Situation, Step};
use crate::compaction::plan::{CompactionReason, Plan};
use crate::selection::live_key_ratio::garbage_part;
use crate::selection::overlap_ratio as overlaps;
use crate::selection::policy::Choice;

/// Part of the needed bytes of the store that one compaction rewrites at most, unless a single file is more.
const REWRITTEN_PART: f64 = 1.0 / 64.0;
/// What a merge for order leaves for garbage: space for as many times the bytes that one compaction rewrites. In a
/// store at rest none comes.
const BYTES_MEANWHILE: f64 = 6.0;
/// A file is merged with the one that has the most garbage if its garbage part is at least this part of the other's.
const GARBAGE_PART_BESIDE: f64 = 0.8;
/// A file is small below this part of a MemTable or of a compaction's file, in bytes and in entries.
const SMALL_PART: f64 = 0.25;
/// Number of small files that are merged.
const SMALL_FILES_MERGED: usize = 8;

/// A file that may be taken.
struct Candidate<'a> {
    number: u32,
    file: &'a FileRecord,
    length_bytes: f64,
    garbage_part: f64,
}

impl Candidate<'_> {
    fn garbage_bytes(&self) -> f64 {
        self.length_bytes * self.garbage_part
    }

    fn needed_bytes(&self) -> f64 {
        self.length_bytes * (1.0 - self.garbage_part)
    }
}

fn garbage_bytes(candidates: &[Candidate<'_>]) -> f64 {
    candidates.iter().map(Candidate::garbage_bytes).sum()
}

/// Garbage allowed beside this number of needed bytes.
fn garbage_bytes_max(choice: &Choice<'_>, needed_bytes: f64) -> f64 {
    needed_bytes * (choice.options.space_amplification_max - 1.0)
}

pub(crate) fn pick(choice: &Choice<'_>) -> Option<Plan> {
    let (mut candidates, mut needed_bytes) = (Vec::new(), 0.0);
    let (mut garbage_bytes, mut beside_bytes) = (0.0, 0.0);
    for (&number, file) in &choice.state.files {
        let garbage_part = garbage_part(file, choice.deletes_droppable_through);
        let candidate = Candidate { number, file, length_bytes: file.length_bytes as f64, garbage_part };
        needed_bytes += candidate.needed_bytes();
        garbage_bytes += candidate.garbage_bytes();
        if choice.running.contains(&number) {
            beside_bytes += candidate.needed_bytes();
        }
        if (choice.is_free)(number) {
            candidates.push(candidate);
        }
    }
    let allowed_bytes = garbage_bytes_max(choice, needed_bytes);
    let coming_bytes = choice.coming_bytes;
    let now = Situation { needed_bytes, garbage_bytes, coming_bytes, beside_bytes, allowed_bytes };
    candidates.sort_by(|a, b| b.garbage_part.total_cmp(&a.garbage_part));
    dead(choice, &candidates)
        .or_else(|| with_most_garbage(choice, &candidates, &now))
        .or_else(|| small(choice, &candidates))
        .or_else(|| out_of_order(choice, &candidates, needed_bytes))
}

fn plan<'a>(chosen: impl Iterator<Item = &'a Candidate<'a>>, reason: CompactionReason) -> Option<Plan> {
    let inputs: Vec<u32> = chosen.map(|candidate| candidate.number).collect();
    (!inputs.is_empty()).then_some(Plan { inputs, reason })
}

/// Files of garbage alone.
fn dead(choice: &Choice<'_>, candidates: &[Candidate<'_>]) -> Option<Plan> {
    let dead = candidates.iter().take_while(|candidate| candidate.garbage_part >= 1.0);
    plan(dead.take(choice.options.files_merged_max), CompactionReason::GarbageAlone)
}

/// The files with the most garbage, if it is time.
fn with_most_garbage(choice: &Choice<'_>, candidates: &[Candidate<'_>], now: &Situation) -> Option<Plan> {
    let allowed = choice.options.space_amplification_max - 1.0;
    let allowed = if choice.load.is_quiet { allowed * RESTING_PART } else { allowed };
    let garbage_part_min = allowed / (1.0 + allowed);
    let most = candidates.first().map_or(0.0, |first| first.garbage_part);
    let is_worth_it = |candidate: &&Candidate<'_>| {
        candidate.garbage_part >= garbage_part_min && candidate.garbage_part >= most * GARBAGE_PART_BESIDE
    };
    let mut rewritten_bytes = 0.0;
    let mut chosen = Vec::new();
    for candidate in candidates.iter().take_while(is_worth_it).take(choice.options.files_merged_max) {
        let with_it_bytes = rewritten_bytes + candidate.needed_bytes();
        if !chosen.is_empty() && with_it_bytes > now.needed_bytes * REWRITTEN_PART {
            break;
        }
        rewritten_bytes = with_it_bytes;
        chosen.push(candidate);
    }
    let length_bytes: f64 = chosen.iter().map(|candidate| candidate.length_bytes).sum();
    let step = Step { rewritten_bytes, needed_part: rewritten_bytes / length_bytes.max(1.0) };
    let begins = now.should_begin(&step, &choice.load);
    plan(chosen.into_iter().filter(|_| begins), CompactionReason::MostGarbage)
}

/// Small files, if there are many.
fn small(choice: &Choice<'_>, candidates: &[Candidate<'_>]) -> Option<Plan> {
    let usual_bytes = choice.options.table_file_bytes.min(choice.memtable_bytes);
    let is_small = |candidate: &&Candidate<'_>| {
        candidate.length_bytes < usual_bytes as f64 * SMALL_PART
            && (candidate.file.entries as f64) < entries_max(usual_bytes) as f64 * SMALL_PART
    };
    let no_larger = choice.candidates.no_larger();
    let is_worth_it = |candidate: &&Candidate<'_>| is_small(candidate) && !no_larger.contains(&candidate.number);
    let mut small: Vec<&Candidate<'_>> = candidates.iter().filter(is_worth_it).collect();
    small.sort_by(|a, b| a.length_bytes.total_cmp(&b.length_bytes));
    let many = SMALL_FILES_MERGED.min(choice.options.files_merged_max);
    (many > 1 && small.len() >= many)
        .then(|| plan(small.into_iter().take(many), CompactionReason::SmallFiles))
        .flatten()
}

/// Overlapping files that scans turn between. Only if there is space to have them twice for a while, and still to begin
/// collecting garbage in time.
fn out_of_order(choice: &Choice<'_>, candidates: &[Candidate<'_>], needed_bytes: f64) -> Option<Plan> {
    let sought = choice.candidates.sought();
    let sought: Vec<&Candidate<'_>> =
        candidates.iter().filter(|candidate| sought.contains(&candidate.number)).collect();
    let files = sought.iter().map(|candidate| candidate.file);
    let merged = overlaps::most_overlapping(choice.order, files, choice.options.files_merged_max)?;
    let meanwhile = if choice.load.is_at_rest { 0.0 } else { BYTES_MEANWHILE };
    let for_garbage_bytes = garbage_bytes(candidates) + meanwhile * needed_bytes * REWRITTEN_PART;
    let mut left_bytes = (garbage_bytes_max(choice, needed_bytes) - for_garbage_bytes).min(choice.load.order_bytes_max);
    let has_space = |candidate: &&Candidate<'_>| {
        left_bytes -= candidate.needed_bytes();
        left_bytes >= 0.0
    };
    let chosen: Vec<&Candidate<'_>> = merged.into_iter().map(|at| sought[at]).take_while(has_space).collect();
    if chosen.len() > 1 { plan(chosen.into_iter(), CompactionReason::Order) } else { None }
}

#[cfg(test)]
mod tests {
    use slmdb_manifest::{MediumKind, MediumRecord, StoreState};

    use slmdb_order::KeyOrder;

    use super::*;
    use crate::compaction::controller::Load;
    use crate::selection::candidate_list::Candidates;
    use crate::selection::candidate_source::Source;
    use slmdb_engine::{CompactionOptions, Options};

    /// Table files of 1000 bytes and 100 entries, each with so many live ones.
    fn store(live: &[u64]) -> StoreState {
        let record =
            |live: u64| FileRecord { length_bytes: 1000, entries: 100, live_keys: live, ..FileRecord::default() };
        let files = live.iter().enumerate().map(|(at, &live)| (at as u32 + 1, record(live))).collect();
        let kind = MediumKind::Dram;
        let medium = MediumRecord { kind, pool_path: None, pool_uuid: None, boot_id: [0; 16] };
        StoreState { files, ..StoreState::new([1; 16], "slm", "bytewise", medium) }
    }

    fn picked(state: &StoreState, busy: &[u32]) -> Option<Vec<u32>> {
        picked_of_sought(state, busy, &[])
    }

    fn picked_of_sought(state: &StoreState, busy: &[u32], sought: &[u32]) -> Option<Vec<u32>> {
        let load = Load { order_bytes_max: f64::INFINITY, ..Load::default() };
        picked_under(state, busy, sought, load)
    }

    fn picked_under(state: &StoreState, busy: &[u32], sought: &[u32], load: Load) -> Option<Vec<u32>> {
        let options = CompactionOptions { table_file_bytes: 1000, ..CompactionOptions::default() };
        let is_free = |number: u32| !busy.contains(&number);
        let running = busy.iter().copied().collect();
        let (options, deletes_droppable_through) = (&options, 0);
        let candidates = Candidates::new(&Options::default(), &[]);
        candidates.name(sought.iter().copied(), Source::Seeks);
        let choice = Choice {
            options,
            state,
            order: &KeyOrder::Bytewise,
            candidates: &candidates,
            is_free: &is_free,
            running: &running,
            deletes_droppable_through,
            memtable_bytes: 1000,
            load,
            coming_bytes: 0.0,
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
        assert_eq!(inputs.len(), needed / 64 / 60, "a 64th of what is needed, in files of 60");
    }

    /// What they write stands beside their inputs.
    #[test]
    fn several_at_once_rewrite_no_more_than_an_eighth_of_the_store() {
        let few = store(&[50; 12]);
        let first = picked(&few, &[]).expect("far over the bound");
        assert_eq!(first.len(), 1, "a file is more than a 64th");
        assert_eq!(picked(&few, &first), None, "two would be a sixth of the store");
        let more = store(&[50; 16]);
        assert!(picked(&more, &[1]).is_some(), "two are an eighth");
        assert_eq!(picked(&more, &[1, 2]), None);
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

    /// Files 1 to 8 have all keys from a to z, 9 to 40 a key each.
    fn disordered(live: u64) -> StoreState {
        let mut state = store(&[live; 40]);
        for (number, file) in &mut state.files {
            let range =
                if *number > 8 { (format!("f{number}"), format!("f{number}")) } else { ("a".into(), "z".into()) };
            (file.smallest_key, file.largest_key) = (range.0.into(), range.1.into());
        }
        state
    }

    #[test]
    fn files_that_overlap_are_merged_where_scans_pay_for_it() {
        let state = disordered(100);
        assert_eq!(picked(&state, &[]), None, "nobody scans");
        assert_eq!(picked_of_sought(&state, &[], &[3]), None, "the others have not paid");
        let picked = |busy: &[u32], sought: &[u32]| {
            let mut inputs = picked_of_sought(&state, busy, sought).unwrap_or_default();
            inputs.sort_unstable();
            inputs
        };
        assert_eq!(picked(&[], &[2, 3, 5]), [2, 3, 5]);
        assert_eq!(picked(&[5], &[2, 3, 5]), [2, 3]);
        assert_eq!(picked(&[], &[9, 10, 11]), [], "no two of them overlap");
        assert_eq!(picked(&[], &[3, 9, 10]), [3, 9, 10]);
    }

    #[test]
    fn order_takes_no_more_space_than_garbage_leaves() {
        // With 0.4 of 40 files for garbage, of which a compaction for garbage takes 3 of 32.
        let all: Vec<u32> = (1..=40).collect();
        let merged = |state: &StoreState| picked_of_sought(state, &[], &all).map_or(0, |inputs| inputs.len());
        assert_eq!(merged(&disordered(100)), 10, "as many as are merged at once");
        let with_garbage = |live| {
            let mut state = disordered(100);
            state.files.values_mut().skip(8).for_each(|file| file.live_keys = live);
            merged(&state)
        };
        assert_eq!(with_garbage(80), 3, "6.4 files are garbage, of 0.4 of 33.6, less 3 of 32 of those");
        assert_eq!(with_garbage(75), 0, "there is space for one, which is no merge");
    }

    /// Garbage of a quarter was left in a store at rest, and no space for order beside it, however its ranges suffered.
    #[test]
    fn a_store_at_rest_keeps_no_space_for_garbage_to_come() {
        let mut state = disordered(100);
        state.files.values_mut().skip(8).for_each(|file| file.live_keys = 75);
        let all: Vec<u32> = (1..=40).collect();
        let merged = |is_at_rest| {
            let load = Load { is_at_rest, order_bytes_max: f64::INFINITY, ..Load::default() };
            picked_under(&state, &[], &all, load).map_or(0, |inputs| inputs.len())
        };
        assert_eq!((merged(false), merged(true)), (0, 4), "8 files are garbage, of 0.4 of 32");
    }

    #[test]
    fn order_is_restored_as_far_as_writers_leave_time() {
        let all: Vec<u32> = (1..=40).collect();
        let merged = |order_bytes_max| {
            let load = Load { order_bytes_max, ..Load::default() };
            picked_under(&disordered(100), &[], &all, load).map_or(0, |inputs| inputs.len())
        };
        assert_eq!([0.0, 1999.0, 3500.0, 1e9].map(merged), [0, 0, 3, 10], "files of 1000 bytes");
    }
}
