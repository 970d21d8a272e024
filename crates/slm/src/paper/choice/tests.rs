use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use slmdb_engine::{CompactionOptions, CompactionPolicy, Options};
use slmdb_manifest::{MediumKind, MediumRecord, StoreState};
use slmdb_order::{Comparator, KeyOrder};

use crate::compaction::controller::Load;
use crate::paper::PaperPolicy;
use crate::paper::choice::*;
use crate::selection::file_notes::FileNotes;

/// Number, smallest and largest key, live entries of 10.
type File = (u32, &'static str, &'static str, u64);

struct Case {
    state: StoreState,
    options: Options,
}

/// The order of bytes; counts what it is asked.
#[derive(Debug, Default, Clone)]
struct Counting(Arc<AtomicU64>);

impl Comparator for Counting {
    fn name(&self) -> &str {
        "counting"
    }

    fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        self.0.fetch_add(1, Relaxed);
        left.cmp(right)
    }
}

/// A store in which these files are on the list.
fn listed(files: &[File]) -> Case {
    let medium = MediumRecord { kind: MediumKind::Dram, pool_path: None, pool_uuid: None, boot_id: [0; 16] };
    let mut state = StoreState::new([1; 16], "slm", "bytewise", medium);
    for &(number, smallest_key, largest_key, live) in files {
        let (smallest_key, largest_key) = (smallest_key.into(), largest_key.into());
        let record = FileRecord {
            length_bytes: 1000,
            entries: 10,
            deletes: 0,
            live_keys: live,
            smallest_key,
            largest_key,
            lowest_sequence: 1,
            highest_sequence: 10,
            created_unix_ns: 0,
            level: 0,
        };
        state.files.insert(number, record);
    }
    let compaction = CompactionOptions { policy: CompactionPolicy::Paper, ..CompactionOptions::default() };
    Case { state, options: Options { compaction, ..Options::default() } }
}

impl Case {
    fn merging(mut self, files_merged_max: usize) -> Case {
        self.options.compaction.files_merged_max = files_merged_max;
        self
    }

    fn pick_but(&self, busy: &[u32]) -> Vec<u32> {
        self.pick_in(&KeyOrder::Bytewise, busy)
    }

    fn pick_in(&self, order: &KeyOrder, busy: &[u32]) -> Vec<u32> {
        let is_free = |number: u32| !busy.contains(&number);
        let listed: Vec<u32> = self.state.files.keys().copied().collect();
        let policy = PaperPolicy::chosen(&self.options, &listed, &Arc::default()).expect("it is chosen");
        let choice = Choice {
            running: &std::collections::BTreeSet::new(),
            options: &self.options.compaction,
            state: &self.state,
            order,
            notes: &FileNotes::default(),
            is_free: &is_free,
            deletes_droppable_through: 0,
            memtable_bytes: 1000,
            load: Load::default(),
            coming_bytes: 0.0,
        };
        policy.pick(&choice).map_or(Vec::new(), |plan| plan.inputs)
    }

    fn pick(&self) -> Vec<u32> {
        self.pick_but(&[])
    }
}

#[test]
fn the_file_that_overlaps_the_others_most_is_merged_with_those() {
    // 3 overlaps 1, 2 and 4; 5 overlaps 6 alone, more than any other two.
    let files =
        [(1, "a", "d", 9), (2, "c", "g", 9), (3, "b", "j", 9), (4, "h", "k", 9), (5, "p", "q", 9), (6, "p", "q", 9)];
    let case = listed(&files);
    assert_eq!(case.pick(), [5, 6], "their ratio is 1, and 3's are not so much together");
    assert_eq!(case.pick_but(&[6]), [3, 2, 1, 4], "in the order of their ratios");
    assert_eq!(case.merging(3).pick_but(&[6]), [3, 2, 1], "those that overlap it most");
}

#[test]
fn what_overlaps_the_chosen_file_alone_is_taken() {
    // 2 overlaps 1 and 3, which do not overlap each other; 4 is somewhere else.
    let case = listed(&[(1, "a", "f", 9), (2, "d", "k", 9), (3, "i", "n", 9), (4, "x", "z", 9)]);
    let mut picked = case.pick();
    picked.sort_unstable();
    assert_eq!(picked, [1, 2, 3]);
}

#[test]
fn garbage_that_overlaps_nothing_is_collected_too() {
    let case = listed(&[(1, "a", "b", 6), (2, "c", "d", 5), (3, "e", "f", 9)]);
    assert_eq!(case.pick(), [2], "most garbage first");
    assert_eq!(case.pick_but(&[2]), [1]);
    assert_eq!(case.pick_but(&[1, 2]), [], "nothing would be gained from 3");
}

#[test]
fn files_with_nothing_that_is_needed_go_first() {
    let files = [(1, "a", "b", 0), (2, "c", "m", 9), (3, "c", "m", 9), (4, "x", "z", 0)];
    assert_eq!(listed(&files).pick(), [1, 4]);
    assert_eq!(listed(&files).merging(1).pick(), [1]);
}

#[test]
fn an_ordered_store_without_garbage_is_left_alone() {
    assert_eq!(listed(&[]).pick(), []);
    assert_eq!(listed(&[(1, "a", "b", 10), (2, "c", "d", 10), (3, "d", "e", 10)]).pick(), []);
    assert_eq!(listed(&[(1, "a", "z", 10), (2, "a", "z", 10)]).merging(1).pick(), [], "one file alone is no merge");
}

/// The authors' published code stops writers at 35 candidates.
#[test]
fn a_list_of_thousands_is_chosen_from_as_soon() {
    let case = listed(&[(1, "a", "z", 10)]);
    let mut state = case.state.clone();
    let file = state.files[&1].clone();
    for number in 2..10_000 {
        state.files.insert(number, file.clone());
    }
    // Not one of these overlaps another; there are as many as are compared, and more, with smaller numbers and keys.
    for number in 10_000..11_000 {
        let key = format!("A{number}").into_bytes();
        let ordered = FileRecord { smallest_key: key.clone(), largest_key: key, ..file.clone() };
        state.files.insert(number, ordered);
    }
    let many = Case { state, options: case.options.clone() };
    let counting = Counting::default();
    let picked = many.pick_in(&KeyOrder::Custom(Arc::new(counting.clone())), &[]);
    assert_eq!(picked.len(), case.options.compaction.files_merged_max);
    assert!(picked.iter().all(|number| *number < 10_000), "{picked:?}");
    let (comparisons, files) = (counting.0.load(Relaxed), many.state.files.len() as u64);
    assert!(comparisons < 100 * files, "{comparisons} comparisons for {files} files");
}
