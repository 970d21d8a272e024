//! Levels of table files: merges of real files, read back, and what is left of merges that fail.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use proptest::prelude::*;
use slmdb_engine::MapTables;
use slmdb_order::KeyOrder;
use slmdb_testkit::{Failure, Repeat};

use super::cursors::Backwards;
use super::merging::{Step, key, steps};
use super::table_store::{TableStore, Writes};
use crate::{LevelOptions, MergeError, Picked, Plan, Run, TableRun, Version, runs_of, window_bytes};

/// Some values become longer than a block.
fn with_long_values(writes: Writes) -> Writes {
    let longer = |value: Vec<u8>| if value.len() > 8 { value.repeat(60) } else { value };
    writes.into_iter().map(|(key, value)| (key, value.map(longer))).collect()
}

fn take(store: &mut TableStore, step: Step) {
    let range = |from: u8, to: u8| (key(from), key(to));
    match step {
        Step::Flush(writes) | Step::Inflow(writes) => store.flush(with_long_values(writes)),
        Step::Pick { may_move } => {
            if let Some(plan) = store.levels.pick(&|_| true) {
                store.compact(plan, may_move);
            }
        }
        Step::Range { level, from, to } => {
            let (from, to) = range(from, to);
            let range = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
            while let Picked::Plan(plan) = store.levels.plan_range(level, range) {
                store.compact(plan, false);
            }
        }
        Step::Rewrite { level, from, to } => {
            let (from, to) = range(from, to);
            if let Picked::Plan(plan) =
                store.levels.plan_rewrite(level, (Bound::Included(&from[..]), Bound::Included(&to[..])))
            {
                store.compact(plan, false);
            }
        }
        Step::Snapshot => _ = store.moments.insert(store.sequence),
        Step::Release(which) => {
            let moment = store.moments.iter().nth(which.index(store.moments.len().max(1))).copied();
            moment.map(|moment| store.moments.remove(&moment));
        }
    }
}

fn check_steps(order: KeyOrder, map_tables: MapTables, steps: Vec<Step>) {
    let options = LevelOptions { growth: 2, level_0_runs: 2, ..LevelOptions::with_run_bytes(2000, 1000) };
    let mut store = TableStore::new(order, map_tables, 64, options);
    for step in steps {
        take(&mut store, step);
        store.check();
    }
    store.open_again();
    store.check();
    assert_eq!(store.tables.are_mapped(), map_tables == MapTables::Auto);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is merged and moved, every moment sees what it saw, in files that are read and in mapped ones.
    #[test]
    fn every_moment_sees_what_it_saw_in_table_files(steps in steps(), is_mapped in any::<bool>()) {
        check_steps(KeyOrder::Bytewise, if is_mapped { MapTables::Auto } else { MapTables::Never }, steps);
    }

    #[test]
    fn every_moment_sees_what_it_saw_under_a_comparator(steps in steps()) {
        check_steps(KeyOrder::Custom(Arc::new(Backwards)), MapTables::Never, steps);
    }
}

fn key_of(number: u32) -> Vec<u8> {
    format!("key{number:06}").into_bytes()
}

fn value_of(number: u32, round: u32) -> Vec<u8> {
    let length = if number.is_multiple_of(50) { 9000 } else { 40 + number as usize % 60 };
    (0..length as u32).map(|at| (at.wrapping_mul(number + round + 1) >> 5) as u8).collect()
}

/// Four files of level 0: puts and deletes of the same keys, newer and newer.
fn with_four_files(keys: u32, run_bytes: u64) -> TableStore {
    let options = LevelOptions::with_run_bytes(1 << 30, run_bytes);
    let mut store = TableStore::new(KeyOrder::Bytewise, MapTables::Never, 1024, options);
    for round in 0..4 {
        let numbers = (0..keys).filter(|number| !(number + round).is_multiple_of(3));
        let value = |number: u32| (!(number + round).is_multiple_of(7)).then(|| value_of(number, round));
        store.flush(numbers.map(|number| (key_of(number), value(number))).collect());
        if round % 2 == 0 {
            store.moments.insert(store.sequence);
        }
    }
    store
}

fn plan_all(store: &TableStore) -> Plan<TableRun> {
    match store.levels.plan_range(0, (Bound::Unbounded, Bound::Unbounded)) {
        Picked::Plan(plan) => plan,
        _ => panic!("no plan"),
    }
}

