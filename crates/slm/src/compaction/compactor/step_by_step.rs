//! Tests: compactions whose index thread's part is done here. What becomes of one that finds too little space for an
//! output's record in the MANIFEST, and which of them tell how fast garbage goes.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use slmdb_engine::files::catalog::CatalogState;
use slmdb_engine::space::reserve::{OutputSpace, Purpose};
use slmdb_engine::{CompactionOptions, CompactionPolicy, Engine, Medium, Options, WriteBatch};
use slmdb_env::{Env, Error};
use slmdb_manifest::Edit;
use slmdb_pmem::{ExtentKind, Persistent};
use slmdb_sync::scheduled::Mutex;
use slmdb_testkit::{Failure, MemoryEnv, Random, Repeat};

use crate::compaction::controller::Load;
use crate::compaction::order_schedule::WINDOW;
use crate::compaction::plan::{CompactionReason, CompactionResult, Plan, Stopped};
use crate::compaction::queue::ManualCompaction;
use crate::flush::finished::{Finished, queue_of_finished};
use crate::index::in_pool::compaction_log::CompactionLog;
use crate::recovery::open;
use crate::tier::Slm;

const DIRECTORY: &str = "/db";
const KEYS: u32 = 60;
const INPUTS: [u32; 2] = [1, 2];

fn options(env: &MemoryEnv) -> Options {
    let policy = CompactionPolicy::Manual;
    Options {
        env: Arc::new(env.clone()),
        medium: Some(Medium::Emulated { path: "/pool".into() }),
        memtable_bytes: 64 << 10,
        pool_initial_bytes: 4 << 20,
        compaction: CompactionOptions { policy, table_file_bytes: 16 << 10, ..CompactionOptions::default() },
        ..Options::default()
    }
}

fn key(number: u32) -> Vec<u8> {
    format!("key {number:02}").into_bytes()
}

/// Bytes that can't be compressed, 1 KiB of them: of a key and a round.
fn value(number: u32, round: u32) -> Vec<u8> {
    let mut value = vec![0; 1024];
    Random(u64::from(number * 2 + round)).fill(&mut value);
    value
}

/// The key's value after both rounds: the second is for every third key.
fn last_value(number: u32) -> Vec<u8> {
    value(number, u32::from(number.is_multiple_of(3)))
}

/// A store of two files whose threads don't run.
fn store(env: &MemoryEnv) -> Slm {
    store_with(env, &options(env))
}

fn store_with(env: &MemoryEnv, last: &Options) -> Slm {
    let (options, directory) = (options(env), Path::new(DIRECTORY));
    let engine = (crate::KIND.open)(&options, directory, None).unwrap();
    for round in 0..2 {
        let mut batch = WriteBatch::new();
        (0..KEYS).filter(|number| round == 0 || number % 3 == 0).for_each(|number| {
            batch.put(key(number), value(number, round)).unwrap();
        });
        engine.write(&batch, true).unwrap();
        engine.flush().unwrap();
    }
    engine.close().unwrap();
    drop(engine);
    open::without_threads(Persistent::new(), last, directory).unwrap()
}

fn table_files(env: &MemoryEnv) -> Vec<String> {
    let entries = env.list_directory(Path::new(DIRECTORY)).unwrap().into_iter();
    entries.map(|entry| entry.name).filter(|name| name.ends_with(".sst")).collect()
}

/// The files that have key segments in the pool.
fn segments(store: &Slm) -> Vec<u32> {
    let extents = store.shared.tier.state.index.pool.extents().into_iter();
    let mut files: Vec<u32> =
        extents.filter(|extent| extent.kind == ExtentKind::KeySegment).map(|extent| extent.owner).collect();
    files.sort_unstable();
    files.dedup();
    files
}

/// Compacts all of the store; the index thread's part, too, is done here. Before the output of this number is indexed
/// (from 0), the MANIFEST has no space, and others take all there is; it is there again afterwards. Says how it
/// ended, and how many outputs there were.
fn compact(
    store: &Slm,
    env: &MemoryEnv,
    (reason, space): (CompactionReason, OutputSpace),
    taken_before: Option<usize>,
) -> (Result<CompactionResult, Error>, usize) {
    std::thread::scope(|scope| {
        let (finished, outputs) = queue_of_finished(&Arc::default());
        let compaction = scope.spawn(move || {
            let plan = Plan { inputs: INPUTS.to_vec(), reason };
            store.shared.tier.compactor.compact(&plan, space, &finished).map_err(|stopped| stopped.cause())
        });
        let mut count = 0;
        for output in outputs {
            let Finished::Compaction(output) = output else { panic!("nothing is flushed") };
            if taken_before == Some(count) {
                use_up_space(store, env);
            }
            store.shared.tier.index_insertion.repointing.index_output(output).unwrap();
            env.set_capacity(u64::MAX);
            count += 1;
        }
        (compaction.join().unwrap(), count)
    })
}

