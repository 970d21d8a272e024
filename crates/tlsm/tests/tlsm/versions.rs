//! Versions that snapshots see, in lists.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use slmdb_engine::{
    CompactionOptions, CompactionPolicy, Engine, EngineCursor, EngineSnapshot, Medium, Options, WriteBatch,
};
use slmdb_manifest::Manifest;
use slmdb_pmem::{ExtentKind, Persistent, Pool, PoolOptions, UNIT_BYTES};
use slmdb_testkit::{MemoryEnv, Random};
use slmdb_tlsm::{Tiering, TlsmOptions};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn options(env: &MemoryEnv, own: TlsmOptions, memtable_bytes: u64, pool_bytes: u64) -> Options {
    Options {
        env: Arc::new(env.clone()),
        memtable_bytes,
        own: Some(Arc::new(TlsmOptions { tiering: Tiering::None, ..own })),
        medium: Some(Medium::Emulated { path: "/pool".into() }),
        pool_initial_bytes: pool_bytes,
        pool_maximum_bytes: pool_bytes,
        ..Options::default()
    }
}

fn open(options: &Options) -> Arc<dyn Engine> {
    (slmdb_tlsm::KIND.open)(options, Path::new("/db"), None).unwrap()
}

/// All that a cursor sees, forwards; backwards it sees the same.
fn contents(cursor: &mut dyn EngineCursor) -> Model {
    let (mut forwards, mut backwards) = (Model::new(), Model::new());
    cursor.seek_first().unwrap();
    while cursor.valid() {
        forwards.insert(cursor.key().to_vec(), cursor.value().unwrap().to_vec());
        cursor.next().unwrap();
    }
    cursor.seek_last().unwrap();
    while cursor.valid() {
        backwards.insert(cursor.key().to_vec(), cursor.value().unwrap().to_vec());
        cursor.prev().unwrap();
    }
    assert!(forwards == backwards, "{} keys forwards, {} backwards", forwards.len(), backwards.len());
    forwards
}

fn assert_sees(snapshot: &dyn EngineSnapshot, model: &Model, keys: impl Iterator<Item = Vec<u8>>, context: &str) {
    assert!(contents(&mut *snapshot.cursor().unwrap()) == *model, "{context}: a snapshot's cursor");
    for key in keys {
        let found = snapshot.get(&key).unwrap();
        assert_eq!(found.as_deref(), model.get(&key).map(|value| &value[..]), "{context}: {}", key.escape_ascii());
    }
}

fn key(number: u64) -> Vec<u8> {
    format!("key{number:02}").into_bytes()
}

/// Few keys, of which as many are deleted as put, and many moments. The same as of runs in memory and of table files
/// (`crates/levels/src/tests`), but for the threads that compact whatever is due.
#[test]
fn every_moment_sees_what_it_saw_in_lists() {
    const KEYS: u64 = 24;
    let mut depth = 0;
    for seed in 0..8 {
        let mut own = TlsmOptions { segment_bytes: 64 << 10, run_bytes: 1 << 10, ..TlsmOptions::default() };
        (own.level_base_bytes, own.level_growth, own.level_zero_runs) = (1 << 10, 2, 2);
        own.points_at_entries = seed % 4 > 0;
        own.list_filter_bits = if seed % 2 == 0 { 10 } else { 0 };
        let mut options = options(&MemoryEnv::new(), own, 4 << 10, 16 << 20);
        options.compaction.table_file_bytes = 2 << 10;
        let engine = open(&options);
        let (mut model, mut random) = (Model::new(), Random(300 + seed));
        let mut snapshots: Vec<(Arc<dyn EngineSnapshot>, Model)> = Vec::new();
        for step in 0..2500 {
            let (context, at) = (format!("seed {seed}, step {step}"), random.below(KEYS));
            let mut batch = WriteBatch::new();
            match random.below(100) {
                0..44 => {
                    let value = vec![step as u8; random.below(100) as usize];
                    batch.put(key(at), &value).unwrap();
                    model.insert(key(at), value);
                }
                44..88 => {
                    batch.delete(key(at)).unwrap();
                    model.remove(&key(at));
                }
                88..91 => engine.flush().unwrap(),
                91..93 => {
                    let to = key(at + random.below(8));
                    engine.compact_range(Bound::Included(&key(at)), Bound::Included(&to)).unwrap();
                }
                93..97 if snapshots.len() < 8 => snapshots.push((engine.snapshot().unwrap(), model.clone())),
                _ if !snapshots.is_empty() => {
                    let (snapshot, seen) = snapshots.swap_remove(random.below(snapshots.len() as u64) as usize);
                    assert_sees(&*snapshot, &seen, (0..KEYS).map(key), &context);
                }
                _ => {}
            }
            engine.write(&batch, false).unwrap();
            depth = depth.max(engine.stats().levels.len());
        }
        for (snapshot, seen) in snapshots.drain(..) {
            assert_sees(&*snapshot, &seen, (0..KEYS).map(key), &format!("seed {seed}, at the end"));
        }
        engine.compact_range(Bound::Unbounded, Bound::Unbounded).unwrap();
        assert!(contents(&mut *engine.cursor().unwrap()) == model, "seed {seed}");
        let lists = engine.table_files();
        assert!(lists.iter().all(|list| list.is_in_pool && list.deletes == 0), "{lists:#?}");
        let report = engine.verify(&mut |_| ()).unwrap();
        assert!(report.is_clean(), "seed {seed}: {:?}", report.findings);
        engine.close().unwrap();
    }
    assert!(depth >= 4, "no more than {depth} levels");
}

