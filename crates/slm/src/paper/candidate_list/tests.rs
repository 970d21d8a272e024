use std::sync::Arc;

use slmdb_engine::{CompactionPolicy, Options};
use slmdb_manifest::{MediumKind, MediumRecord};

use crate::compaction::plan::{CompactionReason, Plan};
use crate::manifest_section::Section;
use crate::paper::PaperPolicy;
use crate::paper::candidate_list::*;
use crate::selection::file_notes::FileNotes;

/// A file of 10 entries, so many of them live.
fn file(live: u64) -> FileRecord {
    FileRecord {
        length_bytes: 1000,
        entries: 10,
        deletes: 0,
        live_keys: live,
        smallest_key: b"a".to_vec(),
        largest_key: b"b".to_vec(),
        lowest_sequence: 1,
        highest_sequence: 10,
        created_unix_ns: 0,
        level: 0,
    }
}

/// A store of these files.
fn state(files: &[(u32, FileRecord)]) -> StoreState {
    let medium = MediumRecord { kind: MediumKind::Dram, pool_path: None, pool_uuid: None, boot_id: [0; 16] };
    let files = files.iter().cloned().collect();
    StoreState { files, next_file_number: 100, ..StoreState::new([1; 16], "slm", "bytewise", medium) }
}

fn paper() -> CompactionOptions {
    CompactionOptions { policy: CompactionPolicy::Paper, ..CompactionOptions::default() }
}

fn chosen(compaction: CompactionOptions, state: &StoreState) -> Option<PaperPolicy> {
    PaperPolicy::chosen(
        &Options { compaction, ..Options::default() },
        &Section::of(state).unwrap().candidates,
        &Arc::default(),
    )
}

fn with(compaction: CompactionOptions, state: &StoreState) -> Candidates {
    chosen(compaction, state).expect("it is chosen").candidates
}

fn numbers(candidates: &Candidates) -> Vec<u32> {
    candidates.listed().into_keys().collect()
}

/// The candidates that a record of the MANIFEST has.
fn written(edit: &Edit) -> Option<Vec<u32>> {
    let numbers = edit.engine_section.get(&CANDIDATES)?.chunks_exact(4);
    Some(numbers.map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap())).collect())
}

/// What the list is after a flush that has superseded so many entries of files 1 and 2, and added file 3 with two live.
fn after_a_flush(compaction: CompactionOptions, changes: [i64; 2]) -> (Vec<u32>, Option<Vec<u32>>) {
    let state = state(&[(1, file(10)), (2, file(10))]);
    let candidates = with(compaction, &state);
    let mut edit = Edit {
        files_added: vec![(3, file(2))],
        live_changes: vec![(1, changes[0]), (2, changes[1])],
        ..Edit::default()
    };
    candidates.before_commit(&state, &mut edit, 0);
    candidates.after_commit(&edit, true);
    (numbers(&candidates), written(&edit))
}

#[test]
fn files_below_the_live_key_threshold_are_named() {
    let below = |live_key_threshold: f64, changes| {
        let compaction = CompactionOptions { live_key_threshold, ..paper() };
        let (listed, written) = after_a_flush(compaction, changes);
        assert_eq!(written.as_ref(), Some(&listed), "the list goes with the record that is written anyway");
        listed
    };
    // The paper tries 0.6, 0.7 and 0.8 (section 6.5).
    assert_eq!(below(0.6, [-3, -4]), [3]);
    assert_eq!(below(0.7, [-3, -4]), [2, 3]);
    assert_eq!(below(0.8, [-3, -4]), [1, 2, 3]);
    let off = CompactionOptions { live_key_ratio: false, ..paper() };
    assert_eq!(after_a_flush(off, [-9, -9]), (vec![], None));
}

#[test]
fn nothing_of_it_is_there_unless_it_is_chosen() {
    let state = state(&[(1, file(1))]);
    for policy in [CompactionPolicy::GarbageFirst, CompactionPolicy::Manual] {
        assert!(chosen(CompactionOptions { policy, ..paper() }, &state).is_none(), "{policy:?}");
    }
    let options = Options { compaction: paper(), read_only: true, ..Options::default() };
    assert!(PaperPolicy::chosen(&options, &[], &Arc::default()).is_none());
    let watches = |range_queries| {
        let policy = chosen(CompactionOptions { range_queries, ..paper() }, &state);
        policy.is_some_and(|policy| policy.range_query().is_some())
    };
    assert_eq!((watches(true), watches(false)), (true, false));
}

