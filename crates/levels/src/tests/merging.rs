//! Merges and what they keep, against a model.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use slmdb_order::KeyOrder;
use slmdb_table::EntryKind;

use super::memory_run::{Entry, MemoryOutput, MemoryRun, MemorySource};
use super::store::Store;
use crate::{Cut, Fate, LevelOptions, MergeError, MergeSettings, Picked, PlanReason, Retention, Run, Version, merge};

pub(super) fn key(number: u8) -> Vec<u8> {
    format!("key{number:02}").into_bytes()
}

pub(super) type Writes = Vec<(Vec<u8>, Option<Vec<u8>>)>;

pub(super) fn writes() -> impl Strategy<Value = Writes> {
    let write = (0..24_u8, prop::option::weighted(0.7, prop::collection::vec(any::<u8>(), 0..12)));
    prop::collection::vec(write.prop_map(|(number, value)| (key(number), value)), 1..12)
}

/// What happens to a store.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Flush(Writes),
    /// From above the levels, right to level 1 (if level 0 is empty there).
    Inflow(Writes),
    Pick {
        may_move: bool,
    },
    Range {
        level: u8,
        from: u8,
        to: u8,
    },
    Rewrite {
        level: u8,
        from: u8,
        to: u8,
    },
    Snapshot,
    Release(prop::sample::Index),
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let range = (0..5_u8, 0..24_u8, 0..24_u8);
    let step = prop_oneof![
        6 => writes().prop_map(Step::Flush),
        2 => writes().prop_map(Step::Inflow),
        6 => any::<bool>().prop_map(|may_move| Step::Pick { may_move }),
        3 => range.clone().prop_map(|(level, from, to)| Step::Range { level, from, to }),
        2 => range.prop_map(|(level, from, to)| Step::Rewrite { level: level + 1, from, to }),
        3 => Just(Step::Snapshot),
        2 => any::<prop::sample::Index>().prop_map(Step::Release),
    ];
    prop::collection::vec(step, 1..60)
}

/// Very small levels, so that data gets far down.
pub(super) fn small() -> LevelOptions {
    LevelOptions { growth: 2, level_0_runs: 2, ..LevelOptions::with_run_bytes(80, 40) }
}

pub(super) fn take(store: &mut Store, step: Step) {
    match step {
        Step::Flush(writes) => store.flush(writes),
        Step::Inflow(writes) => inflow(store, writes),
        Step::Pick { may_move } => {
            if let Some(plan) = store.levels.pick(&|_| true) {
                store.compact(plan, may_move);
            }
        }
        Step::Range { level, from, to } => {
            let (from, to) = (key(from), key(to));
            let range = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
            while let Picked::Plan(plan) = store.levels.plan_range(level, range) {
                store.compact(plan, false);
            }
            assert!(store.levels.current().overlapping(level, range).is_empty() || level >= crate::LEVEL_LAST);
        }
        Step::Rewrite { level, from, to } => {
            let (mut from, to) = (Bound::Included(key(from)), key(to));
            while let Picked::Plan(plan) =
                store.levels.plan_rewrite(level, (from.as_ref().map(Vec::as_slice), Bound::Included(&to)))
            {
                from = Bound::Excluded(plan.bounds().1.to_vec());
                store.compact(plan, false);
            }
        }
        Step::Snapshot => _ = store.moments.insert(store.sequence),
        Step::Release(which) => {
            let moment = store.moments.iter().nth(which.index(store.moments.len().max(1))).copied();
            moment.map(|moment| store.moments.remove(&moment));
        }
    }
    store.check();
}

