//! ChameleonDB against a map: whatever is done, it holds what the map holds, and so do its snapshots, also after kills and power cuts.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use slmdb_chameleon::{ChameleonOptions, UpperLevels};
use slmdb_engine::{CompactionOptions, CompactionPolicy, Compression, Engine, EngineSnapshot, Options, WriteBatch};
use slmdb_env::{Env, OpenMode};
use slmdb_testkit::{MemoryEnv, Random};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;
type Snapshots = Vec<(Arc<dyn EngineSnapshot>, Model)>;

const KEYS: u64 = 400;

/// Files so small that a few hundred entries are collected several times.
fn options(env: &MemoryEnv, random: &mut Random) -> Options {
    Options {
        env: Arc::new(env.clone()),
        memtable_bytes: 4 << 10,
        block_bytes: 256,
        compaction: CompactionOptions {
            table_file_bytes: 2 << 10,
            files_merged_max: 3,
            space_amplification_max: 1.1,
            ..CompactionOptions::default()
        },
        own: Some(Arc::new(ChameleonOptions {
            shards: None,
            bypass_bytes: [Some(1), Some(1), Some(u64::MAX), None][random.below(4) as usize],
            upper_levels: [UpperLevels::Flat, UpperLevels::None][random.below(2) as usize],
            dumped_tables_max: random.below(4) as u32,
            dumped_above: random.below(2),
            job_bytes: [1, 4 << 10, 1 << 20][random.below(3) as usize],
        })),
        ..Options::default()
    }
}

/// The same for a new store, with few shards or many.
fn options_of_new(env: &MemoryEnv, random: &mut Random) -> Options {
    let options = options(env, random);
    let own =
        ChameleonOptions { shards: Some([1, 4, 256][random.below(3) as usize]), ..options.own::<ChameleonOptions>() };
    Options { own: Some(Arc::new(own)), ..options }
}

pub(crate) fn open(options: &Options) -> Arc<dyn Engine> {
    (slmdb_chameleon::KIND.open)(options, Path::new("/db"), None).unwrap()
}

/// The same on another machine.
fn options_of(env: &MemoryEnv, options: &Options) -> Options {
    Options { env: Arc::new(env.clone()), ..options.clone() }
}

fn key(number: u64) -> Vec<u8> {
    format!("key {number:03}").into_bytes()
}

fn assert_holds(engine: &dyn Engine, model: &Model, context: &str) {
    let mut cursor = engine.cursor().unwrap();
    let mut found = Model::new();
    cursor.seek_first().unwrap();
    while cursor.valid() {
        found.insert(cursor.key().to_vec(), cursor.value().unwrap().to_vec());
        cursor.next().unwrap();
    }
    assert!(found == *model, "{context}: forwards");
    cursor.seek_last().unwrap();
    for (key, value) in model.iter().rev() {
        assert_eq!(cursor.key(), key, "{context}: backwards");
        assert_eq!(cursor.value_ref().unwrap(), value, "{context}: backwards");
        cursor.prev().unwrap();
    }
    assert!(!cursor.valid(), "{context}");
    for key in (0..KEYS).map(key) {
        let value = engine.get(&key).unwrap();
        assert_eq!(value.as_deref(), model.get(&key).map(|value| &value[..]), "{context}: a get");
    }
    let report = engine.verify(&mut |_| ()).unwrap();
    assert!(report.is_clean(), "{context}: {:?}", report.findings);
}

fn assert_snapshots_hold(snapshots: &Snapshots, context: &str) {
    for (snapshot, model) in snapshots {
        for key in (0..KEYS).map(key) {
            let value = snapshot.get(&key).unwrap();
            assert_eq!(value.as_deref(), model.get(&key).map(|value| &value[..]), "{context}: a snapshot");
        }
    }
}

/// Returns how many collections there were.
fn live_a_life(seed: u64) -> u64 {
    let (mut env, mut random, mut model) = (MemoryEnv::new(), Random(seed), Model::new());
    let mut engine = open(&options_of_new(&env, &mut random));
    let (mut snapshots, mut collections) = (Snapshots::new(), 0);
    for step in 0..3000_u64 {
        let context = format!("seed {seed}, step {step}");
        let key = key(random.below(KEYS));
        let mut batch = WriteBatch::new();
        match random.below(1000) {
            0..700 => {
                let value = vec![step as u8; random.below(200) as usize];
                batch.put(&key, &value).unwrap();
                model.insert(key, value);
            }
            700..950 => {
                batch.delete(&key).unwrap();
                model.remove(&key);
            }
            950..960 => engine.flush().unwrap(),
            960..963 => engine.compact_range(Bound::Unbounded, Bound::Unbounded).unwrap(),
            963..967 if snapshots.len() < 4 => snapshots.push((engine.snapshot().unwrap(), model.clone())),
            963..967 => assert_snapshots_hold(&snapshots.split_off(2), &context),
            967..970 => assert_holds(&*engine, &model, &context),
            970..973 => {
                assert_snapshots_hold(&std::mem::take(&mut snapshots), &context);
                collections += engine.stats().since_open.compactions;
                match random.below(3) {
                    0 => engine.close().unwrap(),
                    1 => env = env.kill(),
                    _ => {
                        engine.sync().unwrap();
                        env = env.crash();
                    }
                }
                drop(engine);
                engine = open(&options(&env, &mut random));
                assert_holds(&*engine, &model, &context);
            }
            _ => {}
        }
        if !batch.is_empty() {
            engine.write(&batch, false).unwrap();
        }
    }
    collections
}