/// Leaves no space on the disk, nor in the reserve, nor for a record of a compaction in the MANIFEST.
fn use_up_space(store: &Slm, env: &MemoryEnv) {
    let reserved_bytes = || match &*store.shared.parts.catalog.lock() {
        CatalogState::Manifest(manifest) => manifest.reserved_bytes(),
        CatalogState::ReadOnly(_) => panic!("it takes writes"),
    };
    env.set_capacity(1);
    while reserved_bytes() > 4 << 10 {
        store.shared.parts.catalog.commit(|_| Edit::default()).unwrap();
    }
    while store.shared.parts.catalog.reserve.give(1 << 20, Purpose::Manifest).unwrap() > 0 {}
}

fn assert_whole(store: &Slm, context: &str) {
    for number in 0..KEYS {
        let found = store.get(&key(number)).unwrap();
        assert_eq!(found.as_deref(), Some(&last_value(number)[..]), "{context}: key {number}");
    }
    let report = store.verify(&mut |_| ()).unwrap();
    assert!(report.is_clean(), "{context}: {:#?}", report.findings);
}

#[test]
fn an_output_without_space_for_its_record_ends_its_compaction() {
    for space in [OutputSpace::Free, OutputSpace::Reserve] {
        for taken_before in 0.. {
            let context = format!("{space:?}, before output {taken_before}");
            let env = MemoryEnv::new();
            let store = store(&env);
            store.shared.parts.catalog.fill_reserve().unwrap();
            assert!(store.shared.parts.catalog.reserve.length_bytes() > 0);
            let (ended, count) = compact(&store, &env, (CompactionReason::MostGarbage, space), Some(taken_before));
            if taken_before >= count {
                assert!(ended.is_ok() && taken_before >= if space == OutputSpace::Free { 3 } else { 1 }, "{context}");
                break;
            }
            assert!(matches!(ended, Err(Error::Full { .. })), "{context}: {ended:?}");
            // The outputs before it are the store's, and so are the inputs.
            let files: Vec<u32> = store.shared.parts.catalog.lock().state().files.keys().copied().collect();
            assert_eq!(files[..2], INPUTS, "{context}");
            assert_eq!(files.len(), 2 + taken_before, "{context}");
            assert_eq!(table_files(&env).len(), files.len(), "{context}: files are left of those given up");
            assert_eq!(segments(&store), files, "{context}: segments are left of those given up");
            assert!(
                CompactionLog::default().left(&store.shared.tier.state.index.pool).unwrap().is_empty(),
                "{context}: a job is left"
            );
            assert_whole(&store, &context);
            store.shared.parts.catalog.fill_reserve().unwrap();
            let (ended, _) = compact(&store, &env, (CompactionReason::MostGarbage, space), None);
            ended.unwrap();
            assert!(
                INPUTS.iter().all(|input| !store.shared.parts.catalog.lock().state().files.contains_key(input)),
                "{context}"
            );
            assert_whole(&store, &context);
        }
    }
}

/// It began again with keys that were about to move. So their old places, or the output that had them, kept garbage that nobody knew of.
/// (A disk of a megabyte, with eight beside each other: one in sixteen.)
#[test]
fn a_compaction_that_is_given_up_waits_for_outputs_on_their_way() {
    let env = MemoryEnv::new();
    let store = store(&env);
    store.shared.parts.catalog.fill_reserve().unwrap();
    let second = store.shared.parts.catalog.lock().state().next_file_number + 1;
    env.fail_next(&format!("write {DIRECTORY}/{second:010}.sst"), Failure::Full, Repeat::Once);
    std::thread::scope(|scope| {
        let (finished, outputs) = queue_of_finished(&Arc::default());
        let store = &store;
        let compaction = scope.spawn(move || {
            let plan = Plan { inputs: INPUTS.to_vec(), reason: CompactionReason::MostGarbage };
            store.shared.tier.compactor.compact(&plan, OutputSpace::Free, &finished).map_err(|stopped| stopped.cause())
        });
        let Finished::Compaction(first) = outputs.recv().unwrap() else { panic!("nothing is flushed") };
        while env.failures_struck() == 0 {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(100));
        assert!(!compaction.is_finished(), "its first output is not in the MANIFEST");
        store.shared.tier.index_insertion.repointing.index_output(first).unwrap();
        assert!(matches!(compaction.join().unwrap(), Err(Error::Full { .. })));
    });
    assert_eq!(store.shared.tier.state.compactions.inner.lock().left_over, INPUTS.into(), "a part of each is garbage");
    assert_whole(&store, "at the end");
}

