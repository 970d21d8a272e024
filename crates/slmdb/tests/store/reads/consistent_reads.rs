//! Cursors and iterators see one moment, whatever is written, deleted and flushed meanwhile.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::common::{Home, MEDIA, Model, Random, assert_same, assert_verified, budget, contents, rounds};
use slmdb::{Cursor, Db};

fn forward(cursor: &mut Cursor) -> Model {
    let mut found = Model::new();
    cursor.seek_first().unwrap();
    while cursor.valid() {
        let key = cursor.key().to_vec();
        assert!(found.last_key_value().is_none_or(|(last, _)| *last < key), "out of order");
        found.insert(key, cursor.value().unwrap().to_vec());
        cursor.next().unwrap();
    }
    found
}

fn backward(cursor: &mut Cursor) -> Model {
    let mut found = Model::new();
    cursor.seek_last().unwrap();
    while cursor.valid() {
        let key = cursor.key().to_vec();
        assert!(found.first_key_value().is_none_or(|(first, _)| *first > key), "out of order");
        found.insert(key, cursor.value().unwrap().to_vec());
        cursor.prev().unwrap();
    }
    found
}

fn churn(db: &Db, model: &mut Model, random: &mut Random, operations: u64) {
    for _ in 0..operations {
        let key = format!("k{:03}", random.below(300)).into_bytes();
        if random.one_in(3) {
            db.delete(&key).unwrap();
            model.remove(&key);
        } else {
            let length = random.below(300) as usize;
            let value = random.bytes(length);
            db.put(&key, &value).unwrap();
            model.insert(key, value);
        }
    }
}

#[test]
fn cursors_of_many_moments_each_see_their_own() {
    for on in MEDIA {
        for seed in 0..rounds(2) {
            let home = Home::new(on);
            let db = home.options().memtable_bytes(16 << 10).open(home.store()).unwrap();
            let mut random = Random(seed);
            let mut model = Model::new();
            let mut held: Vec<(Cursor, Model)> = Vec::new();
            for round in 0..40 {
                churn(&db, &mut model, &mut random, 200);
                if random.one_in(2) {
                    held.push((db.cursor().unwrap(), model.clone()));
                }
                if random.one_in(4) {
                    db.flush().unwrap();
                }
                if held.len() > 5 || (!held.is_empty() && random.one_in(4)) {
                    let index = random.below(held.len() as u64) as usize;
                    let (mut cursor, seen) = held.swap_remove(index);
                    assert_same(&forward(&mut cursor), &seen, &format!("{on:?} seed {seed} round {round} forwards"));
                    assert_same(&backward(&mut cursor), &seen, &format!("{on:?} seed {seed} round {round} backwards"));
                }
            }
            assert_same(&contents(&db).unwrap(), &model, "at the end");
            assert!(db.stats().open_cursors == held.len() as u64);
            drop(held);
            assert_eq!((db.stats().open_cursors, db.stats().replaced_records_kept), (0, 0));
            db.flush().unwrap();
            assert_verified(&db, "at the end");
        }
    }
}

#[test]
fn a_cursor_turns_around_anywhere() {
    for on in MEDIA {
        let home = Home::new(on);
        let db = home.open();
        let mut random = Random(5);
        let mut model = Model::new();
        churn(&db, &mut model, &mut random, 600);
        db.flush().unwrap();
        churn(&db, &mut model, &mut random, 200);
        let keys: Vec<_> = model.keys().cloned().collect();
        let mut cursor = db.cursor().unwrap();
        churn(&db, &mut model, &mut random, 500);
        db.flush().unwrap();
        let mut at: Option<usize> = None;
        for step in 0..3000 {
            match random.below(8) {
                0 => {
                    let target = format!("k{:03}", random.below(310)).into_bytes();
                    cursor.seek(&target).unwrap();
                    at = keys.iter().position(|key| *key >= target);
                }
                1 => {
                    let target = format!("k{:03}", random.below(310)).into_bytes();
                    cursor.seek_before(&target).unwrap();
                    at = keys.iter().rposition(|key| *key < target);
                }
                2..5 => {
                    cursor.next().unwrap();
                    at = at.map(|index| index + 1).filter(|&index| index < keys.len());
                }
                _ => {
                    cursor.prev().unwrap();
                    at = at.and_then(|index| index.checked_sub(1));
                }
            }
            assert_eq!(cursor.valid(), at.is_some(), "step {step}");
            if let Some(index) = at {
                assert_eq!(cursor.key(), keys[index], "step {step}");
            }
        }
    }
}

/// A writer rewrites all keys with one generation after the other, each as one batch; flushes run all the time. Every
/// scan, in either direction, must see one generation, complete.
#[test]
fn scans_during_flushes_see_whole_batches() {
    for on in MEDIA {
        let home = Home::new(on);
        let db = home.options().memtable_bytes(32 << 10).open(home.store()).unwrap();
        let keys: Vec<String> = (0..50).map(|number| format!("key{number:02}")).collect();
        let write = |generation: u64| {
            let mut batch = slmdb::WriteBatch::new();
            for key in &keys {
                batch.put(key, generation.to_string().repeat(5)).unwrap();
            }
            db.write(&batch).unwrap();
        };
        write(0);
        let (done, scans_ended) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let scanner = scope.spawn(|| {
                let mut newest = 0;
                for scans in 0_u64.. {
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                    let entries: Vec<_> = if scans % 2 == 0 {
                        db.iter().unwrap().map(|entry| entry.unwrap()).collect()
                    } else {
                        db.iter().unwrap().rev().map(|entry| entry.unwrap()).collect()
                    };
                    assert_eq!(entries.len(), keys.len(), "scan {scans} ended early or saw too much");
                    assert!(entries.iter().all(|(_, value)| *value == entries[0].1), "scan {scans} saw two moments");
                    let text = String::from_utf8(entries[0].1.to_vec()).unwrap();
                    let generation: u64 = text[..text.len() / 5].parse().unwrap();
                    assert!(generation >= newest, "scan {scans} went back in time");
                    newest = generation;
                    scans_ended.fetch_add(1, Ordering::Relaxed);
                }
            });
            // However little of the processor the scanner gets meanwhile.
            let is_over = || scans_ended.load(Ordering::Relaxed) > 0 || scanner.is_finished();
            for generation in (1..).take_while(|&generation| generation < 3000 * budget() || !is_over()) {
                write(generation);
            }
            done.store(true, Ordering::Relaxed);
            scanner.join().unwrap();
        });
        assert!(db.stats().since_open.flushes > 10);
    }
}