#[test]
fn it_holds_what_a_map_holds() {
    let collections: u64 = (0..12).map(live_a_life).sum();
    assert!(collections > 100, "{collections}");
}

/// Deletes go once nothing is left that they hide; what they hid does not come back.
#[test]
fn deletes_go_when_a_range_is_compacted() {
    let (env, mut random) = (MemoryEnv::new(), Random(1));
    let engine = open(&options_of_new(&env, &mut random));
    for round in 0..2 {
        for number in 0..KEYS {
            let mut batch = WriteBatch::new();
            if round == 0 {
                batch.put(key(number), [1; 50]).unwrap();
            } else if number > 0 {
                batch.delete(key(number)).unwrap();
            }
            engine.write(&batch, false).unwrap();
        }
        engine.flush().unwrap();
    }
    let everything = (Bound::Unbounded, Bound::Unbounded);
    engine.compact_range(everything.0, everything.1).unwrap();
    let files = engine.table_files();
    assert_eq!(files.iter().map(|file| file.entries).sum::<u64>(), 1, "{files:?}");
    drop(engine);
    let left = Model::from([(key(0), vec![1; 50])]);
    assert_holds(&*open(&options(&env.kill(), &mut random)), &left, "opened again");
}

/// A request for a part of the keys leaves other files alone. What one of these has of a deleted key must stay hidden.
#[test]
fn a_delete_stays_while_a_file_that_is_not_collected_has_its_key() {
    let (env, mut random) = (MemoryEnv::new(), Random(1));
    let mut options = options_of_new(&env, &mut random);
    options.compaction.policy = CompactionPolicy::Manual;
    let engine = open(&options);
    let mut batch = WriteBatch::new();
    (0..30).for_each(|number| batch.put(key(number), [1; 20]).unwrap());
    engine.write(&batch, false).unwrap();
    engine.flush().unwrap();
    let mut batch = WriteBatch::new();
    [10, 200].into_iter().for_each(|number| batch.delete(key(number)).unwrap());
    engine.write(&batch, false).unwrap();
    engine.flush().unwrap();
    assert_eq!(engine.table_files().len(), 2);
    engine.compact_range(Bound::Included(&key(100)), Bound::Included(&key(300))).unwrap();
    let left: Model = (0..30).filter(|number| *number != 10).map(|number| (key(number), vec![1; 20])).collect();
    assert_holds(&*engine, &left, "collected for a part");
    assert_eq!(
        engine.table_files().iter().map(|file| file.deletes).sum::<u64>(),
        1,
        "of key 200 nothing is left to hide"
    );
    drop(engine);
    assert_holds(&*open(&options_of(&env.kill(), &options)), &left, "opened again");
}

/// Options of a store with one shard, whose bypass is full after some dozen keys.
fn one_shard(env: &MemoryEnv) -> Options {
    let own = ChameleonOptions { shards: Some(1), bypass_bytes: Some(1), ..ChameleonOptions::default() };
    Options { own: Some(Arc::new(own)), ..options(env, &mut Random(1)) }
}

/// The paths of the hash tables of a store.
fn hash_tables(env: &MemoryEnv) -> Vec<PathBuf> {
    let entries = env.list_directory(Path::new("/db")).unwrap().into_iter().map(|entry| entry.name);
    entries.filter(|name| name.ends_with(".hash")).map(|name| Path::new("/db").join(name)).collect()
}

/// A last table that is damaged can't be merged. Then upper tables alone have what is in the frozen bypass: they were gathered without
/// it, and the next opening had lost those keys.
#[test]
fn a_table_that_cannot_be_merged_costs_no_other_key() {
    let env = MemoryEnv::new();
    let engine = open(&one_shard(&env));
    let put = |engine: &dyn Engine, number: u64| {
        let mut batch = WriteBatch::new();
        batch.put(key(number), [2; 100]).unwrap();
        engine.write(&batch, false).unwrap();
    };
    (0..40).for_each(|number| put(&*engine, number));
    engine.compact_range(Bound::Unbounded, Bound::Unbounded).unwrap();
    engine.close().unwrap();
    // Behind the last slot: searches don't come there, a merge does.
    let env = env.kill();
    let tables = hash_tables(&env);
    let [table] = &tables[..] else { panic!("{tables:?}") };
    let file = env.open_file(table, OpenMode::ReadWrite).unwrap();
    file.write_at(&[1], file.length_bytes().unwrap() - 1).unwrap();
    let engine = open(&one_shard(&env));
    for number in 100..250 {
        put(&*engine, number);
        engine.flush().unwrap();
        if number == 180 {
            // The bypass is full by then.
            std::thread::sleep(Duration::from_millis(300));
        }
    }
    std::thread::sleep(Duration::from_millis(300));
    let env = env.kill();
    let engine = open(&one_shard(&env));
    for number in (0..40).chain(100..250) {
        assert_eq!(engine.get(&key(number)).unwrap().as_deref(), Some(&[2; 100][..]), "{number}");
    }
}

