//! Snapshots held for random times, against a model and under parallel writers.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::common::{
    Home, MEDIA, Model, On, Random, SetAtEnd, assert_same, assert_verified, budget, contents, rounds, write_batch,
};
use slmdb::{Cursor, Db, Snapshot};

fn key(random: &mut Random) -> Vec<u8> {
    match random.below(8) {
        0 => vec![b'k'; random.below(12) as usize],
        1 => format!("hot{}", random.below(3)).into_bytes(),
        _ => format!("k{:03}", random.below(250)).into_bytes(),
    }
}

fn value(random: &mut Random) -> Vec<u8> {
    let length = if random.one_in(60) { random.below(9000) } else { random.below(150) };
    random.bytes(length as usize)
}

fn write(db: &Db, model: &mut Model, random: &mut Random) {
    let (key_, value_) = (key(random), value(random));
    match random.below(10) {
        0..5 => {
            db.put(&key_, &value_).unwrap();
            model.insert(key_, value_);
        }
        5 | 6 => {
            db.delete(&key_).unwrap();
            model.remove(&key_);
        }
        7 => {
            let count = 1 + random.below(12);
            write_batch(db, model, random, count, (key, value));
        }
        8 => {
            let applied = db.insert_if_absent(&key_, &value_).unwrap();
            assert_eq!(applied, !model.contains_key(&key_));
            model.entry(key_).or_insert(value_);
        }
        _ => {
            let applied = db.update_if_present(&key_, &value_).unwrap();
            assert_eq!(applied, model.contains_key(&key_));
            model.entry(key_).and_modify(|old| *old = value_);
        }
    }
}

/// A snapshot with what it should see, and a cursor of it that stands somewhere.
struct Held {
    snapshot: Snapshot,
    model: Model,
    cursor: Cursor,
    at: Option<Vec<u8>>,
}

impl Held {
    fn new(db: &Db, model: &Model) -> Held {
        let snapshot = db.snapshot().unwrap();
        let cursor = snapshot.cursor().unwrap();
        Held { snapshot, model: model.clone(), cursor, at: None }
    }

    fn look(&mut self, random: &mut Random) {
        for _ in 0..10 {
            let key = key(random);
            assert_eq!(self.snapshot.get(&key).unwrap().as_deref(), self.model.get(&key).map(Vec::as_slice));
            assert_eq!(self.snapshot.contains_key(&key).unwrap(), self.model.contains_key(&key));
        }
        if random.one_in(3) {
            self.cursor = self.snapshot.cursor().unwrap();
            self.at = None;
        }
        for _ in 0..random.below(30) {
            let at = self.at.take();
            match (random.below(6), at) {
                (0, _) => {
                    let from = key(random);
                    self.cursor.seek(&from).unwrap();
                    self.at = self.model.range(from..).next().map(|(key, _)| key.clone());
                }
                (1, _) => {
                    let to = key(random);
                    self.cursor.seek_before(&to).unwrap();
                    self.at = self.model.range(..to).next_back().map(|(key, _)| key.clone());
                }
                (2 | 3, Some(at)) => {
                    self.cursor.next().unwrap();
                    self.at = self.model.range(at..).nth(1).map(|(key, _)| key.clone());
                }
                (_, Some(at)) => {
                    self.cursor.prev().unwrap();
                    self.at = self.model.range(..at).next_back().map(|(key, _)| key.clone());
                }
                (_, None) => {}
            }
            assert_eq!(self.cursor.valid(), self.at.is_some());
            if let Some(at) = &self.at {
                assert_eq!(self.cursor.key(), at);
                // Some values are left out, as by who looks at keys alone.
                match random.below(3) {
                    0 => assert_eq!(&self.cursor.value().unwrap()[..], &self.model[at]),
                    1 => assert_eq!(self.cursor.value_ref().unwrap(), &self.model[at]),
                    _ => {}
                }
            }
        }
    }

    fn look_at_everything(&self, context: &str) {
        let forward = self.snapshot.iter().unwrap().map(|entry| entry.unwrap());
        let forward: Vec<_> = forward.map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
        assert!(forward.is_sorted_by(|one, other| one.0 < other.0));
        assert_same(&forward.into_iter().collect(), &self.model, &format!("{context} forwards"));
        let backward = self.snapshot.iter().unwrap().rev().map(|entry| entry.unwrap());
        let backward: Vec<_> = backward.map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
        assert_eq!(backward.len(), self.model.len());
        assert_same(&backward.into_iter().collect(), &self.model, &format!("{context} backwards"));
    }
}

