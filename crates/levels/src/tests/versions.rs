//! Versions and changes: what is refused, what the MANIFEST is told, and when a run may go.

use std::ops::Bound;
use std::sync::Arc;

use slmdb_engine::LevelStats;
use slmdb_engine::files::obsolete_files::PinnedFiles;
use slmdb_manifest::{FileRecord, MediumKind, MediumRecord, StoreState};
use slmdb_order::KeyOrder;
use slmdb_table::EntryKind;

use super::memory_run::MemoryRun;
use super::merging::entry;
use crate::version_order::find_newer_below_older;
use crate::{Approximation, Change, LevelOptions, Levels, LevelsCursor, Run, RunRecord, Version, edit_of, level_stats};

/// A run with these keys, of which the first version has this number.
fn run(number: u32, sequence: u64, keys: &[&str]) -> Arc<MemoryRun> {
    let entries = keys.iter().zip(sequence..).map(|(key, sequence)| entry(key, sequence, Some("value")));
    Arc::new(MemoryRun::new(number, &KeyOrder::Bytewise, entries.collect()))
}

fn version(runs: Vec<(u8, Arc<MemoryRun>)>) -> Result<Version<MemoryRun>, String> {
    Version::new(KeyOrder::Bytewise, runs)
}

#[test]
fn a_newer_version_below_an_older_one_is_found() {
    let found = |runs| find_newer_below_older(&version(runs).unwrap()).unwrap();
    let (old, new, other) = (run(1, 1, &["a", "c"]), run(2, 9, &["a"]), run(3, 5, &["b"]));
    assert_eq!(found(vec![(0, new.clone()), (0, old.clone()), (1, other.clone())]), None);
    assert_eq!(found(vec![(1, new.clone()), (1, other.clone()), (2, old.clone())]), None);
    let told = found(vec![(1, old.clone()), (2, other), (3, new.clone())]).unwrap();
    assert_eq!(told, "key a: sequence number 1 on level 1 lies above the newer 9 on level 3");
    assert!(found(vec![(0, old), (6, new)]).is_some());
}

#[test]
fn runs_that_contradict_each_other_are_refused() {
    let refused = |runs| version(runs).err().unwrap_or_default();
    assert_eq!(refused(vec![(1, run(1, 1, &["a", "c"])), (1, run(2, 5, &["d"]))]), "");
    // A key whose versions are in two runs is torn apart (LevelDB, issue 320).
    assert_eq!(
        refused(vec![(1, run(1, 1, &["a", "c"])), (1, run(2, 5, &["c", "d"]))]),
        "runs 1 and 2 overlap on level 1"
    );
    assert_eq!(refused(vec![(1, run(1, 1, &["a", "c"])), (2, run(1, 1, &["a", "c"]))]), "run 1 is there twice");
    assert_eq!(refused(vec![(7, run(1, 1, &["a"]))]), "run 1 on level 7");
    assert_eq!(
        refused(vec![(0, run(1, 1, &["a", "c"])), (0, run(3, 9, &["a"])), (0, run(2, 1, &["c", "z"]))]),
        "runs 2 and 1 overlap on level 0"
    );
    let of_range = vec![(0, run(1, 1, &["a", "c"])), (0, run(2, 2, &["b"])), (0, run(3, 2, &["bb"]))];
    assert_eq!(refused(of_range), "", "the deletes that a range comes to have one number");
    assert_eq!(refused(vec![(0, run(1, 1, &["a", "c"])), (0, run(2, 2, &["x", "z"]))]), "", "parts of one run");
    let upside_down = RunRecord { largest_key: b"0"[..].into(), ..run(1, 1, &["a"]).record().clone() };
    assert_eq!(refused(vec![(2, Arc::new(MemoryRun::bare(1, upside_down)))]), "run 1 on level 2 ends before it begins");
    let levels = Levels::open(LevelOptions::default(), KeyOrder::Bytewise, [(1, run(1, 1, &["a"]))]).unwrap();
    let change = Change { removed: vec![run(2, 1, &["a"])], ..Change::default() };
    let wanted = Err("run 2 leaves its level, but is on none".to_string());
    assert_eq!(levels.check(&change), wanted);
    assert_eq!(levels.apply(&change).map(|_| ()), wanted);
    assert_eq!(levels.current().runs().count(), 1);
}

