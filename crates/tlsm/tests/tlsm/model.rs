//! TLSM against a map: whatever is done, it holds what the map holds, and so do its snapshots. On `Dram`, and with a pool whose policy is
//! another one at each opening.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use slmdb_engine::{CompactionOptions, Engine, EngineSnapshot, Medium, Options, WriteBatch};
use slmdb_testkit::{MemoryEnv, Random};
use slmdb_tlsm::{Tiering, TlsmOptions};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const KEYS: u64 = 400;

/// A policy, and how soon segments are emptied.
fn any_policy(random: &mut Random, own: &mut TlsmOptions) {
    own.tiering = match random.below(5) {
        0 => Tiering::None,
        1 => Tiering::Leveled { last_in_pool: random.below(4) as u8 },
        2 => Tiering::Lru,
        _ => Tiering::Upper,
    };
    own.fast_tier_bytes = (256 << 10) << random.below(5);
    own.segment_live_min = [0.0, 0.05, 0.5][random.below(3) as usize];
    own.run_bytes = [0, 1 << 10][random.below(2) as usize];
    own.list_filter_bits = [0, 10][random.below(2) as usize];
    own.points_at_entries = !random.one_in(8);
}

/// Levels so small that a few hundred entries go through several of them.
fn options(env: &MemoryEnv, has_pool: bool, random: &mut Random) -> Options {
    let mut own = TlsmOptions::default();
    (own.level_base_bytes, own.level_growth, own.level_zero_runs) = (8 << 10, 2, 2);
    own.segment_bytes = 64 << 10;
    any_policy(random, &mut own);
    Options {
        env: Arc::new(env.clone()),
        memtable_bytes: 4 << 10,
        block_bytes: 256,
        compaction: CompactionOptions { table_file_bytes: 2 << 10, ..CompactionOptions::default() },
        own: Some(Arc::new(own)),
        medium: has_pool.then(|| Medium::Emulated { path: "/pools/pool".into() }),
        pool_initial_bytes: 1 << 20,
        pool_growth_bytes: 1 << 20,
        ..Options::default()
    }
}

fn open(options: &Options) -> Arc<dyn Engine> {
    (slmdb_tlsm::KIND.open)(options, Path::new("/db"), None).unwrap()
}

fn key(random: &mut Random) -> Vec<u8> {
    format!("key {:03}", random.below(KEYS)).into_bytes()
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
}

fn assert_snapshot_holds(snapshot: &dyn EngineSnapshot, model: &Model, context: &str) {
    for number in 0..KEYS {
        let key = format!("key {number:03}").into_bytes();
        let value = snapshot.get(&key).unwrap();
        assert_eq!(value.as_deref(), model.get(&key).map(|value| &value[..]), "{context}: a snapshot, {number}");
    }
}

#[test]
fn it_holds_what_a_map_holds() {
    let mut have_met = [0; 2];
    for seed in 0..12 {
        let (env, mut random, mut model) = (MemoryEnv::new(), Random(seed), Model::new());
        let has_pool = seed % 3 > 0;
        env.map_files_in("/pools");
        let mut engine = open(&options(&env, has_pool, &mut random));
        let mut snapshots: Vec<(Arc<dyn EngineSnapshot>, Model)> = Vec::new();
        for step in 0..4000 {
            let context = format!("seed {seed}, step {step}");
            match random.below(1000) {
                0..700 => {
                    let (key, value) = (key(&mut random), vec![step as u8; random.below(200) as usize]);
                    let mut batch = WriteBatch::new();
                    batch.put(&key, &value).unwrap();
                    engine.write(&batch, false).unwrap();
                    model.insert(key, value);
                }
                700..960 => {
                    let key = key(&mut random);
                    let mut batch = WriteBatch::new();
                    batch.delete(&key).unwrap();
                    engine.write(&batch, false).unwrap();
                    model.remove(&key);
                }
                960..980 => {
                    let key = key(&mut random);
                    assert_eq!(engine.get(&key).unwrap().as_deref(), model.get(&key).map(|value| &value[..]));
                }
                980..985 => engine.flush().unwrap(),
                985..988 => engine.compact_range(Bound::Unbounded, Bound::Unbounded).unwrap(),
                988..992 if snapshots.len() < 4 => snapshots.push((engine.snapshot().unwrap(), model.clone())),
                988..995 if !snapshots.is_empty() => {
                    let (snapshot, seen) = snapshots.swap_remove(random.below(snapshots.len() as u64) as usize);
                    assert_snapshot_holds(&*snapshot, &seen, &context);
                }
                995..997 => {
                    assert_holds(&*engine, &model, &context);
                    let report = engine.verify(&mut |_| ()).unwrap();
                    assert!(report.is_clean(), "{context}: {:?}", report.findings);
                    for run in engine.table_files() {
                        assert!(has_pool || !run.is_in_pool);
                        have_met[usize::from(run.is_in_pool)] += 1;
                    }
                }
                997 => {
                    snapshots.clear();
                    engine.close().unwrap();
                    drop(engine);
                    engine = open(&options(&env, has_pool, &mut random));
                }
                _ => {}
            }
        }
        for (snapshot, seen) in &snapshots {
            assert_snapshot_holds(&**snapshot, seen, "at the end");
        }
        drop(snapshots);
        engine.compact_range(Bound::Unbounded, Bound::Unbounded).unwrap();
        assert_holds(&*engine, &model, "compacted");
        let files = engine.table_files();
        assert!(files.iter().all(|file| file.deletes == 0), "nothing is left that deletes could hide");
        engine.close().unwrap();
    }
    assert!(have_met.iter().all(|&runs| runs > 100), "files and lists: {have_met:?}");
}

