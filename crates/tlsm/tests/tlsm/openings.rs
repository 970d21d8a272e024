//! Openings: what they cost, and what they leave alone.

use std::path::Path;
use std::sync::{Arc, Mutex};

use slmdb_engine::{CompactionOptions, CompactionPolicy, Emulation, Engine, Medium, Options, WriteBatch};
use slmdb_testkit::MemoryEnv;
use slmdb_tlsm::{Tiering, TlsmOptions};

/// With a pool whose file is mapped, in which each MemTable has one segment.
fn options(env: &MemoryEnv, memtable_bytes: u64, pool_bytes: u64) -> Options {
    env.map_files_in("/pools");
    let own = TlsmOptions { tiering: Tiering::None, segment_bytes: 2 * memtable_bytes, ..TlsmOptions::default() };
    Options {
        env: Arc::new(env.clone()),
        memtable_bytes,
        compaction: CompactionOptions { policy: CompactionPolicy::Manual, ..CompactionOptions::default() },
        own: Some(Arc::new(own)),
        medium: Some(Medium::Emulated { path: "/pools/pool".into() }),
        pool_initial_bytes: pool_bytes,
        pool_maximum_bytes: pool_bytes,
        ..Options::default()
    }
}

fn open(options: &Options) -> Arc<dyn Engine> {
    (slmdb_tlsm::KIND.open)(options, Path::new("/db"), None).unwrap()
}

fn key(number: u32) -> Vec<u8> {
    format!("key {number:05}").into_bytes()
}

fn put_all(engine: &dyn Engine, keys: u32, value: &[u8]) {
    let mut batch = WriteBatch::new();
    (0..keys).for_each(|number| batch.put(key(number), value).unwrap());
    engine.write(&batch, false).unwrap();
}

/// What an opening has read of the pool of a store with four lists, in times that somebody waited, and what it and a closing have
/// written there, in cache lines. And how long that pool's lists and segments are.
fn costs(keys: u32, value_bytes: usize) -> ([u64; 2], u64) {
    let env = MemoryEnv::new();
    let options = Options {
        emulation: Emulation { read_latency_ns: 1, ..Emulation::default() },
        ..options(&env, 2 << 20, 32 << 20)
    };
    let engine = open(&options);
    for byte in 0..4 {
        put_all(&*engine, keys, &vec![byte; value_bytes]);
        engine.flush().unwrap();
    }
    engine.close().unwrap();
    drop(engine);
    let engine = open(&options);
    let stats = engine.stats();
    assert_eq!(stats.levels[0].runs, 4);
    engine.close().unwrap();
    let (reads, lines) = (stats.fast_tier_reads, engine.stats().since_open.lines_flushed);
    ([reads, lines], stats.fast_tier_node_bytes + stats.fast_tier_key_segment_bytes)
}

/// (Times would tell little here: a check of all bytes of these lists takes milliseconds.)
#[test]
fn opening_and_closing_cost_the_same_whatever_lists_hold() {
    let (small, small_bytes) = costs(100, 10);
    let (large, large_bytes) = costs(3000, 500);
    assert!(large_bytes > 10 * small_bytes, "{small_bytes}, {large_bytes}");
    assert_eq!(small, large, "{small_bytes} bytes, {large_bytes} bytes");
}

/// A kill while the first flush makes its record durable, right after it, and after the opening that follows.
#[test]
fn a_kill_around_the_first_flush_loses_nothing() {
    let env = MemoryEnv::new();
    let options_of = |env: &MemoryEnv| options(env, 128 << 10, 2 << 20);
    let engine = open(&options_of(&env));
    put_all(&*engine, 100, b"first");
    let killed = Arc::new(Mutex::new(Vec::new()));
    let (at_sync, of_sync) = (killed.clone(), env.clone());
    env.call_before("sync", move || at_sync.lock().unwrap().push(of_sync.kill()));
    engine.flush().unwrap();
    env.clear_calls();
    let mut killed = std::mem::take(&mut *killed.lock().unwrap());
    killed.push(env.kill());
    assert!(killed.len() > 1);
    drop(engine);
    for (number, mut env) in killed.into_iter().enumerate() {
        for opening in 0..3 {
            let engine = open(&options_of(&env));
            let found = |number| engine.get(&key(number)).unwrap().is_some_and(|value| value[..] == *b"first");
            assert_eq!((0..100).find(|number| !found(*number)), None, "kill {number}, opening {opening}");
            let report = engine.verify(&mut |_| ()).unwrap();
            assert!(report.is_clean(), "kill {number}, opening {opening}: {:?}", report.findings);
            env = env.kill();
        }
    }
}
