//! Pool and disk filled to the last byte, with each tiering: what is too much is refused, all that was acknowledged is there, and
//! deletes and a compaction that is asked for lead out.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use slmdb_engine::{CompactionOptions, Compression, Engine, Medium, Options, WriteBatch};
use slmdb_env::{ErrorKind, Result};
use slmdb_testkit::{MemoryEnv, Random};
use slmdb_tlsm::{Tiering, TlsmOptions};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const POOL_BYTES: u64 = 4 << 20;
/// What there is beside the pool.
const DISK_BYTES: u64 = 3 << 20;

fn options(env: &MemoryEnv, tiering: Tiering) -> Options {
    let mut own = TlsmOptions { tiering, segment_bytes: 64 << 10, fast_tier_bytes: 1 << 20, ..TlsmOptions::default() };
    (own.level_base_bytes, own.level_growth, own.level_zero_runs) = (64 << 10, 4, 2);
    Options {
        env: Arc::new(env.clone()),
        memtable_bytes: 32 << 10,
        memory_budget_bytes: 1 << 16,
        compaction: CompactionOptions { table_file_bytes: 64 << 10, ..CompactionOptions::default() },
        compression: Compression::None,
        own: Some(Arc::new(own)),
        medium: Some(Medium::Emulated { path: "/pool".into() }),
        pool_initial_bytes: POOL_BYTES,
        pool_maximum_bytes: POOL_BYTES,
        ..Options::default()
    }
}

fn open(env: &MemoryEnv, tiering: Tiering) -> Arc<dyn Engine> {
    (slmdb_tlsm::KIND.open)(&options(env, tiering), Path::new("/db"), None).unwrap()
}

fn put(engine: &dyn Engine, key: &[u8], value: &[u8]) -> Result<()> {
    let mut batch = WriteBatch::new();
    batch.put(key, value).unwrap();
    engine.write(&batch, false)
}

/// Puts values of these lengths until one is refused. Returns what was taken, in bytes.
fn fill(engine: &dyn Engine, model: &mut Model, random: &mut Random, value_bytes: u64) -> u64 {
    let mut taken_bytes = 0;
    loop {
        let (key, mut value) =
            (random.number().to_be_bytes().to_vec(), vec![0; 1 + random.below(value_bytes) as usize]);
        random.fill(&mut value);
        if let Err(error) = put(engine, &key, &value) {
            assert_eq!(error.kind(), ErrorKind::Full, "{error}");
            return taken_bytes;
        }
        taken_bytes += (key.len() + value.len()) as u64;
        model.insert(key, value);
    }
}

fn assert_holds(engine: &dyn Engine, model: &Model, context: &str) {
    let (mut cursor, mut found) = (engine.cursor().unwrap(), Model::new());
    cursor.seek_first().unwrap();
    while cursor.valid() {
        found.insert(cursor.key().to_vec(), cursor.value().unwrap().to_vec());
        cursor.next().unwrap();
    }
    assert!(found == *model, "{context}: {} keys in the place of {}", found.len(), model.len());
}

/// A delete that has waited for a flush long enough is refused, and taken the next time. Where the disk is full, too, it may be refused
/// until a compaction is asked for. Returns whether it was taken.
fn delete(engine: &dyn Engine, key: &[u8]) -> bool {
    let mut batch = WriteBatch::new();
    batch.delete(key).unwrap();
    let is_taken = || (0..100).any(|_| engine.write(&batch, false).is_ok());
    is_taken() || {
        engine.compact_range(Bound::Unbounded, Bound::Unbounded).unwrap();
        is_taken()
    }
}

/// `leads_out`: deletes and compactions always lead out, without more space on the disk.
fn fills_to_the_last_byte(tiering: Tiering, seed: u64, leads_out: bool) {
    let (env, mut model, mut random) = (MemoryEnv::new(), Model::new(), Random(seed));
    env.set_capacity(POOL_BYTES + DISK_BYTES);
    let engine = open(&env, tiering);
    // Shorter ones find what longer ones leave.
    let filled_bytes: u64 =
        [2000, 100, 1].into_iter().map(|value_bytes| fill(&*engine, &mut model, &mut random, value_bytes)).sum();
    assert_holds(&*engine, &model, "full");
    engine.flush().unwrap_or_else(|error| panic!("what was accepted can't be flushed: {error}"));
    assert_holds(&*engine, &model, "flushed");

    // In no order, as the keys came in none.
    let keys: Vec<Vec<u8>> = model.keys().cloned().collect();
    for key in keys.iter().filter(|key| key[7] % 4 > 0) {
        let is_taken = delete(&*engine, key);
        if !is_taken && !leads_out {
            env.set_capacity(POOL_BYTES + 2 * DISK_BYTES);
        }
        let left = model.len();
        assert!(is_taken || (!leads_out && delete(&*engine, key)), "a delete is refused for ever, {left} are left");
        model.remove(key);
    }
    engine.compact_range(Bound::Unbounded, Bound::Unbounded).unwrap();
    assert_holds(&*engine, &model, "three of four deleted");
    let again_bytes = fill(&*engine, &mut model, &mut random, 2000);
    assert!(again_bytes > filled_bytes / 3, "{filled_bytes} bytes, three of four deleted, then {again_bytes} more");
    assert_holds(&*engine, &model, "full again");
    let report = engine.verify(&mut |_| ()).unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
    engine.close().unwrap();
    drop(engine);
    let engine = open(&env, tiering);
    assert_holds(&*engine, &model, "opened as full as it was");
    engine.close().unwrap();
}

#[test]
fn a_pool_filled_to_the_last_byte_that_keeps_all_lists() {
    fills_to_the_last_byte(Tiering::None, 14, true);
}

#[test]
fn pool_and_disk_filled_to_the_last_byte_by_levels() {
    fills_to_the_last_byte(Tiering::Leveled { last_in_pool: 1 }, 14, true);
}

#[test]
fn pool_and_disk_filled_to_the_last_byte_from_above() {
    fills_to_the_last_byte(Tiering::Upper, 14, true);
}

/// (Where nothing else leads out, the disk gets more space.)
#[test]
fn pool_and_disk_filled_to_the_last_byte_by_age() {
    fills_to_the_last_byte(Tiering::Lru, 14, false);
}

/// Many at once, as it takes a busy machine.
#[test]
#[ignore = "finds a bug, once in some hundred runs: deletes are refused for ever, and compact_range does nothing and says Ok"]
fn deletes_lead_out_of_a_full_pool_and_a_full_disk_by_age() {
    for round in 0..50 {
        std::thread::scope(|scope| {
            (0..10).for_each(|seed| {
                _ = scope.spawn(move || fills_to_the_last_byte(Tiering::Lru, 10 * round + seed, true))
            });
        });
    }
}