#[test]
fn the_list_survives_in_the_manifest_and_loses_files_that_go() {
    let mut state = state(&[(1, file(10)), (2, file(10)), (3, file(1))]);
    Section { candidates: vec![1, 2], ..Section::default() }.write_to(&mut state);
    let candidates = with(paper(), &state);
    assert_eq!(candidates.listed(), BTreeMap::from([(1, Source::Manifest), (2, Source::Manifest)]));
    let mut edit = Edit { files_removed: vec![1], ..Edit::default() };
    candidates.before_commit(&state, &mut edit, 0);
    assert_eq!(written(&edit), None, "removed files count no more, whatever the MANIFEST's list has");
    candidates.after_commit(&edit, true);
    assert_eq!(numbers(&candidates), [2]);
    candidates.refresh(&state, 0);
    assert_eq!(numbers(&candidates), [2, 3], "at the opening all live-key ratios are looked at");
    let mut edit = Edit::default();
    candidates.before_commit(&state, &mut edit, 0);
    assert_eq!(written(&edit), Some(vec![2, 3]));
    candidates.after_commit(&edit, false);
    let mut again = Edit::default();
    candidates.before_commit(&state, &mut again, 0);
    assert_eq!(written(&again), Some(vec![2, 3]), "what was not written is written with the next record");
    candidates.after_commit(&again, true);
    let mut nothing_new = Edit::default();
    candidates.before_commit(&state, &mut nothing_new, 0);
    assert_eq!(written(&nothing_new), None);
}

#[test]
fn what_is_no_file_of_the_store_is_neither_written_nor_kept() {
    let state = state(&[(1, file(10))]);
    let candidates = with(paper(), &state);
    candidates.list.lock().add([1, 50], Source::RangeQuery);
    let mut edit = Edit::default();
    candidates.before_commit(&state, &mut edit, 0);
    assert_eq!(written(&edit), Some(vec![1]));
    candidates.refresh(&state, 0);
    assert_eq!(numbers(&candidates), [1]);
}

#[test]
fn deletes_are_garbage_once_checkpoints_cover_them() {
    let deletes = FileRecord { deletes: 6, ..file(4) };
    let state = state(&[(1, deletes)]);
    let candidates = with(paper(), &state);
    candidates.refresh(&state, 0);
    assert_eq!(numbers(&candidates), []);
    candidates.refresh(&state, 10);
    assert_eq!(numbers(&candidates), [1]);
}

#[test]
fn what_a_compaction_wrote_and_gained_is_told_of_each_source() {
    let state = state(&[(1, file(10)), (2, file(5)), (3, file(0))]);
    let (policy, notes) = (chosen(paper(), &state).expect("it is chosen"), FileNotes::default());
    let candidates = &policy.candidates;
    candidates.refresh(&state, 0);
    candidates.list.lock().add([1, 2], Source::Seeks);
    let taken = candidates.take(&[1, 2, 3], &state, 0);
    let plan = Plan { inputs: vec![1, 2, 3], reason: CompactionReason::SmallFiles };
    let compacted = |bytes_written, has_given_way| {
        let made = CompactionResult { files: vec![4], input_bytes: 3000, bytes_written, has_given_way };
        candidates.compacted(&taken, &made);
        notes.compacted(&plan, &made);
        let mut choices = notes.choices();
        policy.count(&mut choices);
        choices
    };
    let choices = compacted(1500, false);
    assert!(notes.no_larger().is_empty(), "of three one was made");
    let chosen = |of: Chosen| (of.candidates, of.files, of.rewritten_bytes, of.gained_bytes);
    assert_eq!(chosen(choices.by_seeks), (1, 1, 1000, 0), "file 2 was named before");
    assert_eq!(chosen(choices.by_live_key_ratio), (2, 2, 500, 1500));
    assert_eq!(chosen(choices.all), (3, 3, 1500, 1500));
    assert_eq!(chosen(choices.by_range_queries), (0, 0, 0, 0));
    let choices = compacted(150, true);
    assert_eq!(chosen(choices.by_seeks), (1, 1, 1100, 0), "what gave way to writers has its inputs still to merge");
    assert_eq!(chosen(choices.all), (3, 3, 1650, 1500));
}