/// A collection kept two entries: one that is current, and a delete that a later one had replaced, whose slots had both vanished. As
/// there was no hash table, the next opening took that delete for the newest entry of its key. Then the later one went as garbage, and
/// what lay between them was back.
#[test]
fn a_delete_that_was_replaced_counts_for_no_slot_at_the_next_opening() {
    let env = MemoryEnv::new();
    let mut options = Options { compression: Compression::None, memtable_bytes: 64 << 10, ..one_shard(&env) };
    options.compaction.policy = CompactionPolicy::Manual;
    let engine = open(&options);
    let deleted = key(500);
    let flush = |numbers: &[u64], change: Option<bool>| {
        let mut batch = WriteBatch::new();
        numbers.iter().for_each(|&number| batch.put(key(number), [1; 100]).unwrap());
        match change {
            Some(true) => batch.put(&deleted, [2; 100]).unwrap(),
            Some(false) => batch.delete(&deleted).unwrap(),
            None => {}
        }
        engine.write(&batch, false).unwrap();
        engine.flush().unwrap();
    };
    let numbers = |range: std::ops::Range<u64>| -> Vec<u64> { range.collect() };
    let compact = |from, to| engine.compact_range(Bound::Included(&key(from)), Bound::Included(&key(to))).unwrap();
    // Something older, which deletes may hide; then a delete, a put, and another delete.
    flush(&[490, 495, 510], None);
    flush(&numbers(10..20), Some(false));
    flush(&numbers(40..140), Some(true));
    flush(&numbers(600..620), Some(false));
    let last_delete = engine.table_files().len() as u32;
    flush(&[495].into_iter().chain(600..619).collect::<Vec<u64>>(), None);
    // All slots come into the last table, those of deletes vanish. Nothing is collected, and then the first delete's file.
    compact(900, 910);
    compact(5, 30);
    drop(engine);
    let env = env.kill();
    let mut options = options_of(&env, &options);
    let compaction = &mut options.compaction;
    (compaction.policy, compaction.space_amplification_max) = (CompactionPolicy::GarbageFirst, 1.02);
    let engine = open(&options);
    let give_up = Instant::now() + Duration::from_secs(60);
    while engine.table_files().iter().any(|file| file.number == last_delete) {
        assert!(Instant::now() < give_up, "the last delete's file stays: {:?}", engine.table_files());
        std::thread::sleep(Duration::from_millis(10));
    }
    let left = [490, 495, 510].into_iter().chain(10..20).chain(40..140).chain(600..620);
    let model: Model = left.map(|number| (key(number), vec![1; 100])).collect();
    assert_holds(&*engine, &model, "deleted twice");
}

/// Few keys that are overwritten for ever never fill a bypass.
#[test]
fn few_keys_overwritten_for_ever_leave_few_tables() {
    let env = MemoryEnv::new();
    // (Values that become short would make hash tables of flushes not worth their length.)
    let engine = open(&Options { compression: Compression::None, ..one_shard(&env) });
    for round in 0..400_u64 {
        let mut batch = WriteBatch::new();
        (0..20).for_each(|number| batch.put(key(number), [round as u8; 150]).unwrap());
        engine.write(&batch, false).unwrap();
        engine.flush().unwrap();
    }
    let give_up = Instant::now() + Duration::from_secs(60);
    while hash_tables(&env).len() > 66 {
        assert!(Instant::now() < give_up, "{} hash tables", hash_tables(&env).len());
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(engine.table_files().len() < 20, "{} table files", engine.table_files().len());
}

/// A version that a snapshot sees stays in the files of collections, and goes with the snapshot.
#[test]
fn what_a_snapshot_sees_stays_until_it_goes() {
    let (env, mut random) = (MemoryEnv::new(), Random(1));
    let engine = open(&options_of_new(&env, &mut random));
    let put_all = |value: u8| {
        for number in 0..KEYS {
            let mut batch = WriteBatch::new();
            batch.put(key(number), [value; 50]).unwrap();
            engine.write(&batch, false).unwrap();
        }
        engine.flush().unwrap();
    };
    let entries = || engine.table_files().iter().map(|file| file.entries).sum::<u64>();
    let compact = || engine.compact_range(Bound::Unbounded, Bound::Unbounded).unwrap();
    put_all(1);
    let snapshot = engine.snapshot().unwrap();
    let seen: Model = (0..KEYS).map(|number| (key(number), vec![1; 50])).collect();
    for value in 2..6 {
        put_all(value);
        compact();
    }
    assert_eq!(entries(), 2 * KEYS);
    let snapshots = vec![(snapshot, seen)];
    assert_snapshots_hold(&snapshots, "after collections");
    drop(snapshots);
    compact();
    assert_eq!(entries(), KEYS);
}