/// Parts the free units of a closed store's pool into pieces: between them lies something of no engine's. A MemTable has room where the
/// store's last one was.
fn cut_pool_to_pieces(env: &MemoryEnv, options: &Options, piece_bytes: u64) {
    let uuid = Manifest::read(env, Path::new("/db")).unwrap().state.medium.pool_uuid.unwrap();
    let maximum_bytes = options.pool_maximum_bytes;
    let pool_options = PoolOptions { initial_bytes: maximum_bytes, growth_bytes: 0, maximum_bytes, uuid };
    let pool = Pool::open(env, Path::new("/pool"), Persistent::new(), &pool_options, false).unwrap();
    let lengths = [UNIT_BYTES, piece_bytes].into_iter().cycle();
    let made: Vec<_> = lengths.map_while(|bytes| pool.allocate_extent(ExtentKind::Records, bytes, 1).ok()).collect();
    let freed = made.iter().filter(|extent| extent.length_bytes > UNIT_BYTES);
    freed.for_each(|extent| pool.free_extent(extent.offset).unwrap());
    pool.seal().unwrap();
}

/// Where no list of a MemTable finds room, a flush makes several: of each key all versions are in one of them.
#[test]
fn versions_stay_together_where_a_flush_makes_several_lists() {
    let (env, keys, memtable_bytes) = (MemoryEnv::new(), 12_500_u32, 10 << 20);
    let mut options = options(&env, TlsmOptions::default(), memtable_bytes, 64 << 20);
    options.compaction = CompactionOptions { policy: CompactionPolicy::Manual, ..options.compaction };
    open(&options).close().unwrap();
    cut_pool_to_pieces(&env, &options, 9 * UNIT_BYTES);
    let engine = open(&options);
    let (mut model, mut seen) = (Model::new(), Vec::new());
    for round in 0..3_u32 {
        for numbers in (0..keys).collect::<Vec<_>>().chunks(500) {
            let mut batch = WriteBatch::new();
            for number in numbers {
                batch.put(number.to_be_bytes(), round.to_be_bytes()).unwrap();
                model.insert(number.to_be_bytes().to_vec(), round.to_be_bytes().to_vec());
            }
            engine.write(&batch, false).unwrap();
        }
        seen.push((engine.snapshot().unwrap(), model.clone()));
    }
    engine.flush().unwrap();
    let mut lists = engine.table_files();
    lists.sort_by(|one, other| one.smallest_key.cmp(&other.smallest_key));
    assert!(lists.len() > 1 && lists.iter().all(|list| list.is_in_pool && list.level == 0), "{lists:#?}");
    assert_eq!(lists.iter().map(|list| list.entries).sum::<u64>(), 3 * u64::from(keys), "all versions are kept");
    for pair in lists.windows(2) {
        assert!(pair[0].largest_key < pair[1].smallest_key, "{:?} is torn apart", pair[1].smallest_key);
    }
    for (round, (snapshot, model)) in seen.iter().enumerate() {
        assert_sees(&**snapshot, model, model.keys().cloned(), &format!("round {round}"));
    }
    let report = engine.verify(&mut |_| ()).unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
    engine.close().unwrap();
}
