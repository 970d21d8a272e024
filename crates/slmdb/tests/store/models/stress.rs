//! All at once, for some seconds: writers, readers, iterators, holders of snapshots, and callers of `flush`, `compact_range`
//! and `verify`, with compactions that never end. Versions of a key only grow, for whoever looks; and something always
//! moves.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::{Home, MEDIA, On, Random, SetAtEnd, assert_verified, budget, watched};
use slmdb::{CompactionOptions, CompactionPolicy, Db, MapTables, Snapshot, WriteBatch};

const WRITERS: u64 = 3;
const KEYS_PER_WRITER: u64 = 80;

fn key(number: u64) -> Vec<u8> {
    format!("key{number:04}").into_bytes()
}

/// Versions of each key count from 1; even ones are deletes.
struct Versions {
    /// What has been acknowledged of each key, at least.
    acknowledged: Vec<AtomicU64>,
}

impl Versions {
    fn new() -> Versions {
        Versions { acknowledged: (0..WRITERS * KEYS_PER_WRITER).map(|_| AtomicU64::new(0)).collect() }
    }

    fn acknowledged(&self, number: u64) -> u64 {
        self.acknowledged[number as usize].load(Ordering::Acquire)
    }

    fn all(&self) -> Vec<u64> {
        self.acknowledged.iter().map(|version| version.load(Ordering::Acquire)).collect()
    }
}

fn value(number: u64, version: u64) -> Vec<u8> {
    let mut value = [number.to_le_bytes(), version.to_le_bytes()].concat();
    let length = if number % 20 == 7 { 3000 } else { 30 + number % 100 };
    value.resize(length as usize, number as u8);
    value
}

/// The version that a value is of; of a missing key nothing is known.
fn version(number: u64, value: &[u8]) -> u64 {
    let version = u64::from_le_bytes(value[8..16].try_into().unwrap());
    assert!(value == self::value(number, version), "key {number} has a wrong value");
    version
}

/// What is found of a key is not older than what was acknowledged before anybody looked.
#[track_caller]
fn check(what: &str, number: u64, found: &[u8], at_least: u64) {
    let version = version(number, found);
    assert!(version >= at_least, "{what}: key {number} has version {version} after {at_least}");
}

fn number_of(key: &[u8]) -> u64 {
    std::str::from_utf8(&key[3..]).unwrap().parse().unwrap()
}

fn write(db: &Db, versions: &Versions, writer: u64, random: &mut Random) {
    let mut changes: Vec<(u64, u64)> = Vec::new();
    for _ in 0..if random.one_in(10) { 1 + random.below(10) } else { 1 } {
        let number = writer * KEYS_PER_WRITER + random.below(KEYS_PER_WRITER);
        if changes.iter().all(|(other, _)| *other != number) {
            // Odd versions are puts; a delete is left out two times in three.
            let last = versions.acknowledged(number);
            let next = if last % 2 == 1 && !random.one_in(3) { last + 2 } else { last + 1 };
            changes.push((number, next));
        }
    }
    let mut batch = WriteBatch::new();
    for &(number, version) in &changes {
        if version % 2 == 0 {
            batch.delete(key(number)).unwrap();
        } else {
            batch.put(key(number), value(number, version)).unwrap();
        }
    }
    db.write(&batch).unwrap();
    for (number, version) in changes {
        versions.acknowledged[number as usize].store(version, Ordering::Release);
    }
}

fn get(db: &Db, versions: &Versions, random: &mut Random) {
    let number = random.below(WRITERS * KEYS_PER_WRITER);
    let at_least = versions.acknowledged(number);
    if let Some(found) = db.get(key(number)).unwrap() {
        return check("get", number, &found, at_least);
    }
    // If a put was acknowledged, a delete has been seen that is about to be.
    let since = Instant::now();
    while at_least % 2 == 1 && versions.acknowledged(number) == at_least {
        assert!(since.elapsed() < Duration::from_secs(60), "get: key {number} is missing after version {at_least}");
        std::thread::yield_now();
    }
}

/// An iterator, forwards or backwards, sees at least what was acknowledged before it was made.
fn iterate(db: &Db, versions: &Versions, random: &mut Random) {
    let at_least = versions.all();
    let entries = db.iter().unwrap();
    let found: Vec<_> = if random.one_in(2) {
        entries.map(Result::unwrap).collect()
    } else {
        let mut found: Vec<_> = entries.rev().map(Result::unwrap).collect();
        found.reverse();
        found
    };
    assert!(found.is_sorted_by(|one, other| one.0 < other.0), "an iterator is out of order");
    for (key, value) in &found {
        let number = number_of(key);
        check("iterator", number, value, at_least[number as usize]);
    }
}

/// What a snapshot was seen to hold.
type Seen = Vec<(Vec<u8>, Vec<u8>)>;

fn contents_of(snapshot: &Snapshot) -> Seen {
    snapshot.iter().unwrap().map(Result::unwrap).map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
}

fn hold_snapshots(db: &Db, versions: &Versions, held: &mut Vec<(Snapshot, Seen)>, random: &mut Random) {
    if held.len() < 8 {
        let at_least = versions.all();
        let snapshot = db.snapshot().unwrap();
        let found = contents_of(&snapshot);
        for (key, value) in &found {
            let number = number_of(key);
            check("snapshot", number, value, at_least[number as usize]);
        }
        held.push((snapshot, found));
    }
    let chosen = random.below(held.len() as u64) as usize;
    let (snapshot, before) = &held[chosen];
    assert!(contents_of(snapshot) == *before, "the snapshot at {} has changed", snapshot.sequence_number());
    let number = random.below(WRITERS * KEYS_PER_WRITER);
    let found = snapshot.get(key(number)).unwrap();
    let expected = before.binary_search_by(|(other, _)| other.cmp(&key(number))).ok().map(|at| &before[at].1[..]);
    assert!(found.as_deref() == expected, "the snapshot's get of key {number} is not what its iterator gave");
    if random.one_in(3) {
        held.swap_remove(chosen);
    }
}