/// A power cut takes whatever was not synced.
#[test]
fn what_was_synced_survives_power_cuts_anywhere() {
    for seed in 0..40 {
        let (env, mut random, mut model) = (MemoryEnv::new(), Random(100 + seed), Model::new());
        let engine = open(&options(&env, false, &mut random));
        for step in 0..300 + random.below(600) {
            let key = key(&mut random);
            let mut batch = WriteBatch::new();
            let value = step.to_le_bytes().repeat(8);
            batch.put(&key, &value).unwrap();
            engine.write(&batch, true).unwrap();
            model.insert(key, value);
        }
        let survivor = env.crash();
        let again = open(&options(&survivor, false, &mut random));
        assert_holds(&*again, &model, &format!("seed {seed}"));
        again.close().unwrap();
        drop(engine);
    }
}

/// A kill at any moment, also of what recovers. Nothing is lost, and nothing is left over in the pool.
#[test]
fn what_was_acknowledged_survives_kills_anywhere() {
    for seed in 0..40 {
        let (mut env, mut random, mut model) = (MemoryEnv::new(), Random(200 + seed), Model::new());
        env.map_files_in("/pools");
        for round in 0..3 {
            let engine = open(&options(&env, true, &mut random));
            for step in 0..100 + random.below(500) {
                let key = key(&mut random);
                let mut batch = WriteBatch::new();
                let value = vec![step as u8; random.below(300) as usize];
                batch.put(&key, &value).unwrap();
                engine.write(&batch, false).unwrap();
                model.insert(key, value);
            }
            let survivor = env.kill();
            drop(engine);
            env = survivor;
            let again = open(&options(&env, true, &mut random));
            let context = format!("seed {seed}, round {round}");
            assert_holds(&*again, &model, &context);
            let report = again.verify(&mut |_| ()).unwrap();
            assert!(report.is_clean(), "{context}: {:?}", report.findings);
            let killed_again = env.kill();
            drop(again);
            env = killed_again;
        }
    }
}

/// A cursor that goes on through many compactions sees its moment, both ways, and at last lets go of what has left the levels.
#[test]
fn a_cursor_that_goes_on_sees_its_moment_and_keeps_no_old_lists() {
    for forward in [true, false] {
        let (env, mut random) = (MemoryEnv::new(), Random(7));
        env.map_files_in("/pools");
        let options = options(&env, true, &mut random);
        let engine = open(&options);
        let put = |number: u32, value: &[u8]| {
            let mut batch = WriteBatch::new();
            batch.put(format!("{number:06}").as_bytes(), value).unwrap();
            engine.write(&batch, false).unwrap();
        };
        (0..20_000).for_each(|number| put(number, b"first"));
        engine.flush().unwrap();
        let mut cursor = engine.cursor().unwrap();
        if forward {
            cursor.seek_first().unwrap()
        } else {
            cursor.seek_last().unwrap()
        }
        for seen in 0..20_000 {
            let number = if forward { seen } else { 19_999 - seen };
            assert_eq!(cursor.key(), format!("{number:06}").as_bytes());
            assert_eq!(cursor.value_ref().unwrap(), b"first", "{number}");
            // Behind the cursor and before it.
            put(random.below(20_000) as u32, b"newer");
            if seen % 500 == 0 {
                (0..50).for_each(|_| put(random.below(20_000) as u32, b"newer"));
            }
            if forward { cursor.next().unwrap() } else { cursor.prev().unwrap() }
        }
        assert!(!cursor.valid());
        drop(cursor);
        engine.compact_range(Bound::Unbounded, Bound::Unbounded).unwrap();
        let report = engine.verify(&mut |_| ()).unwrap();
        assert!(report.is_clean(), "{:?}", report.findings);
        engine.close().unwrap();
    }
}
