//! A store on `Dram` and on a pool does what a map does, through flushes, switches, chunks, levels and openings.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use slmdb_engine::{CompactionOptions, Condition, Engine, EngineCursor, EngineSnapshot, Medium, Options, WriteBatch};
use slmdb_lab::LabOptions;
use slmdb_testkit::MemoryEnv;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Options with which a few hundred entries go through all levels.
fn options(env: &MemoryEnv, has_pool: bool, leaf_scan_part: f64) -> Options {
    Options {
        env: Arc::new(env.clone()),
        medium: has_pool.then(|| Medium::Emulated { path: "/pool".into() }),
        memtable_bytes: 4 << 10,
        block_bytes: 256,
        compaction: CompactionOptions { table_file_bytes: 2 << 10, ..CompactionOptions::default() },
        own: Some(Arc::new(LabOptions {
            level_zero_bytes: 8 << 10,
            leaf_scan_part,
            level_base_bytes: 4 << 10,
            level_growth: 2,
            ..LabOptions::default()
        })),
        ..Options::default()
    }
}

#[derive(Debug, Clone)]
enum Step {
    Put(u16, u16),
    Delete(u16),
    Many(u16, u16),
    Insert(u16),
    Flush,
    CompactAll,
    Snapshot,
    Reopen,
    Check,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => (0..300_u16, 0..200_u16).prop_map(|(key, bytes)| Step::Put(key, bytes)),
        8 => (0..300_u16).prop_map(Step::Delete),
        6 => (0..300_u16, 1..60_u16).prop_map(|(key, count)| Step::Many(key, count)),
        2 => (0..300_u16).prop_map(Step::Insert),
        3 => Just(Step::Flush),
        1 => Just(Step::CompactAll),
        2 => Just(Step::Snapshot),
        1 => Just(Step::Reopen),
        3 => Just(Step::Check),
    ]
}

/// From file scans alone to leaf scans alone.
fn leaf_scan_part() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), Just(0.7), Just(1.0)]
}

fn key(number: u16) -> Vec<u8> {
    format!("key {number:05}").into_bytes()
}

fn write(engine: &dyn Engine, change: impl FnOnce(&mut WriteBatch)) {
    let mut batch = WriteBatch::new();
    change(&mut batch);
    engine.write(&batch, false).unwrap();
}

/// Walks a cursor over everything, in both directions, and turns it round on the way.
fn check_cursor(cursor: &mut dyn EngineCursor, model: &Model) {
    let mut found = Vec::new();
    cursor.seek_first().unwrap();
    while cursor.valid() {
        found.push((cursor.key().to_vec(), cursor.value().unwrap().to_vec()));
        cursor.next().unwrap();
    }
    let expected: Vec<(Vec<u8>, Vec<u8>)> = model.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    assert_eq!(found.len(), expected.len(), "forwards");
    assert!(found == expected, "forwards");
    found.clear();
    cursor.seek_last().unwrap();
    while cursor.valid() {
        found.push((cursor.key().to_vec(), cursor.value().unwrap().to_vec()));
        cursor.prev().unwrap();
    }
    found.reverse();
    assert!(found == expected, "backwards");
    for number in (0..300).step_by(37) {
        let key = key(number);
        cursor.seek(&key).unwrap();
        let next =
            model.range::<[u8], _>((Bound::Included(&key[..]), Bound::Unbounded)).next().map(|(key, _)| &key[..]);
        assert_eq!(cursor.valid().then(|| cursor.key()), next);
        if cursor.valid() {
            cursor.prev().unwrap();
            let before = model.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(&key[..]))).next_back();
            assert_eq!(cursor.valid().then(|| cursor.key()), before.map(|(key, _)| &key[..]));
            if cursor.valid() {
                cursor.next().unwrap();
                assert_eq!(cursor.valid().then(|| cursor.key()), next);
            }
        }
    }
}

fn check_snapshot(snapshot: &dyn EngineSnapshot, model: &Model) {
    for number in 0..300 {
        let found = snapshot.get(&key(number)).unwrap().map(|value| value.to_vec());
        assert_eq!(found.as_ref(), model.get(&key(number)), "key {number} at {}", snapshot.sequence_number());
    }
    check_cursor(&mut *snapshot.cursor().unwrap(), model);
}

fn check(engine: &dyn Engine, model: &Model) {
    for number in 0..300 {
        let found = engine.get(&key(number)).unwrap().map(|value| value.to_vec());
        assert_eq!(found.as_ref(), model.get(&key(number)), "key {number}");
    }
    check_cursor(&mut *engine.cursor().unwrap(), model);
    let report = engine.verify(&mut |_| ()).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

fn run(steps: Vec<Step>, has_pool: bool, leaf_scan_part: f64) {
    let env = MemoryEnv::new();
    let open = || (slmdb_lab::KIND.open)(&options(&env, has_pool, leaf_scan_part), Path::new("/db"), None).unwrap();
    let mut engine = open();
    let mut model = Model::new();
    let mut snapshots: VecDeque<(Arc<dyn EngineSnapshot>, Model)> = VecDeque::new();
    for (number, step) in steps.into_iter().enumerate() {
        match step {
            Step::Put(key_number, bytes) => {
                let value = vec![number as u8; usize::from(bytes)];
                write(&*engine, |batch| batch.put(key(key_number), &value).unwrap());
                model.insert(key(key_number), value);
            }
            Step::Delete(key_number) => {
                write(&*engine, |batch| batch.delete(key(key_number)).unwrap());
                model.remove(&key(key_number));
            }
            Step::Many(first, count) => {
                for at in 0..count {
                    let (key, value) = (key((first + 7 * at) % 300), vec![number as u8; 40]);
                    write(&*engine, |batch| batch.put(&key, &value).unwrap());
                    model.insert(key, value);
                }
            }
            Step::Insert(key_number) => {
                let mut batch = WriteBatch::new();
                batch.put(key(key_number), b"inserted").unwrap();
                let applied = engine.write_if(Condition::Absent(&key(key_number)), &batch, false).unwrap();
                assert_eq!(applied, !model.contains_key(&key(key_number)));
                model.entry(key(key_number)).or_insert_with(|| b"inserted".to_vec());
            }
            Step::Flush => engine.flush().unwrap(),
            Step::CompactAll => engine.compact_range(Bound::Unbounded, Bound::Unbounded).unwrap(),
            Step::Snapshot => {
                snapshots.push_back((engine.snapshot().unwrap(), model.clone()));
                if snapshots.len() > 3 {
                    snapshots.pop_front();
                }
            }
            Step::Reopen => {
                snapshots.clear();
                engine.close().unwrap();
                drop(engine);
                engine = open();
            }
            Step::Check => {
                check(&*engine, &model);
                snapshots.iter().for_each(|(snapshot, model)| check_snapshot(&**snapshot, model));
            }
        }
    }
    check(&*engine, &model);
    snapshots.iter().for_each(|(snapshot, model)| check_snapshot(&**snapshot, model));
    snapshots.clear();
    drop(engine);
    check(&*open(), &model);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_store_without_a_pool_is_a_map(steps in proptest::collection::vec(step(), 1..250), part in leaf_scan_part()) {
        run(steps, false, part);
    }

    #[test]
    fn a_store_with_a_pool_is_a_map(steps in proptest::collection::vec(step(), 1..250), part in leaf_scan_part()) {
        run(steps, true, part);
    }
}
