//! Tests: what the MANIFEST names is there, for as long as it does.

use std::ops::Bound;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use slmdb_engine::{CompactionOptions, Engine, Medium, Options, WriteBatch};
use slmdb_manifest::Manifest;
use slmdb_pmem::{AnyMedium, ExtentKind, Pool};
use slmdb_sync::epoch;
use slmdb_sync::scheduled::thread;
use slmdb_testkit::MemoryEnv;

use crate::recovery::open;

const DIRECTORY: &str = "/db";

/// Until all is done that was put off until no reader is left.
fn do_what_waits_for_readers() {
    let is_done = Arc::new(AtomicBool::new(false));
    let done = is_done.clone();
    epoch::pin().defer(move || done.store(true, Ordering::Release));
    let began = Instant::now();
    while !is_done.load(Ordering::Acquire) {
        assert!(began.elapsed() < Duration::from_secs(60), "a reader stays for ever");
        epoch::pin().flush();
        thread::yield_now();
    }
}

/// What the MANIFEST that a power cut would leave names and the pool does not have: key segments of table files, and
/// arenas.
fn missing(env: &MemoryEnv, pool: &Pool<AnyMedium>) -> Vec<(ExtentKind, u64)> {
    let state = Manifest::read(&env.crash(), Path::new(DIRECTORY)).unwrap().state;
    let segments = state.files.keys().map(|&number| (ExtentKind::KeySegment, u64::from(number)));
    let named = segments.chain(state.arenas.keys().map(|&generation| (ExtentKind::Arena, generation)));
    let extents = pool.extents();
    let is_there = |(kind, owner)| extents.iter().any(|extent| extent.kind == kind && u64::from(extent.owner) == owner);
    named.filter(|&what| !is_there(what)).collect()
}

/// A compaction's inputs, and a flush's arena, are the store's until the record is durable that gives them up: a
/// power cut before would leave a MANIFEST that names them.
#[test]
fn nothing_is_freed_before_its_giving_up_is_durable() {
    let env = MemoryEnv::new();
    let options = Options {
        env: Arc::new(env.clone()),
        memtable_bytes: 4 << 10,
        medium: Some(Medium::Emulated { path: "/pool".into() }),
        pool_initial_bytes: 1 << 20,
        compaction: CompactionOptions {
            table_file_bytes: 2 << 10,
            space_amplification_max: 1.1,
            live_key_threshold: 0.9,
            ..CompactionOptions::default()
        },
        ..Options::default()
    };
    let (engine, pool) = open::with_pool(&options, Path::new(DIRECTORY)).unwrap();
    let found: Arc<Mutex<Vec<_>>> = Arc::default();
    let looks = Arc::new(AtomicU64::new(0));
    let (env_seen, pool_seen, all_found, count) = (env.clone(), pool.clone(), found.clone(), looks.clone());
    env.call_before("sync /db/MANIFEST", move || {
        do_what_waits_for_readers();
        all_found.lock().unwrap().extend(missing(&env_seen, &pool_seen));
        count.fetch_add(1, Ordering::Relaxed);
    });
    for round in 0..10_u8 {
        for number in 0..40_u8 {
            let mut batch = WriteBatch::new();
            batch.put([number], [round; 100]).unwrap();
            engine.write(&batch, false).unwrap();
        }
        engine.flush().unwrap();
    }
    engine.compact_range(Bound::Unbounded, Bound::Unbounded).unwrap();
    env.clear_calls();
    let since_open = engine.stats().since_open;
    assert!(since_open.flushes >= 10 && since_open.compactions >= 1, "{since_open:?}");
    assert!(looks.load(Ordering::Relaxed) >= since_open.flushes + since_open.compactions);
    assert_eq!(*found.lock().unwrap(), [], "named by a durable MANIFEST, and gone");
}