/// What it had moved by then was garbage where it was, and stayed, and the caller was told that all was well. (It seemed to have space.
/// A disk of a megabyte with values of up to 400 bytes, `CompactionPolicy::Manual`: one in three, with eight beside each other.)
#[test]
fn a_request_that_runs_out_of_space_leaves_no_garbage() {
    const ROUNDS_MAX: u32 = 10;
    assert!((0..ROUNDS_MAX).any(|_| is_told_that_all_is_well()), "space never came back in time");
}

/// Whether the request was told so, which is true then. On a busy machine space comes back too late, and it is told that there is none.
fn is_told_that_all_is_well() -> bool {
    let env = MemoryEnv::new();
    let store = store(&env);
    store.shared.parts.catalog.fill_reserve().unwrap();
    // Not for all of it.
    env.set_capacity(1 << 40);
    env.set_capacity((1 << 40) - env.available_bytes(Path::new(DIRECTORY)).unwrap());
    let (from, to) = (Bound::Unbounded, Bound::Unbounded);
    let request = ManualCompaction { from, to, ended: Mutex::new(None) };
    let all = Plan { inputs: INPUTS.to_vec(), reason: CompactionReason::CompactRange };
    store.shared.tier.state.compactions.inner.lock().busy.extend(&all.inputs);
    let (ended, count) = std::thread::scope(|scope| {
        let (finished, outputs) = queue_of_finished(&Arc::default());
        let (store, request, all) = (&store, &request, &all);
        let compaction = scope.spawn(move || {
            store.shared.tier.compactor.compact_requested(request, all, &finished).map_err(|stopped| stopped.cause())
        });
        let mut count = 0;
        for output in outputs {
            let Finished::Compaction(output) = output else { panic!("nothing is flushed") };
            count += 1;
            // The first is without garbage, in the reserve. Then there is much space, until some of the others are there.
            if count == 3 {
                use_up_space(store, &env);
            }
            store.shared.tier.index_insertion.repointing.index_output(output).unwrap();
            env.set_capacity(u64::MAX);
        }
        (compaction.join().unwrap(), count)
    });
    if matches!(ended, Err(Error::Full { .. })) {
        assert_whole(&store, "without space");
        return false;
    }
    ended.unwrap();
    assert!(count > 3, "{count} outputs");
    for (number, file) in &store.shared.parts.catalog.lock().state().files {
        assert_eq!(file.entries, file.live_keys, "file {number}");
    }
    assert_whole(&store, "at the end");
    true
}

/// Their garbage was too little for the picker, and stayed for ever on a store at rest. (By reading: seen once in
/// some hundred stores on small disks, after `compact_range`, when small files were merged.)
#[test]
fn what_a_given_up_compaction_has_left_is_compacted_later() {
    let env = MemoryEnv::new();
    let by_itself = CompactionOptions {
        policy: CompactionPolicy::GarbageFirst,
        space_amplification_max: 100.0,
        ..options(&env).compaction
    };
    let store = store_with(&env, &Options { compaction: by_itself, ..options(&env) });
    let next = || {
        let catalog = store.shared.parts.catalog.lock();
        let mut inner = store.shared.tier.state.compactions.inner.lock();
        assert_eq!(
            store.shared.tier.compactor.pick(&inner, catalog.state(), Load::default()),
            None,
            "so much garbage is allowed"
        );
        store.shared.tier.compactor.plan_of_left_over(&mut inner, catalog.state())
    };
    store.shared.parts.catalog.fill_reserve().unwrap();
    assert_eq!(next(), None);
    compact(&store, &env, (CompactionReason::SmallFiles, OutputSpace::Free), Some(0)).0.unwrap_err();
    assert_eq!(next(), None, "nothing was moved");
    store.shared.parts.catalog.fill_reserve().unwrap();
    compact(&store, &env, (CompactionReason::SmallFiles, OutputSpace::Free), Some(1)).0.unwrap_err();
    assert_eq!(next(), Some(Plan { inputs: INPUTS.to_vec(), reason: CompactionReason::MostGarbage }));
    store.shared.parts.catalog.fill_reserve().unwrap();
    compact(&store, &env, (CompactionReason::MostGarbage, OutputSpace::Free), None).0.unwrap();
    assert_eq!(next(), None);
    assert_whole(&store, "at the end");
}

