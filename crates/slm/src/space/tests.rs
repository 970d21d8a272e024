//! Tests: who gets what of the last space on a disk.

mod rest;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use slmdb_engine::files::catalog::CatalogState;
use slmdb_engine::files::file_names as names;
use slmdb_engine::files::file_names::RESERVE;
use slmdb_engine::space::reserve::{OutputSpace, Purpose};
use slmdb_engine::{CompactionOptions, CompactionPolicy, Engine, Medium, Options, WriteBatch};
use slmdb_env::{Env, Error};
use slmdb_manifest::Edit;
use slmdb_pmem::{Claim, ExtentKind, Persistent, UNIT_BYTES};
use slmdb_testkit::{Failure, MemoryEnv, Random, Repeat};

use crate::recovery::open;
use crate::tier::Slm;

const CAPACITY_BYTES: u64 = 256 << 20;

/// A store that nothing happens in by itself, into which this was put, and flushed if it is so wanted, before it was
/// opened.
fn store_with(key: &[u8], value: &[u8], is_flushed: bool) -> (MemoryEnv, Slm) {
    let (env, directory) = (MemoryEnv::new(), Path::new("/db"));
    let options = Options {
        env: Arc::new(env.clone()),
        medium: Some(Medium::Emulated { path: "/pool".into() }),
        memtable_bytes: 64 << 10,
        pool_initial_bytes: 4 << 20,
        compaction: CompactionOptions { policy: CompactionPolicy::Manual, ..CompactionOptions::default() },
        ..Options::default()
    };
    let engine = (crate::KIND.open)(&options, directory, None).unwrap();
    let mut batch = WriteBatch::new();
    batch.put(key, value).unwrap();
    engine.write(&batch, true).unwrap();
    if is_flushed {
        engine.flush().unwrap();
    }
    engine.close().unwrap();
    drop(engine);
    env.set_capacity(CAPACITY_BYTES);
    let store = open::without_threads(Persistent::new(), &options, directory).unwrap();
    store.shared.parts.catalog.fill_reserve().unwrap();
    (env, store)
}

/// The same with a table file, on a disk that is full, but for the reserve.
fn on_a_full_disk() -> (MemoryEnv, Slm) {
    let mut value = [0; 50_000];
    Random(1).fill(&mut value);
    let (env, store) = store_with(b"key", &value, true);
    assert!(store.shared.parts.catalog.reserve.output_bytes() >= value.len() as u64);
    assert_eq!(store.shared.parts.catalog.reserve.length_bytes(), store.shared.parts.catalog.reserve.wanted_bytes());
    fill_disk(&env, &store);
    (env, store)
}

/// Leaves nothing free.
fn fill_disk(env: &MemoryEnv, store: &Slm) {
    fill_disk_but_for(env, store, 0);
}

fn fill_disk_but_for(env: &MemoryEnv, store: &Slm, free_bytes: u64) {
    env.set_capacity(CAPACITY_BYTES);
    env.set_capacity(CAPACITY_BYTES - env.available_bytes(&store.shared.parts.context.directory).unwrap() + free_bytes);
}

fn reserved_records_bytes(store: &Slm) -> u64 {
    match &*store.shared.parts.catalog.lock() {
        CatalogState::Manifest(manifest) => manifest.reserved_bytes(),
        CatalogState::ReadOnly(_) => panic!("it takes writes"),
    }
}

/// What is left of the reserve for others when deletes and records have had theirs.
fn assert_the_output_has_its_space(store: &Slm, context: &str) {
    let (left_bytes, output_bytes) =
        (store.shared.parts.catalog.reserve.length_bytes(), store.shared.parts.catalog.reserve.output_bytes());
    assert!(left_bytes >= output_bytes, "{context}: {left_bytes} bytes are left, an output takes {output_bytes}");
}

#[test]
fn the_manifest_has_space_for_the_records_of_flushes_to_come() {
    const KEY_BYTES: usize = 9000;
    let (env, store) = store_with(&[7; KEY_BYTES], b"value", false);
    // The MemTable that is there, and the next; the smallest key and the largest.
    let records_bytes = 2 * 2 * 2 * KEY_BYTES as u64;
    let reserved_bytes = reserved_records_bytes(&store);
    assert!(reserved_bytes >= records_bytes, "{reserved_bytes} bytes for {records_bytes} of records");
    // On a disk that has not a byte for others they find it, and the reserve is not touched.
    fill_disk(&env, &store);
    let reserve_bytes = store.shared.parts.catalog.reserve.length_bytes();
    for _ in 0..40 {
        store.shared.parts.catalog.commit(|_| Edit::default()).unwrap();
    }
    assert!(reserved_records_bytes(&store) < reserved_bytes);
    assert_eq!(store.shared.parts.catalog.reserve.length_bytes(), reserve_bytes);
}