#[test]
fn files_of_some_length_are_merged_and_read_back() {
    let mut store = with_four_files(3000, 100_000);
    store.check();
    let written = store.context.counted.file_bytes_written.load(Ordering::Relaxed);
    assert_eq!(written, store.levels.current().level_bytes(0));
    store.empty(0);
    store.check();
    let version = store.levels.current();
    let lengths: Vec<u64> = version.level(1).iter().map(|run| run.record().bytes).collect();
    assert!(lengths.len() > 3 && lengths.iter().all(|&bytes| bytes < 130_000), "{lengths:?}");
    assert!(lengths.iter().rev().skip(1).all(|&bytes| bytes > 80_000), "{lengths:?}");
    let counted = &store.context.counted.file_bytes_written;
    assert_eq!(counted.load(Ordering::Relaxed), written + version.level_bytes(1));
    // What is recorded is what the files say.
    for run in version.level(1) {
        let reader = store.tables.reader(run.number()).unwrap();
        let properties = reader.properties();
        let in_file = (properties.entries, properties.deletes, &properties.largest_key[..]);
        assert_eq!(in_file, (run.record().entries, run.record().deletes, &run.record().largest_key[..]));
        assert!(reader.verify(&mut |_| ()).is_empty());
    }
    check_estimate(&version);
    drop(version);
    // Without moments, the deepest level has no delete and no older version.
    store.moments.clear();
    (1..6).for_each(|level| store.empty(level));
    store.check();
    let version = store.levels.current();
    assert!(version.runs().all(|(level, run)| level == 6 && run.record().deletes == 0));
}

fn check_estimate(version: &Version<TableRun>) {
    let entries: u64 = version.runs().map(|(_, run)| run.record().entries).sum();
    let range = (Bound::Unbounded, Bound::Excluded(&key_of(1500)[..]));
    let before = version.approximate(range).unwrap().entries;
    assert!(before.abs_diff(entries / 2) < entries / 20, "{before} of {entries}");
}

#[test]
fn the_memory_of_a_version_is_that_of_its_runs() {
    let mut store = with_four_files(200, 1000);
    let empty_bytes = size_of::<Version<TableRun>>();
    let four_bytes = store.levels.current().memory_bytes();
    assert!(four_bytes > empty_bytes + 4 * (size_of::<TableRun>() + 18), "{four_bytes}");
    store.empty(0);
    let version = store.levels.current();
    let runs = version.runs().count();
    assert!(runs > 10);
    assert!(version.memory_bytes() > empty_bytes + runs * (size_of::<TableRun>() + 18));
    assert!(version.memory_bytes() < empty_bytes + runs * 600);
}

/// Versions that cursors of earlier moments had were counted nowhere.
#[test]
fn the_memory_of_levels_has_what_earlier_versions_still_have() {
    let mut store = with_four_files(200, 1000);
    let earlier = store.levels.current();
    let (before_bytes, runs) = (earlier.memory_bytes(), earlier.runs().count());
    assert_eq!(store.levels.memory_bytes(), before_bytes);
    store.empty(0);
    let current_bytes = store.levels.current().memory_bytes();
    let kept_bytes = store.levels.memory_bytes() - current_bytes;
    assert!(kept_bytes > size_of::<Version<TableRun>>() + runs * (size_of::<TableRun>() + 18), "{kept_bytes}");
    assert!(kept_bytes <= before_bytes, "{kept_bytes} of {before_bytes}");
    drop(earlier);
    assert_eq!(store.levels.memory_bytes(), current_bytes);
}

/// The files of upper levels may be another's.
#[test]
fn runs_are_opened_from_a_level_on() {
    let mut store = with_four_files(100, 2000);
    store.empty(0);
    store.flush(vec![(key_of(5), Some(b"new".to_vec()))]);
    let count = |from| runs_of(&store.state, from, &store.tables).len();
    assert_eq!(count(0), store.state.files.len());
    assert_eq!(count(1), store.state.files.len() - 1);
    assert_eq!(count(2), 0);
    assert!(runs_of(&store.state, 1, &store.tables).iter().all(|(level, _)| *level == 1));
}

#[test]
fn windows_become_smaller_where_there_are_many_inputs() {
    let mib = 1 << 20;
    assert_eq!([0, 1, 64, 128, 5000].map(window_bytes), [mib, mib, mib, mib / 2, mib / 16]);
}

