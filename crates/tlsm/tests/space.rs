//! Space: both tiers full, and what leads out of that.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use slmdb_engine::{CompactionOptions, Compression, Engine, Event, Medium, Options, WriteBatch};
use slmdb_testkit::{MemoryEnv, Random};
use slmdb_tlsm::{Tiering, TlsmOptions};

fn options(env: &MemoryEnv) -> Options {
    let mut own = TlsmOptions::default();
    (own.level_base_bytes, own.level_growth, own.level_zero_runs) = (32 << 10, 4, 2);
    (own.segment_bytes, own.fast_tier_bytes) = (64 << 10, 1 << 20);
    let mut options = Options {
        env: Arc::new(env.clone()),
        memtable_bytes: 32 << 10,
        memory_budget_bytes: 1 << 16,
        compaction: CompactionOptions { table_file_bytes: 32 << 10, ..CompactionOptions::default() },
        own: Some(Arc::new(own)),
        medium: Some(Medium::Emulated { path: "/pool".into() }),
        pool_initial_bytes: 8 << 20,
        pool_growth_bytes: 1 << 16,
        pool_maximum_bytes: 1 << 30,
        ..Options::default()
    };
    if std::env::var_os("TELL").is_some() {
        let at = std::time::Instant::now();
        options.event_listener =
            slmdb_engine::Listener(Some(Arc::new(move |event: &Event| eprintln!("{:?} {event:?}", at.elapsed()))));
    }
    options
}

#[test]
fn overwrites_go_on_where_pool_and_files_share_a_full_disk() {
    let env = MemoryEnv::new();
    env.set_capacity((3 << 19) + (8 << 20));
    let engine: Arc<dyn Engine> = (slmdb_tlsm::KIND.open)(&options(&env), Path::new("/db"), None).unwrap();
    let (mut model, mut random) = (BTreeMap::new(), Random(2));
    for write in 0..12_000_u32 {
        let key = (random.below(2500) as u32).wrapping_mul(0x9e37_79b9).to_be_bytes();
        let mut value = vec![0; 400];
        random.fill(&mut value);
        let mut batch = WriteBatch::new();
        batch.put(key, &value).unwrap();
        engine.write(&batch, false).unwrap_or_else(|error| panic!("write {write}: {error}"));
        model.insert(key, value);
    }
    for (key, value) in &model {
        assert_eq!(engine.get(key).unwrap().as_deref(), Some(&value[..]));
    }
    engine.close().unwrap();
}

fn put(engine: &dyn Engine, key: &[u8], value: &[u8]) -> slmdb_env::Result<()> {
    let mut batch = WriteBatch::new();
    batch.put(key, value).unwrap();
    engine.write(&batch, false)
}

/// (It divided by the number of MemTables, which was 0.)
#[test]
fn a_full_pool_opens_without_a_memtable() {
    let env = MemoryEnv::new();
    let small = Options { memtable_bytes: 4 << 10, pool_initial_bytes: 2 << 20, ..options(&env) };
    let engine = (slmdb_tlsm::KIND.open)(&small, Path::new("/db"), None).unwrap();
    put(&*engine, b"key", b"value").unwrap();
    engine.flush().unwrap();
    engine.close().unwrap();
    drop(engine);
    // Now there is space for a MANIFEST, but the pool can't grow, and what would be kept back for deletes is more than it has.
    env.set_capacity((2 << 20) + (32 << 10));
    let large = Options { memtable_bytes: 256 << 20, ..small };
    let engine = (slmdb_tlsm::KIND.open)(&large, Path::new("/db"), None).unwrap();
    assert_eq!(engine.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
}

#[test]
fn lists_that_leave_the_pool_are_counted() {
    for (tiering, leave) in [(Tiering::None, false), (Tiering::Lru, true)] {
        let env = MemoryEnv::new();
        let mut options = options(&env);
        let own = TlsmOptions { tiering, ..options.own() };
        options.own = Some(Arc::new(own));
        options.compression = Compression::None;
        let engine = (slmdb_tlsm::KIND.open)(&options, Path::new("/db"), None).unwrap();
        for number in 0..8000_u32 {
            put(&*engine, &number.wrapping_mul(0x9e37_79b9).to_be_bytes(), &[7; 400]).unwrap();
        }
        engine.compact_range(Bound::Unbounded, Bound::Unbounded).unwrap();
        let stats = engine.stats();
        let (bytes, in_pool) = stats
            .levels_with_runs()
            .fold((0, 0), |(bytes, in_pool), (_, level)| (bytes + level.bytes, in_pool + level.bytes_in_pool));
        assert!(bytes > 3_200_000, "{stats:#?}");
        assert_eq!((stats.demotions > 0, in_pool < bytes), (leave, leave), "{tiering:?}: {stats:#?}");
    }
}