/// (It was made twice, and the second cut off what the first had.)
#[test]
fn two_that_fill_the_reserve_at_once_make_one() {
    let (env, store) = store_with(b"key", b"value", true);
    for round in 0..500 {
        store.shared.parts.catalog.reserve.discard().unwrap();
        let begin = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    begin.wait();
                    store.shared.parts.catalog.fill_reserve().unwrap();
                });
            }
        });
        let content = env.content(names::space(&store.shared.parts.context.directory, RESERVE)).unwrap();
        assert_eq!(content.len() as u64, store.shared.parts.catalog.reserve.length_bytes(), "round {round}");
    }
}

/// Else garbage could not be compacted away any more. (When the MANIFEST had become long, what was set aside for it
/// took all that compactions had given back, and deletes were refused.)
#[test]
fn records_of_the_manifest_leave_an_output_its_space() {
    let (env, store) = on_a_full_disk();
    let mut is_full = false;
    for records in 0..3000 {
        store.shared.parts.catalog.commit(|_| Edit::default()).unwrap();
        is_full |= store.shared.parts.catalog.provide_for_compaction(10, OutputSpace::Free).is_err();
        assert_the_output_has_its_space(&store, &format!("after {records} records"));
        fill_disk(&env, &store);
    }
    assert!(!store.shared.parts.context.has_failed());
    assert!(
        is_full
            || store.shared.parts.catalog.reserve.length_bytes() < store.shared.parts.catalog.reserve.wanted_bytes(),
        "they took nothing"
    );
}

/// It was left long: it had its own space for the records to come, so nobody noticed that the disk was full. And deletes must leave as
/// much again for a new one. (A disk of a megabyte with values of some fifty bytes, eight of them beside each other: one in 25 took no
/// more deletes, for ever, with a MANIFEST that took 57 KiB instead of 20.)
#[test]
fn a_long_manifest_is_no_reason_to_refuse_deletes() {
    let (env, store) = on_a_full_disk();
    let length_bytes = || match &*store.shared.parts.catalog.lock() {
        CatalogState::Manifest(manifest) => manifest.length_bytes(),
        CatalogState::ReadOnly(_) => panic!("it takes writes"),
    };
    env.set_capacity(CAPACITY_BYTES + (1 << 20));
    while length_bytes() < 60 << 10 {
        store.shared.parts.catalog.commit(|_| Edit::default()).unwrap();
        store.shared.parts.catalog.fill_reserve().unwrap();
    }
    env.set_capacity(CAPACITY_BYTES);
    fill_disk(&env, &store);
    while store.shared.parts.catalog.reserve.give(1000, Purpose::Others).unwrap() > 0 {}
    fill_disk(&env, &store);
    assert!(store.shared.parts.catalog.reserve.length_bytes() < store.shared.parts.catalog.reserve.wanted_bytes());
    store.shared.parts.catalog.fill_reserve().unwrap();
    assert!(length_bytes() < 16 << 10);
}

/// Its header may never have been written, so its keys were taken to be as long as can be until the next opening, and
/// small pools refused writes.
#[test]
fn the_segment_of_a_dropped_job_says_nothing_of_keys() {
    let (env, store) = store_with(b"key", b"value", true);
    let before = *store.shared.tier.compactor.planner.state.pool_reserve.indexed_keys.lock();
    store.shared.tier.state.index.pool.allocate_extent(ExtentKind::KeySegment, UNIT_BYTES, 4_000_000).unwrap();
    store.close().unwrap();
    let (options, directory) =
        (store.shared.parts.context.options.clone(), store.shared.parts.context.directory.clone());
    drop(store);
    let store = open::without_threads(Persistent::new(), &options, &directory).unwrap();
    assert_eq!(*store.shared.tier.compactor.planner.state.pool_reserve.indexed_keys.lock(), before);
    assert!(store.shared.tier.state.index.pool.extents().iter().all(|extent| extent.owner != 4_000_000), "it is gone");
    drop((env, store));
}