fn inflow(store: &mut Store, writes: Writes) {
    if !store.levels.current().level(0).is_empty() {
        return;
    }
    let entries = store.write(writes);
    let run = MemoryRun::new(u32::MAX, &store.order, entries);
    let record = run.record();
    let plan = store.levels.plan_inflow(1, &record.smallest_key, &record.largest_key).unwrap();
    let outputs = store.merge(&plan, run.entries());
    store.commit(plan, outputs);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is merged and moved, every moment and every read of now see what they saw.
    #[test]
    fn every_moment_sees_what_it_saw(steps in steps()) {
        let mut store = Store::new(KeyOrder::Bytewise, small());
        steps.into_iter().for_each(|step| take(&mut store, step));
        // Without moments, all of it moved to one level has one put a key, and no delete.
        store.moments.clear();
        for level in 0..6 {
            while let Picked::Plan(plan) = store.levels.plan_range(level, (Bound::Unbounded, Bound::Unbounded)) {
                store.compact(plan, false);
            }
        }
        let mut from = Bound::Unbounded;
        while let Picked::Plan(plan) =
            store.levels.plan_rewrite(6, (from.as_ref().map(Vec::as_slice), Bound::Unbounded))
        {
            from = Bound::Excluded(plan.bounds().1.to_vec());
            store.compact(plan, false);
        }
        store.check();
        let version = store.levels.current();
        let left: Vec<(Vec<u8>, Option<Vec<u8>>)> = version.runs().flat_map(|(_, run)| run.entries())
            .map(|entry| (entry.key.clone(), entry.value.clone())).collect();
        let wanted: Vec<_> = store.model.keys()
            .filter_map(|key| Some((key.clone(), Some(store.wanted(key, store.sequence)?.clone())))).collect();
        prop_assert_eq!(left, wanted);
    }
}

pub(super) fn entry(key: &str, sequence: u64, value: Option<&str>) -> Entry {
    Entry { key: key.into(), sequence, value: value.map(Into::into) }
}

fn run(number: u32, entries: Vec<Entry>) -> Arc<MemoryRun> {
    Arc::new(MemoryRun::new(number, &KeyOrder::Bytewise, entries))
}

fn version(runs: Vec<(u8, Arc<MemoryRun>)>) -> Arc<Version<MemoryRun>> {
    Arc::new(Version::new(KeyOrder::Bytewise, runs).unwrap())
}

/// The fates of puts (positive) and deletes (negative) of one key.
fn fates(moments: &[u64], deletes_below: u64, deeper: bool, versions: &[i64]) -> Vec<Fate> {
    let below = run(1, vec![entry("a", 1, Some("")), entry("z", 1, Some(""))]);
    let version = version(if deeper { vec![(3, below)] } else { vec![(2, below)] });
    let mut retention = Retention::new(version, 2, moments.to_vec(), deletes_below);
    let kind = |version: i64| if version > 0 { EntryKind::Put } else { EntryKind::Delete };
    versions.iter().map(|&version| retention.fate(b"key", version.unsigned_abs(), kind(version))).collect()
}

#[test]
fn versions_that_moments_see_are_kept() {
    use Fate::{DeleteDropped, Kept, Superseded};
    let none = u64::MAX;
    assert_eq!(fates(&[], none, false, &[9, 5, 3]), [Kept, Superseded, Superseded]);
    assert_eq!(fates(&[5], none, false, &[9, 5, 3]), [Kept, Kept, Superseded]);
    assert_eq!(fates(&[8, 4], none, false, &[9, 5, 3]), [Kept, Kept, Kept]);
    assert_eq!(fates(&[9, 2], none, false, &[9, 5, 3]), [Kept, Superseded, Superseded]);
    // A delete goes only if nothing is below, no moment is older, and the bound is above it.
    assert_eq!(fates(&[], none, false, &[-9, 5]), [DeleteDropped, Superseded]);
    assert_eq!(fates(&[], none, true, &[-9, 5]), [Kept, Superseded]);
    assert_eq!(fates(&[6], none, false, &[-9, 5]), [Kept, Kept]);
    assert_eq!(fates(&[9], none, false, &[-9, 5]), [DeleteDropped, Superseded]);
    assert_eq!(fates(&[], 9, false, &[-9, 5]), [Kept, Superseded]);
    assert_eq!(fates(&[], 10, false, &[-9, 5]), [DeleteDropped, Superseded]);
    assert_eq!(fates(&[7], none, false, &[9, -7, 5]), [Kept, DeleteDropped, Superseded]);
    // The same version from two sources is one.
    assert_eq!(fates(&[9, 8], none, false, &[9, 9, 8]), [Kept, Superseded, Kept]);
}