#[test]
fn what_levels_have_is_counted_in_files_and_in_the_pool() {
    let in_pool = |number, sequence, keys: &[&str]| {
        let run = run(number, sequence, keys);
        Arc::new(Arc::into_inner(run).unwrap().not_a_file())
    };
    let runs = vec![
        (0, in_pool(1, 90, &["b", "y"])),
        (0, in_pool(2, 80, &["k"])),
        (2, run(3, 1, &["a", "c"])),
        (2, in_pool(4, 10, &["i"])),
    ];
    let each = "kvalue".len() as u64;
    let level = |runs, entries, in_pool| LevelStats { runs, bytes: entries * each, bytes_in_pool: in_pool * each };
    assert_eq!(level_stats(&version(runs).unwrap()), [level(2, 3, 3), level(0, 0, 0), level(2, 3, 1)]);
    assert_eq!(level_stats(&version(Vec::new()).unwrap()), []);
}

#[test]
fn what_a_range_has_is_found_out_from_bounds() {
    let runs = vec![
        (0, run(1, 90, &["b", "y"])),
        (0, run(2, 80, &["k"])),
        (1, run(3, 1, &["a", "c", "e", "g"])),
        (1, run(4, 10, &["i", "k"])),
        (3, run(5, 20, &["f", "m"])),
    ];
    let version = version(runs).unwrap();
    let numbers = |level, range| version.overlapping(level, range).iter().map(|run| run.number()).collect::<Vec<_>>();
    let (from, to) =
        (|key: &'static str| Bound::Included(key.as_bytes()), |key: &'static str| Bound::Excluded(key.as_bytes()));
    assert_eq!(numbers(0, (from("c"), to("k"))), [1]);
    assert_eq!(numbers(0, (from("c"), from("k"))), [1, 2]);
    assert_eq!(numbers(1, (from("g"), to("i"))), [3]);
    assert_eq!(numbers(1, (to("g"), from("i"))), [4]);
    assert_eq!(numbers(1, (from("h"), to("i"))), [0; 0]);
    assert_eq!(numbers(1, (from("k"), from("a"))), [0; 0]);
    assert_eq!(version.deepest_level((Bound::Unbounded, Bound::Unbounded)), Some(3));
    assert_eq!(version.deepest_level((from("a"), to("f"))), Some(1));
    assert_eq!(version.deepest_level((from("z"), Bound::Unbounded)), None);
    assert!(!version.is_base(1, b"g") && version.is_base(1, b"n") && version.is_base(3, b"g"));
    assert!(!version.is_base(0, b"c") && version.is_base(0, b"n") && version.is_base(6, b"a"));
    let of = |range| version.approximate(range).unwrap();
    assert_eq!(of((Bound::Unbounded, to("g"))).entries, 1 + 3 + 1);
    assert_eq!(of((Bound::Unbounded, to("zz"))).entries, 11);
    assert_eq!(of((Bound::Unbounded, Bound::Unbounded)), Approximation { entries: 11, bytes: 66 });
    assert_eq!(of((from("c"), to("g"))), Approximation { entries: 3, bytes: 18 });
    assert_eq!(of((from("g"), to("c"))), Approximation::default());
    assert_eq!([from("g"), to("g")].map(|to| of((from("g"), to)).entries), [1, 0]);
    assert_eq!([from("g"), to("g")].map(|to| of((Bound::Excluded(&b"f"[..]), to)).entries), [1, 0]);
    assert_eq!(of((to("g"), from("g"))).entries, 0);
    let found = version.get(b"k", 1000).unwrap().unwrap();
    assert_eq!((found.kind, found.sequence, &found.value[..]), (EntryKind::Put, 80, &b"value"[..]));
    assert_eq!(version.get(b"k", 79).unwrap().map(|found| found.sequence), Some(11));
    assert_eq!(version.get(b"k", 10).unwrap(), None);
}