fn run(on: On, seed: u64) {
    println!("medium {on:?}, seed {seed}");
    let home = Home::new(on);
    let mut random = Random(seed);
    let options = home
        .options()
        .memtable_bytes([4 << 10, 16 << 10, 64 << 10][random.below(3) as usize])
        .immutable_memtables_max(1 + random.below(3) as usize)
        .memory_budget_bytes([1 << 10, 1 << 20][random.below(2) as usize])
        .block_bytes([64, 512, 4096][random.below(3) as usize])
        .advanced(|advanced| advanced.restart_interval([1, 3, 16][random.below(3) as usize]))
        .advanced(|advanced| advanced.node_bytes([256, 512][random.below(2) as usize]));
    let db = home.on(options).open(home.store()).unwrap();
    let mut model = Model::new();
    let mut held: Vec<Held> = Vec::new();
    for round in 0..150 {
        let context = format!("{on:?} seed {seed} round {round}");
        for _ in 0..random.below(120) {
            write(&db, &mut model, &mut random);
        }
        if random.one_in(2) && held.len() < 12 {
            held.push(Held::new(&db, &model));
        }
        if random.one_in(5) {
            db.flush().unwrap();
        }
        for some in &mut held {
            some.look(&mut random);
        }
        if random.one_in(4) && !held.is_empty() {
            let index = random.below(held.len() as u64) as usize;
            held[index].look_at_everything(&context);
            if random.one_in(2) {
                held.swap_remove(index);
            }
        }
        if random.one_in(40) {
            assert_verified(&db, &context);
        }
        if random.one_in(50) {
            held.clear();
        }
    }
    for some in &held {
        some.look_at_everything("at the end");
    }
    assert_same(&contents(&db).unwrap(), &model, "at the end");
    assert!(db.stats().since_open.flushes > 5);
    held.clear();
    let stats = db.stats();
    assert_eq!((stats.open_snapshots, stats.open_cursors), (0, 0));
    assert_eq!((stats.replaced_records_kept, stats.replaced_records_bytes), (0, 0));
    db.flush().unwrap();
    assert_verified(&db, "at the end");
    db.close().unwrap();
    let db = home.open();
    assert_same(&contents(&db).unwrap(), &model, "opened again");
    assert_verified(&db, "opened again");
}

#[test]
fn snapshots_held_for_random_times_match_their_models() {
    for on in MEDIA {
        for seed in 0..rounds(3) {
            run(on, seed);
        }
    }
}

/// Two writers rewrite all keys of their own half, in order and one by one, generation after generation. So at any
/// moment a half holds one generation up to some key and the one before it from there on: anything else is two moments.
#[test]
fn each_snapshot_is_one_moment_under_parallel_writers() {
    const KEYS: u64 = 40;
    for on in MEDIA {
        let home = Home::new(on);
        let db = home.options().memtable_bytes(8 << 10).immutable_memtables_max(3).open(home.store()).unwrap();
        let name = |half: u64, key: u64| format!("{half}/{key:03}");
        let text = |generation: u64, key: u64| format!("{generation} ").repeat(1 + (key % 5) as usize);
        for half in 0..2 {
            (0..KEYS).for_each(|key| db.put(name(half, key), text(0, key)).unwrap());
        }
        let done = AtomicBool::new(false);
        let (taken, a_taker_ended) = (AtomicU64::new(0), AtomicBool::new(false));
        let generations = |snapshot: &Snapshot, by_get: bool| -> Vec<u64> {
            let of = |value: &[u8]| -> u64 {
                std::str::from_utf8(value).unwrap().split(' ').next().unwrap().parse().unwrap()
            };
            if by_get {
                let value = |half, key| snapshot.get(name(half, key)).unwrap().expect("a key went missing");
                (0..2)
                    .flat_map(|half| (0..KEYS).map(move |key| (half, key)))
                    .map(|(half, key)| of(&value(half, key)))
                    .collect()
            } else {
                snapshot.iter().unwrap().map(|entry| of(&entry.unwrap().1)).collect()
            }
        };
        let check = |seen: &[u64]| {
            assert_eq!(seen.len() as u64, 2 * KEYS, "a key went missing");
            for half in seen.chunks(KEYS as usize) {
                assert!(half.is_sorted_by(|one, other| one >= other), "two moments: {half:?}");
                assert!(half[0] - half[KEYS as usize - 1] <= 1, "two moments: {half:?}");
            }
        };
        // However little of the processor the takers get meanwhile.
        let is_over = || taken.load(Ordering::Relaxed) > 10 || a_taker_ended.load(Ordering::Relaxed);
        let goes_on = |generation: &u64| *generation < 700 * budget() || !is_over();
        std::thread::scope(|scope| {
            for taker in 0..2 {
                let (db, done, taken, check, generations) = (&db, &done, &taken, &check, &generations);
                let a_taker_ended = &a_taker_ended;
                scope.spawn(move || {
                    let _ended = SetAtEnd(a_taker_ended);
                    let mut random = Random(taker);
                    let mut held: Vec<(Snapshot, Vec<u64>)> = Vec::new();
                    while !done.load(Ordering::Relaxed) {
                        let snapshot = db.snapshot().unwrap();
                        let seen = generations(&snapshot, random.one_in(2));
                        check(&seen);
                        taken.fetch_add(1, Ordering::Relaxed);
                        held.push((snapshot, seen));
                        let (snapshot, seen) = &held[random.below(held.len() as u64) as usize];
                        assert!(generations(snapshot, random.one_in(2)) == *seen, "a snapshot changed");
                        if held.len() > 6 {
                            held.swap_remove(random.below(held.len() as u64) as usize);
                        }
                    }
                });
            }
            let writers: Vec<_> = (0..2)
                .map(|half| {
                    let (db, goes_on) = (&db, &goes_on);
                    scope.spawn(move || {
                        for generation in (1..).take_while(goes_on) {
                            (0..KEYS).for_each(|key| db.put(name(half, key), text(generation, key)).unwrap());
                        }
                    })
                })
                .collect();
            let failed = writers.into_iter().any(|writer| writer.join().is_err());
            done.store(true, Ordering::Relaxed);
            assert!(!failed, "a writer failed");
        });
        let stats = db.stats();
        assert!(stats.since_open.flushes > 20 && taken.load(Ordering::Relaxed) > 10, "{on:?}: {stats:#?}");
        assert_eq!((stats.open_snapshots, stats.replaced_records_kept), (0, 0));
        db.flush().unwrap();
        assert_verified(&db, "at the end");
    }
}