fn settings<'a>(
    cut: Cut<MemoryRun>,
    moments: Vec<u64>,
    report: &'a mut dyn FnMut(&crate::MergeCounts) -> ControlFlow<()>,
) -> MergeSettings<'a, MemoryRun> {
    let retention = Retention::new(version(Vec::new()), 1, moments, u64::MAX);
    MergeSettings { order: KeyOrder::Bytewise, prefix: Vec::new(), cut, retention, report_every_bytes: 10, report }
}

/// Of inputs that have much more.
fn cut(output_bytes: u64, grandparents: Vec<Arc<MemoryRun>>, grandparent_bytes_max: u64) -> Cut<MemoryRun> {
    Cut { output_bytes, grandparents, grandparent_bytes_max, input_entries: 1 << 20, input_bytes: 1 << 30 }
}

fn keys_of(outputs: &[Vec<Entry>]) -> Vec<String> {
    let text = |entry: &Entry| String::from_utf8_lossy(&entry.key).into_owned();
    outputs.iter().map(|output| output.iter().map(text).collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn outputs_end_between_keys() {
    let entries = vec![
        entry("a", 1, Some("123")),
        entry("b", 9, Some("123")),
        entry("b", 8, Some("123")),
        entry("b", 7, Some("123")),
        entry("c", 2, Some("123")),
        entry("d", 3, Some("123")),
    ];
    let go = |cut, moments| {
        let proceed = &mut |_: &crate::MergeCounts| ControlFlow::Continue(());
        let sources = vec![MemorySource::new(entries.clone())];
        keys_of(&merge(sources, settings(cut, moments, proceed), MemoryOutput::default()).unwrap().0)
    };
    assert_eq!(go(cut(8, vec![], 0), vec![7, 8, 9]), ["a b b b", "c d"]);
    assert_eq!(go(cut(4, vec![], 0), vec![7, 8, 9]), ["a", "b b b", "c", "d"]);
    assert_eq!(go(cut(4, vec![], 0), vec![]), ["a", "b", "c", "d"]);
    assert_eq!(go(cut(100, vec![], 0), vec![]), ["a b c d"]);
    // The output that begins with `b` overlaps one grandparent, then two.
    let grandparents = || {
        let parent = |number, from, to| run(number, vec![entry(from, 1, Some("12")), entry(to, 1, Some("12"))]);
        vec![parent(1, "A", "B"), parent(2, "a", "aa"), parent(3, "b", "bb"), parent(4, "c", "cc")]
    };
    assert_eq!(go(cut(100, grandparents(), 0), vec![]), ["a", "b", "c", "d"]);
    assert_eq!(go(cut(100, grandparents(), 10), vec![]), ["a b", "c d"]);
    assert_eq!(go(cut(100, grandparents(), 30), vec![]), ["a b c d"]);
}

/// It left the last few entries in a file of their own, which took a block of a full disk for each such merge.
#[test]
fn a_full_run_that_gets_a_few_keys_leaves_no_tail() {
    let lengths = |count: u64, output_bytes| {
        let of = |number: u64| entry(&format!("{number:03}"), 1, Some("1234567"));
        let cut = Cut { input_entries: count, input_bytes: 10 * count, ..cut(output_bytes, vec![], 0) };
        let proceed = &mut |_: &crate::MergeCounts| ControlFlow::Continue(());
        let sources = vec![MemorySource::new((0..count).map(of).collect())];
        let (outputs, _) = merge(sources, settings(cut, vec![], proceed), MemoryOutput::default()).unwrap();
        outputs.iter().map(Vec::len).collect::<Vec<_>>()
    };
    assert_eq!(lengths(40, 400), [40]);
    assert_eq!(lengths(41, 400), [41]);
    assert_eq!(lengths(49, 400), [49]);
    assert_eq!(lengths(50, 400), [40, 10]);
    assert_eq!(lengths(85, 400), [40, 45]);
    assert_eq!(lengths(3, 10), [1, 1, 1]);
}

/// What the sources have is an estimate. However wrong it is, no output is much too long.
#[test]
fn an_output_is_a_quarter_too_long_at_most() {
    let entries = (0..200).map(|number| entry(&format!("{number:03}"), 1, Some("1234567"))).collect();
    let cut = Cut { input_entries: 3, input_bytes: 30, ..cut(400, vec![], 0) };
    let proceed = &mut |_: &crate::MergeCounts| ControlFlow::Continue(());
    let merged = merge(vec![MemorySource::new(entries)], settings(cut, vec![], proceed), MemoryOutput::default());
    assert_eq!(merged.unwrap().0.iter().map(Vec::len).collect::<Vec<_>>(), [50; 4]);
}

#[test]
fn a_merge_that_ends_early_gives_up_its_outputs() {
    let entries = || (b'a'..=b'z').map(|byte| entry(&char::from(byte).to_string(), 1, Some("1234"))).collect();
    let abandoned = Arc::new(AtomicUsize::new(0));
    let output = || MemoryOutput { abandoned: Some(abandoned.clone()), ..MemoryOutput::default() };
    let mut reported = Vec::new();
    let mut end_at_third = |counts: &crate::MergeCounts| {
        reported.push(counts.bytes_read);
        if reported.len() == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let whole = || cut(1000, vec![], 0);
    let ended = merge(vec![MemorySource::new(entries())], settings(whole(), vec![], &mut end_at_third), output());
    assert!(matches!(ended, Err(MergeError::Ended)));
    assert_eq!((reported, abandoned.load(Ordering::SeqCst)), (vec![10, 20, 30], 1));
    let mut proceed = |_: &crate::MergeCounts| ControlFlow::Continue(());
    let damaged = MemorySource { unreadable: Some(5), ..MemorySource::new(entries()) };
    let sources = vec![MemorySource::new(vec![]), damaged];
    let ended = merge(sources, settings(whole(), vec![], &mut proceed), output());
    assert!(matches!(ended, Err(MergeError::Source(1, _))));
    let full = MemoryOutput { room: Some(3), ..output() };
    let ended = merge(vec![MemorySource::new(entries())], settings(whole(), vec![], &mut proceed), full);
    assert!(matches!(ended, Err(MergeError::Output("full"))));
    assert_eq!(abandoned.load(Ordering::SeqCst), 3);
}

/// A run of level 0 that is written anew keeps its deletes: older runs beside it may have the keys.
#[test]
fn a_delete_on_level_0_stays() {
    let mut store = Store::new(KeyOrder::Bytewise, small());
    store.flush(vec![(key(1), Some(b"old".to_vec()))]);
    store.flush(vec![(key(1), None), (key(2), Some(b"new".to_vec()))]);
    let Picked::Plan(plan) = store.levels.plan_run(0, 2) else { panic!("no plan") };
    store.compact(plan, false);
    store.check();
    assert_eq!(store.levels.current().level(0)[0].record().deletes, 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// From the deepest run up, each written anew alone: no delete is left, and of each key one version.
    #[test]
    fn runs_that_are_written_anew_for_space_keep_no_garbage(steps in steps()) {
        let mut store = Store::new(KeyOrder::Bytewise, small());
        steps.into_iter().for_each(|step| take(&mut store, step));
        store.moments.clear();
        let version = store.levels.current();
        for (level, run) in version.runs().collect::<Vec<_>>().into_iter().rev() {
            let Picked::Plan(plan) = store.levels.plan_run_for(level, run.number(), PlanReason::DiskSpace) else {
                panic!("no plan")
            };
            store.compact(plan, false);
            store.check();
        }
        let version = store.levels.current();
        let entries: u64 = version.runs().map(|(_, run)| run.record().entries).sum();
        let live = store.model.values().filter(|versions| versions.last_key_value().is_some_and(|last| last.1.is_some()));
        prop_assert_eq!(entries, live.count() as u64);
    }
}