/// The MANIFEST applies what a change says, and has the same runs then.
#[test]
fn a_change_is_an_edit_of_the_manifest() {
    let medium = MediumRecord { kind: MediumKind::Dram, pool_path: None, pool_uuid: None, boot_id: [0; 16] };
    let mut state = StoreState::new([1; 16], "lab", "bytewise", medium);
    let levels = Levels::open(LevelOptions::default(), KeyOrder::Bytewise, []).unwrap();
    let (first, second, third) = (run(1, 1, &["a", "c"]), run(2, 9, &["d"]), run(3, 20, &["a", "x"]));
    let list = Arc::new(MemoryRun::new(4, &KeyOrder::Bytewise, vec![entry("l", 50, None)]).not_a_file());
    let changes = [
        Change { added: vec![(1, first.clone()), (1, second.clone()), (0, list.clone())], ..Change::default() },
        Change { moved: vec![(first, 3), (list.clone(), 1)], ..Change::default() },
        Change { removed: vec![second, list], added: vec![(2, third)], ..Change::default() },
    ];
    for change in changes {
        state.apply(&slmdb_manifest::Edit { next_file_number: Some(5), ..edit_of(&change) }).unwrap();
        let version = levels.apply(&change).unwrap();
        let files = state.files.iter().map(|(&number, file)| (number, file.level, RunRecord::from(file)));
        let mut runs: Vec<_> = version.runs().filter(|(_, run)| run.is_file()).collect();
        runs.sort_by_key(|(_, run)| run.number());
        let runs = runs.into_iter().map(|(level, run)| (run.number(), level, run.record().clone()));
        assert_eq!(files.collect::<Vec<_>>(), runs.collect::<Vec<_>>());
    }
    let file: &FileRecord = &state.files[&3];
    assert_eq!((file.level, file.entries, file.live_keys, file.created_unix_ns), (2, 2, 0, 7));
    assert!(!state.files.contains_key(&4));
}

/// A run goes after its last reader, whoever that is.
#[test]
fn a_removed_run_is_pinned_until_nobody_has_it() {
    let levels = Levels::open(LevelOptions::default(), KeyOrder::Bytewise, []).unwrap();
    let runs = vec![(1, run(1, 1, &["a"])), (1, run(2, 2, &["b"])), (1, run(3, 3, &["c"]))];
    levels.apply(&Change { added: runs, ..Change::default() }).unwrap();
    let mut cursor = LevelsCursor::new(levels.current(), 100);
    cursor.seek(b"b").unwrap();
    let held = levels.current();
    let change = Change { removed: vec![held.level(1)[1].clone()], ..Change::default() };
    drop(held);
    levels.apply(&change).unwrap();
    drop(change);
    assert!(levels.pins(2) && !levels.pins(1));
    assert_eq!((levels.pinned(), cursor.key()), (vec![2], &b"b"[..]));
    // The cursor turns to a version without it, and moves on.
    cursor.turn_to(levels.current()).unwrap();
    assert_eq!(cursor.key(), b"c");
    assert!(!levels.pins(2));
    assert_eq!(levels.pinned(), [0; 0]);
}

/// A cursor whose key is gone moves on as it moved last.
#[test]
fn a_cursor_turns_in_its_direction() {
    let turned = |go: &dyn Fn(&mut LevelsCursor<MemoryRun>)| {
        let runs = || vec![(1, run(1, 1, &["a"])), (1, run(2, 2, &["b"])), (1, run(3, 3, &["c"]))];
        let mut cursor = LevelsCursor::new(Arc::new(version(runs()).unwrap()), 100);
        go(&mut cursor);
        assert_eq!(cursor.key(), b"b");
        let left = runs().into_iter().filter(|(_, run)| run.number() != 2).collect();
        cursor.turn_to(Arc::new(version(left).unwrap())).unwrap();
        cursor.key().to_vec()
    };
    assert_eq!(turned(&|cursor| cursor.seek(b"b").unwrap()), b"c");
    assert_eq!(turned(&|cursor| cursor.seek_before(b"c").unwrap()), b"a");
}