/// An arena that was given up goes with the last reader of its MemTable, and nobody hears of that. (A put was refused
/// on a disk that was nearly full: one of some hundred stores, on a busy machine.)
#[test]
fn a_put_waits_for_readers_of_an_arena_that_was_given_up() {
    let mut refused = 0;
    for kib in (0..36).map(|number| 700 + number % 12 * 32) {
        let env = MemoryEnv::new();
        let options = Options {
            env: Arc::new(env.clone()),
            memtable_bytes: 64 << 10,
            compaction: CompactionOptions {
                policy: CompactionPolicy::Manual,
                table_file_bytes: 64 << 10,
                ..CompactionOptions::default()
            },
            ..Options::default()
        };
        let store = open::on_dram(&options, Path::new("/db")).unwrap();
        let put = |key: &str, value: &[u8]| {
            let mut batch = WriteBatch::new();
            batch.put(key, value).unwrap();
            store.write(&batch, false)
        };
        put("first", &[1; 100]).unwrap();
        env.set_capacity(2 << 20);
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // A reader that has found the large arena, and is not quick.
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    let view = store.shared.parts.writes.view.load_full();
                    if view.memtables.iter().any(|memtable| memtable.capacity_bytes() > 64 << 10) {
                        std::thread::sleep(Duration::from_millis(20));
                    }
                }
            });
            let large = put("large", &vec![2; kib << 10]);
            refused += u32::from(matches!(large, Err(Error::Full { .. })));
            let small = (0..20).try_for_each(|number| put(&format!("small {number}"), &[3; 1000]));
            is_done.store(true, Ordering::Relaxed);
            small.unwrap_or_else(|error| panic!("{kib} KiB: {error}"));
        });
    }
    assert!(refused > 0);
}

/// (A compaction had the reserve, and the rest of its file was free for a moment. The pool took that for good, so the
/// reserve never became whole again, and deletes were refused.)
#[test]
fn the_pool_takes_nothing_that_the_reserve_must_have_again() {
    let (env, store) = on_a_full_disk();
    let (pool, reserve) = (&store.shared.tier.state.index.pool, &store.shared.parts.catalog.reserve);
    let length_bytes = pool.length_bytes();
    let loan = reserve.lend().unwrap().unwrap();
    let wanted_bytes = pool.free_bytes() + UNIT_BYTES;
    let refused = |grown: slmdb_env::Result<()>, context: &str| {
        assert!(matches!(grown, Err(Error::Full { .. })), "{context}: {grown:?}");
        assert_eq!(pool.length_bytes(), length_bytes, "{context}");
    };
    fill_disk_but_for(&env, &store, 4 * UNIT_BYTES);
    refused(pool.set_reserve(wanted_bytes, UNIT_BYTES), "set aside");
    refused(pool.allocate_extent(ExtentKind::Arena, wanted_bytes, 1000).map(drop), "an arena");
    let part = pool.allocate_part(ExtentKind::KeySegment, wanted_bytes, wanted_bytes, 1000, Claim::Ordinary);
    refused(part.map(drop), "an output of a compaction");

    // With the reserve back, what is free beyond it may be taken.
    env.set_capacity(CAPACITY_BYTES);
    drop(loan);
    pool.set_reserve(wanted_bytes, UNIT_BYTES).unwrap();
    assert!(pool.length_bytes() > length_bytes);
    assert_eq!(reserve.length_bytes(), reserve.wanted_bytes());
}

/// What is lacking for a moment must not stop the store, wherever it is lacking: the pool is full as long.
#[test]
fn a_pool_is_full_while_the_reserve_gets_no_descriptor() {
    let (env, store) = on_a_full_disk();
    let (pool, reserve) = (&store.shared.tier.state.index.pool, &store.shared.parts.catalog.reserve);
    reserve.discard().unwrap();
    env.set_capacity(CAPACITY_BYTES);
    env.fail_next("", Failure::NoDescriptor, Repeat::ForGood);
    let wanted_bytes = pool.free_bytes() + UNIT_BYTES;
    let grown = pool.set_reserve(wanted_bytes, UNIT_BYTES);
    assert!(env.failures_struck() > 0 && matches!(grown, Err(Error::Full { .. })), "{grown:?}");
    env.clear_failures();
    pool.set_reserve(wanted_bytes, UNIT_BYTES).unwrap();
}

/// Accepted writes are flushed first of all.
#[test]
fn a_flush_lets_the_pool_grow_while_a_compaction_has_the_reserve() {
    let (env, store) = on_a_full_disk();
    let pool = &store.shared.tier.state.index.pool;
    let _loan = store.shared.parts.catalog.reserve.lend().unwrap().unwrap();
    fill_disk_but_for(&env, &store, 4 * UNIT_BYTES);
    let bytes = pool.free_bytes() + UNIT_BYTES;
    pool.allocate_extent(ExtentKind::KeySegment, bytes, 1000).unwrap();
}