fn everything_at_once(on: On, seed: u64, moves: &[AtomicU64]) {
    let home = Home::new(on);
    let mut random = Random(seed);
    let compaction = CompactionOptions {
        policy: if random.one_in(3) { CompactionPolicy::Paper } else { CompactionPolicy::GarbageFirst },
        table_file_bytes: 1 << (10 + random.below(3)),
        threads: 1 + random.below(3) as usize,
        files_merged_max: 1 + random.below(8) as usize,
        live_key_threshold: 0.95,
        ..Default::default()
    };
    let options = home
        .options()
        .memtable_bytes(4 << (10 + random.below(3)))
        .open_tables_max(1 + random.below(4) as usize)
        .advanced(|advanced| advanced.map_tables(if random.one_in(2) { MapTables::Auto } else { MapTables::Never }))
        .memory_budget_bytes(1 << (10 + random.below(8)))
        .immutable_memtables_max(1 + random.below(3) as usize)
        .advanced(|advanced| advanced.node_bytes(256))
        .advanced(|advanced| advanced.checkpoint_entries(100))
        .compaction(compaction);
    let db = options.open(home.store()).unwrap();
    let versions = Versions::new();
    let end = Instant::now() + Duration::from_millis(2500);
    let failed = std::sync::atomic::AtomicBool::new(false);
    let run = |kind: usize, seed: u64, step: &mut dyn FnMut(&mut Random)| {
        let mut random = Random(seed);
        let panicked = std::sync::atomic::AtomicBool::new(true);
        struct Tell<'a>(&'a std::sync::atomic::AtomicBool, &'a std::sync::atomic::AtomicBool);
        impl Drop for Tell<'_> {
            fn drop(&mut self) {
                self.1.fetch_or(self.0.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
        let _tell = Tell(&panicked, &failed);
        // However little of the processor compactions get meanwhile.
        let is_over = || Instant::now() >= end && db.stats().since_open.compactions > 5;
        while !is_over() && !failed.load(Ordering::Relaxed) {
            step(&mut random);
            moves[kind].fetch_add(1, Ordering::Relaxed);
        }
        panicked.store(false, Ordering::Relaxed);
    };
    std::thread::scope(|scope| {
        let (db, versions, run) = (&db, &versions, &run);
        for writer in 0..WRITERS {
            scope.spawn(move || run(0, seed ^ writer << 8, &mut |random| write(db, versions, writer, random)));
        }
        for reader in 0..2 {
            scope.spawn(move || run(1, seed ^ reader << 16, &mut |random| get(db, versions, random)));
        }
        scope.spawn(move || run(2, seed ^ 3, &mut |random| iterate(db, versions, random)));
        scope.spawn(move || {
            let mut held = Vec::new();
            run(3, seed ^ 4, &mut |random| hold_snapshots(db, versions, &mut held, random));
        });
        for caller in 0..2 {
            scope.spawn(move || {
                run(4, seed ^ caller << 24, &mut |random| {
                    let from = random.below(WRITERS * KEYS_PER_WRITER);
                    db.compact_range(key(from)..key(from + random.below(100))).unwrap();
                })
            });
        }
        scope.spawn(move || {
            run(5, seed ^ 6, &mut |random| {
                db.flush().unwrap();
                std::thread::sleep(Duration::from_millis(random.below(20)));
            })
        });
        scope.spawn(move || {
            run(6, seed ^ 7, &mut |random| {
                assert_verified(db, "in between");
                std::thread::sleep(Duration::from_millis(random.below(50)));
            })
        });
    });
    let check_all = |db: &Db, what: &str| {
        for (number, last) in (0..).zip(versions.all()) {
            let found = db.get(key(number)).unwrap();
            let expected = (last % 2 == 1).then(|| value(number, last));
            assert!(found.as_deref() == expected.as_deref(), "{what}: key {number} is not at version {last}");
        }
        assert_verified(db, what);
    };
    check_all(&db, "at the end");
    let stats = db.stats();
    assert!(stats.since_open.compactions > 5, "{stats:#?}");
    assert_eq!((stats.open_snapshots, stats.open_cursors, stats.replaced_records_kept), (0, 0, 0));
    db.close().unwrap();
    check_all(&options.open(home.store()).unwrap(), "opened again");
}

#[test]
fn versions_only_grow_while_everything_happens_at_once() {
    for on in MEDIA {
        for seed in 0..budget() {
            let moves: Vec<AtomicU64> = (0..7).map(|_| AtomicU64::new(0)).collect();
            let all = AtomicU64::new(0);
            let done = std::sync::atomic::AtomicBool::new(false);
            std::thread::scope(|scope| {
                // Each kind has to move, not just some of them.
                scope.spawn(|| {
                    let mut last = vec![0; moves.len()];
                    while !done.load(Ordering::Acquire) {
                        let now: Vec<u64> = moves.iter().map(|moves| moves.load(Ordering::Relaxed)).collect();
                        if now.iter().zip(&last).all(|(now, last)| now > last) {
                            all.fetch_add(1, Ordering::Relaxed);
                            last = now;
                        }
                        std::thread::sleep(Duration::from_millis(10));
                    }
                });
                let _done = SetAtEnd(&done);
                watched(&format!("{on:?}, seed {seed}"), &all, || everything_at_once(on, seed, &moves));
            });
            println!("{on:?}, seed {seed}: {moves:?}");
        }
    }
}
