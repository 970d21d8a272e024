//! Many threads do everything at once on a disk, or a pool, that is filled and freed at random. Every thread knows what its
//! own keys must hold: a write that was refused as full has not happened, any other has. And something always moves.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::machine::{Machine, PLENTY_BYTES, Scarce};
use crate::common::{Model, Random, assert_same, assert_verified, contents, watched};
use slmdb::{CompactionOptions, Db, ErrorKind, Result, WriteBatch};

const WRITERS: u64 = 4;
const KEYS_PER_WRITER: u64 = 150;
/// What a disk has at times; a store of all keys is larger.
const SCARCE_BYTES: u64 = 700 << 10;
/// What a pool has.
const POOL_BYTES: u64 = 1500 << 10;

fn open(machine: &Machine) -> Db {
    let options = machine.options().compaction(CompactionOptions::default()).pool_initial_bytes(1 << 19);
    machine.open_with(options.advanced(|advanced| advanced.checkpoint_entries(500)).sync(false))
}

/// Whether a write has happened; nothing but want of space may keep it from it.
#[track_caller]
fn happened<T>(outcome: Result<T>) -> Option<T> {
    outcome.map_err(|error| assert_eq!(error.kind(), ErrorKind::Full, "{error}")).ok()
}

fn key(writer: u64, number: u64) -> Vec<u8> {
    let mut key = format!("{writer}/{number:05}").into_bytes();
    if number % 10 == 3 {
        key.resize(key.len() + (number as usize * 37) % 3000, b'+');
    }
    key
}

/// A value that tells whose it is.
fn value(key: &[u8], random: &mut Random) -> Vec<u8> {
    let length = if random.one_in(150) { 50 << 10 } else { random.below(400) };
    let mut value = key[..7].to_vec();
    value.resize(7 + length as usize, random.next() as u8);
    value
}

fn write_once(db: &Db, writer: u64, model: &mut Model, random: &mut Random) {
    let key_of = |random: &mut Random| key(writer, random.below(KEYS_PER_WRITER));
    let mine = key_of(random);
    match random.below(20) {
        0..8 => {
            let value = value(&mine, random);
            if happened(db.put(&mine, &value)).is_some() {
                model.insert(mine, value);
            }
        }
        8..11 => {
            if happened(db.delete(&mine)).is_some() {
                model.remove(&mine);
            }
        }
        11..14 => {
            let mut batch = WriteBatch::new();
            let mut after = model.clone();
            let most = if random.one_in(20) { 300 } else { 12 };
            for _ in 0..random.below(most) {
                let mine = key_of(random);
                if random.one_in(3) {
                    batch.delete(&mine).unwrap();
                    after.remove(&mine);
                } else {
                    let value = value(&mine, random);
                    batch.put(&mine, &value).unwrap();
                    after.insert(mine, value);
                }
            }
            if happened(db.write(&batch)).is_some() {
                *model = after;
            }
        }
        14..16 => {
            let value = value(&mine, random);
            if let Some(inserted) = happened(db.insert_if_absent(&mine, &value)) {
                assert_eq!(inserted, !model.contains_key(&mine), "insert_if_absent");
                if inserted {
                    model.insert(mine, value);
                }
            }
        }
        16..18 => {
            let value = value(&mine, random);
            if let Some(updated) = happened(db.update_if_present(&mine, &value)) {
                assert_eq!(updated, model.contains_key(&mine), "update_if_present");
                if updated {
                    model.insert(mine, value);
                }
            }
        }
        18 if random.one_in(30) => {
            // Often too much for what there is.
            let value = vec![mine[0]; 600 << 10];
            let value = [&mine[..7], &value].concat();
            if happened(db.put(&mine, &value)).is_some() {
                model.insert(mine, value);
            }
        }
        _ => {
            let found = db.get(&mine).unwrap();
            assert_eq!(found.as_deref(), model.get(&mine).map(|value| &value[..]), "{}", mine[..7].escape_ascii());
        }
    }
}