/// It was left alone until the next opening, like one that is damaged; and an output that could not be begun stopped
/// all writing.
#[test]
fn what_lacks_a_descriptor_may_be_compacted_again() {
    for (begin, in_reserve) in [("open", false), ("create", false), ("sync directory", false), ("open", true)] {
        let env = MemoryEnv::new();
        let store = store(&env);
        store.shared.parts.catalog.fill_reserve().unwrap();
        let space = if in_reserve { OutputSpace::Reserve } else { OutputSpace::Free };
        for place in 0.. {
            env.fail_after(place, begin, Failure::NoDescriptor, Repeat::ForGood);
            let struck_before = env.failures_struck();
            let plan = Plan { inputs: INPUTS.to_vec(), reason: CompactionReason::MostGarbage };
            let (finished, outputs) = queue_of_finished(&Arc::default());
            let ended = std::thread::scope(|scope| {
                let store = &store;
                let compaction = scope.spawn(move || store.shared.tier.compactor.compact(&plan, space, &finished));
                for output in outputs {
                    let Finished::Compaction(output) = output else { panic!("nothing is flushed") };
                    store.shared.tier.index_insertion.repointing.index_output(output).unwrap();
                }
                compaction.join().unwrap()
            });
            env.clear_failures();
            let context = format!("{begin} {space:?}, place {place}");
            assert!(!store.shared.parts.context.has_failed(), "{context}");
            assert_whole(&store, &context);
            if env.failures_struck() == struck_before {
                ended.map_err(|stopped| stopped.cause()).unwrap();
                assert!(place > 0, "{context}: it had nothing to strike");
                break;
            }
            assert!(matches!(&ended, Err(Stopped::Lacking(_))), "{context}: {:?}", ended.map_err(|s| s.cause()));
        }
    }
}

/// Merges for order take time and remove nothing. Writers were held back to next to nothing after them, for garbage
/// that the next compaction would have removed in a second.
#[test]
fn what_is_merged_for_order_does_not_tell_how_fast_garbage_goes() {
    for (reason, is_measured) in [
        (CompactionReason::Order, false),
        (CompactionReason::SmallFiles, false),
        (CompactionReason::CompactRange, false),
        (CompactionReason::MostGarbage, true),
    ] {
        let env = MemoryEnv::new();
        let store = store(&env);
        compact(&store, &env, (reason, OutputSpace::Free), None).0.unwrap();
        assert_eq!(store.shared.parts.writes.pacing.knows_compactions(), is_measured, "{reason:?}");
    }
}

/// What it writes stands beside its inputs at the end, and writers are to know before that.
#[test]
fn what_a_running_compaction_takes_is_debt() {
    let env = MemoryEnv::new();
    let store = store(&env);
    let debt = || store.shared.tier.compactor.pace.situation().0.debt();
    let resting = debt();
    assert!(resting > 0.0);
    let lengths: Vec<u64> =
        store.shared.parts.catalog.lock().state().files.values().map(|file| file.length_bytes).collect();
    let mut last = resting;
    for number in INPUTS {
        store.shared.tier.state.compactions.inner.lock().busy.insert(number);
        let now = debt();
        assert!(now > last, "{now} after {last}");
        last = now;
    }
    // A third of the first file is garbage: the rest of it, and the other, come once more.
    let times = (last - resting) / resting;
    let expected = (lengths[0] as f64 * 2.0 / 3.0 + lengths[1] as f64) / (lengths[0] as f64 / 3.0);
    assert!((times / expected - 1.0).abs() < 0.02, "{times}, not {expected}");
}

