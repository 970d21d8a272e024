//! TLSM against a map: whatever is done, it holds what the map holds, and so do its snapshots.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use slmdb_engine::{CompactionOptions, Engine, EngineSnapshot, Options, WriteBatch};
use slmdb_testkit::{MemoryEnv, Random};
use slmdb_tlsm::TlsmOptions;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const KEYS: u64 = 400;

/// Levels so small that a few hundred entries go through several of them.
fn options(env: &MemoryEnv) -> Options {
    let mut own = TlsmOptions::default();
    (own.level_base_bytes, own.level_growth, own.level_zero_runs) = (8 << 10, 2, 2);
    Options {
        env: Arc::new(env.clone()),
        memtable_bytes: 4 << 10,
        block_bytes: 256,
        compaction: CompactionOptions { table_file_bytes: 2 << 10, ..CompactionOptions::default() },
        own: Some(Arc::new(own)),
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
    for seed in 0..6 {
        let (env, mut random, mut model) = (MemoryEnv::new(), Random(seed), Model::new());
        let options = options(&env);
        let mut engine = open(&options);
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
                }
                997 => {
                    snapshots.clear();
                    engine.close().unwrap();
                    drop(engine);
                    engine = open(&options);
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
}

/// A power cut takes whatever was not synced.
#[test]
fn what_was_synced_survives_power_cuts_anywhere() {
    for seed in 0..40 {
        let (env, mut random, mut model) = (MemoryEnv::new(), Random(100 + seed), Model::new());
        let engine = open(&options(&env));
        for step in 0..300 + random.below(600) {
            let key = key(&mut random);
            let mut batch = WriteBatch::new();
            let value = step.to_le_bytes().repeat(8);
            batch.put(&key, &value).unwrap();
            engine.write(&batch, true).unwrap();
            model.insert(key, value);
        }
        let survivor = env.crash();
        let again = open(&options(&survivor));
        assert_holds(&*again, &model, &format!("seed {seed}"));
        again.close().unwrap();
        drop(engine);
    }
}