fn scan(db: &Db) {
    let mut last = Vec::new();
    for entry in db.iter().unwrap() {
        let (key, value) = entry.unwrap();
        assert!(last.is_empty() || last < key.to_vec(), "keys out of order");
        assert_eq!(&key[..7], &value[..7], "another key's value");
        last = key.to_vec();
    }
}

/// How much is done in a round at least, however busy the machine is.
const MOVES_MIN: u64 = 300;

/// For a while, everything at once; `moves` counts what was done.
fn everything_at_once(machine: &Machine, db: &Db, models: &mut [Model], seed: u64, moves: &AtomicU64) {
    let enough = moves.load(Ordering::Relaxed) + MOVES_MIN;
    let end = Instant::now() + Duration::from_millis(1500);
    let over = || Instant::now() >= end && moves.load(Ordering::Relaxed) >= enough;
    std::thread::scope(|scope| {
        for (writer, model) in models.iter_mut().enumerate() {
            scope.spawn(move || {
                let mut random = Random(seed * 100 + writer as u64);
                while !over() {
                    write_once(db, writer as u64, model, &mut random);
                    moves.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for flusher in 0..2 {
            scope.spawn(move || {
                let mut random = Random(seed * 100 + 50 + flusher);
                while !over() {
                    match random.below(4) {
                        0 => drop(happened(db.flush())),
                        1 => db.sync().unwrap(),
                        2 if random.one_in(10) => drop(happened(db.verify(&mut |_| ()).map(|report| {
                            assert!(report.is_clean(), "{:#?}", report.findings);
                        }))),
                        _ => std::thread::sleep(Duration::from_millis(random.below(20))),
                    }
                }
            });
        }
        scope.spawn(move || {
            while !over() {
                scan(db);
            }
        });
        scope.spawn(move || {
            let mut random = Random(seed * 100 + 99);
            while !over() {
                let bytes = if random.one_in(2) { PLENTY_BYTES } else { SCARCE_BYTES + random.below(SCARCE_BYTES) };
                machine.env.set_capacity(bytes);
                std::thread::sleep(Duration::from_millis(random.below(150)));
            }
            machine.env.set_capacity(PLENTY_BYTES);
        });
    });
}

fn stress(scarce: Scarce) {
    let is_pool = matches!(scarce, Scarce::PoolOnDram | Scarce::PoolOnEmulated);
    let machine = Machine::new(scarce, if is_pool { POOL_BYTES } else { PLENTY_BYTES });
    let mut models = vec![Model::new(); WRITERS as usize];
    let moves = AtomicU64::new(0);
    for round in 0..2 * crate::common::budget() {
        let context = format!("{scarce:?}, round {round}");
        watched(&context, &moves, || {
            let db = open(&machine);
            everything_at_once(&machine, &db, &mut models, round + 1, &moves);
            let expected: Model = models.iter().flatten().map(|(key, value)| (key.clone(), value.clone())).collect();
            assert_same(&contents(&db).unwrap(), &expected, &context);
            db.flush().unwrap_or_else(|error| panic!("{context}: {error}"));
            assert_same(&contents(&db).unwrap(), &expected, &format!("{context}, flushed"));
            assert_verified(&db, &context);
            db.close().unwrap();
            let db = open(&machine);
            assert_same(&contents(&db).unwrap(), &expected, &format!("{context}, opened again"));
        });
    }
}

#[test]
fn everything_at_once_on_a_scarce_disk_on_dram() {
    stress(Scarce::DiskOnDram);
}

#[test]
fn everything_at_once_on_a_scarce_disk_on_emulated() {
    stress(Scarce::DiskOnEmulated);
}

#[test]
fn everything_at_once_in_a_scarce_pool_on_dram() {
    stress(Scarce::PoolOnDram);
}

#[test]
fn everything_at_once_in_a_scarce_pool_on_emulated() {
    stress(Scarce::PoolOnEmulated);
}