/// They were slowed to half by merges for order, right after all keys had been read. What is merged so far is kept.
#[test]
fn a_merge_for_order_gives_way_to_writers() {
    const FILES: u32 = 4;
    const KEYS_EACH: u32 = 150;
    let env = MemoryEnv::new();
    let with_small_files = Options {
        memtable_bytes: 64 << 10,
        compaction: CompactionOptions { table_file_bytes: 4 << 10, ..options(&env).compaction },
        ..options(&env)
    };
    let key = |number: u32| format!("key {number:04}").into_bytes();
    let value = |number: u32| value(number, 0)[..100].to_vec();
    let engine = (crate::KIND.open)(&with_small_files, Path::new(DIRECTORY), None).unwrap();
    for file in 0..FILES {
        let mut batch = WriteBatch::new();
        (0..KEYS_EACH).for_each(|at| batch.put(key(at * FILES + file), value(at * FILES + file)).unwrap());
        engine.write(&batch, true).unwrap();
        engine.flush().unwrap();
    }
    engine.close().unwrap();
    drop(engine);
    let store = open::without_threads(Persistent::new(), &with_small_files, Path::new(DIRECTORY)).unwrap();
    let inputs: Vec<u32> = store.shared.parts.catalog.lock().state().files.keys().copied().collect();
    assert_eq!(inputs.len(), FILES as usize);
    // At the first output writers put as much in a moment as flushes take in a hundred seconds.
    store.shared.parts.writes.pacing.flushed(1 << 20, 1_000_000_000);
    let merge = |are_writers_busy: bool, reason: CompactionReason| {
        std::thread::scope(|scope| {
            let (finished, outputs) = queue_of_finished(&Arc::default());
            let (store, inputs) = (&store, &inputs);
            let compaction = scope.spawn(move || {
                let plan = Plan { inputs: inputs.clone(), reason };
                store
                    .shared
                    .tier
                    .compactor
                    .compact(&plan, OutputSpace::Free, &finished)
                    .map_err(|stopped| stopped.cause())
            });
            for (count, output) in outputs.into_iter().enumerate() {
                let Finished::Compaction(output) = output else { panic!("nothing is flushed") };
                if are_writers_busy && count == 0 {
                    store.shared.parts.context.counted.user_bytes_put.fetch_add(100 << 20, Ordering::Relaxed);
                    std::thread::sleep(2 * WINDOW);
                }
                store.shared.tier.index_insertion.repointing.index_output(output).unwrap();
            }
            compaction.join().unwrap().unwrap()
        })
    };
    let assert_whole = |context: &str| {
        for number in 0..FILES * KEYS_EACH {
            assert_eq!(store.get(&key(number)).unwrap().as_deref(), Some(&value(number)[..]), "{context}: {number}");
        }
        let report = store.verify(&mut |_| ()).unwrap();
        assert!(report.is_clean(), "{context}: {:#?}", report.findings);
    };
    let inputs_left =
        || inputs.iter().filter(|input| store.shared.parts.catalog.lock().state().files.contains_key(input)).count();
    let part = merge(true, CompactionReason::Order);
    assert_eq!(inputs_left(), inputs.len(), "their other keys are there alone");
    assert_whole("after a part");
    assert!(!part.files.is_empty() && part.files.len() < 10, "{part:?}");
    assert!(
        store.shared.tier.state.compactions.inner.lock().left_over.is_empty(),
        "they are not merged before writers pause"
    );
    std::thread::sleep(3 * WINDOW);
    let rest = merge(false, CompactionReason::Order);
    assert_eq!(inputs_left(), 0);
    assert_whole("at the end");
    let bytes = part.bytes_written + rest.bytes_written;
    let left_bytes: u64 = store.shared.parts.catalog.lock().state().files.values().map(|file| file.length_bytes).sum();
    assert_eq!(bytes, left_bytes, "each key was merged once");
}

/// Garbage is another matter: writers wait for it in the end.
#[test]
fn merges_for_garbage_do_not_give_way() {
    let env = MemoryEnv::new();
    let store = store(&env);
    let traffic = || store.shared.tier.compactor.traffic(&mut store.shared.tier.state.compactions.inner.lock());
    store.shared.parts.writes.pacing.flushed(1 << 20, 1_000_000_000);
    traffic();
    store.shared.parts.context.counted.user_bytes_put.fetch_add(100 << 20, Ordering::Relaxed);
    std::thread::sleep(WINDOW);
    assert!(traffic().has_to_give_way());
    compact(&store, &env, (CompactionReason::MostGarbage, OutputSpace::Free), None).0.unwrap();
    assert!(INPUTS.iter().all(|input| !store.shared.parts.catalog.lock().state().files.contains_key(input)));
}