/// A file stays as long as a cursor or a source reads it.
#[test]
fn cursors_and_sources_pin_their_files() {
    let mut store = with_four_files(100, 2000);
    let run = store.levels.current().level(0)[0].clone();
    let (cursor, source) = (run.cursor().unwrap(), run.source(64 << 10).unwrap());
    let number = run.number();
    drop(run);
    let plan = plan_all(&store);
    let change = plan.change(store.merge(&plan).unwrap());
    drop(plan);
    store.commit(change);
    let is_there = |store: &TableStore| store.listed().contains(&number);
    assert!(is_there(&store) && store.levels.pinned() == [number]);
    drop(cursor);
    assert_eq!(store.levels.pinned(), [number]);
    drop(source);
    assert_eq!(store.levels.pinned(), [0; 0]);
}

/// Merges with a failure at one place after the other, until there is none. Returns how often the merge failed.
fn failing(what: &str, failure: Failure, mut check: impl FnMut(&TableStore, &MergeError<slmdb_env::Error>)) -> u64 {
    for passed in 0.. {
        let mut store = with_four_files(150, 4000);
        store.window_bytes = 2000;
        let plan = plan_all(&store);
        store.env.fail_after(passed, what, failure, Repeat::ForGood);
        let merged = store.merge(&plan);
        let has_struck = store.env.failures_struck() > 0;
        store.env.clear_failures();
        match merged {
            Err(error) => check(&store, &error),
            Ok(made) => {
                assert!(!has_struck && made.len() > 3);
                let change = plan.change(made);
                drop(plan);
                store.commit(change);
                store.check();
                return passed;
            }
        }
    }
    unreachable!()
}

#[test]
fn a_full_disk_leaves_nothing_behind() {
    let failed = failing("", Failure::Full, |store, error| {
        assert!(matches!(error, MergeError::Output(error) if error.may_be_tried_again()), "{error:?}");
        store.check();
    });
    assert!(failed > 8, "{failed}");
    let lacking = failing("", Failure::NoDescriptor, |store, _| store.check());
    assert!(lacking > 4, "{lacking}");
}

#[test]
fn an_input_that_cannot_be_read_leaves_nothing_behind() {
    let mut most_begun = 0;
    let failed = failing("read", Failure::Io, |store, error| {
        assert!(matches!(error, MergeError::Source(..)), "{error:?}");
        let next = store.numbers.begin().unwrap();
        store.numbers.end(next);
        most_begun = most_begun.max(next - 5);
        store.check();
    });
    assert!(failed > 4 && most_begun > 3, "{failed} failures, {most_begun} files");
}

/// After a failed write or sync nothing is deleted (INV-27). The files are still under way.
#[test]
fn after_a_failed_write_the_files_wait_for_the_next_opening() {
    for failure in [Failure::ShortWrite, Failure::FailedSync] {
        let failed = failing("", failure, |store, error| {
            assert!(matches!(error, MergeError::Output(error) if !error.may_be_tried_again()), "{error:?}");
            assert!(!store.env.operations().iter().any(|line| line.starts_with("remove")));
            let under_way = store.numbers.under_way();
            let left: Vec<u32> = store.recorded().into_iter().chain(under_way.iter().copied()).collect();
            assert!(!under_way.is_empty() && store.listed() == left);
        });
        assert!(failed > 4, "{failed}");
    }
}

/// Outputs whose edit finds no space in the MANIFEST are given up, and the merge is made again.
#[test]
fn complete_outputs_are_given_up() {
    let mut store = with_four_files(150, 4000);
    let plan = plan_all(&store);
    let made = store.merge(&plan).unwrap();
    assert_eq!(store.listed().len(), 4 + made.len());
    assert_eq!(store.numbers.under_way().len(), made.len());
    made.iter().for_each(|run| store.files().give_up(run));
    store.check();
    let again = store.merge(&plan).unwrap();
    assert!(again[0].number() > made[made.len() - 1].number());
    let change = plan.change(again);
    drop(plan);
    store.commit(change);
    store.check();
}

/// Nobody knows then which files the MANIFEST on the disk has.
#[test]
fn nothing_is_given_up_after_the_store_has_failed() {
    let store = with_four_files(150, 4000);
    let made = store.merge(&plan_all(&store)).unwrap();
    store.context.fail(slmdb_env::Error::invalid("a test"));
    made.iter().for_each(|run| store.files().give_up(run));
    assert_eq!(store.listed().len(), 4 + made.len());
    assert_eq!(store.numbers.under_way().len(), made.len());
}
