//! Cursors over many deletes in a row, which they skip (INV-36): they see what a moment has, whoever writes meanwhile.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::common::{Home, On, Random, budget};
use slmdb::{Comparator, Cursor, Db, Snapshot, WriteBatch};

const KEYS: u64 = 2000;

fn key(number: u64) -> String {
    format!("{number:06}")
}

/// By bytes, and the store does not know.
struct Unknown;

impl Comparator for Unknown {
    fn name(&self) -> &str {
        "test.unknown"
    }

    fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        left.cmp(right)
    }
}

type Model = BTreeMap<String, u64>;

/// Places a cursor somewhere, moves it on in both directions, and compares each key.
fn check(cursor: &mut Cursor, model: &Model, random: &mut Random, context: &str) {
    let at = |cursor: &Cursor| cursor.valid().then(|| String::from_utf8(cursor.key().to_vec()).unwrap());
    let from = key(random.below(KEYS));
    let mut wanted = match random.below(4) {
        0 => {
            cursor.seek_first().unwrap();
            model.keys().next()
        }
        1 => {
            cursor.seek_last().unwrap();
            model.keys().next_back()
        }
        2 => {
            cursor.seek(&from).unwrap();
            model.range(from.clone()..).next().map(|(key, _)| key)
        }
        _ => {
            cursor.seek_before(&from).unwrap();
            model.range(..from.clone()).next_back().map(|(key, _)| key)
        }
    };
    let mut is_forward = random.one_in(2);
    loop {
        assert_eq!(at(cursor).as_ref(), wanted, "{context}, from {from}");
        let Some(here) = wanted.filter(|_| !random.one_in(4)) else { return };
        assert_eq!(cursor.value().unwrap(), model[here].to_le_bytes(), "{context}, from {from}");
        if random.one_in(4) {
            is_forward = !is_forward;
        }
        if is_forward {
            cursor.next().unwrap();
            wanted = model.range(here.clone()..).nth(1).map(|(key, _)| key);
        } else {
            cursor.prev().unwrap();
            wanted = model.range(..here.clone()).next_back().map(|(key, _)| key);
        }
    }
}

fn change(db: &Db, model: &mut Model, random: &mut Random, value: u64) {
    let (number, bytes) = (random.below(KEYS), value.to_le_bytes());
    match random.below(8) {
        0..=2 => {
            for number in number..number + random.below(900) {
                db.delete(key(number)).unwrap();
                model.remove(&key(number));
            }
        }
        3 => {
            let mut batch = WriteBatch::new();
            for number in number..number + random.below(400) {
                batch.put(key(number), bytes).unwrap();
                model.insert(key(number), value);
            }
            db.write(&batch).unwrap();
        }
        4 => {
            let is_new = db.insert_if_absent(key(number), bytes).unwrap();
            assert_eq!(is_new, !model.contains_key(&key(number)));
            model.entry(key(number)).or_insert(value);
        }
        5 if random.one_in(3) => db.flush().unwrap(),
        5 if random.one_in(6) => db.compact_range::<&str>(..).unwrap(),
        _ => {
            db.put(key(number), bytes).unwrap();
            model.insert(key(number), value);
        }
    }
}

#[test]
fn cursors_over_deletes_see_their_moment() {
    for seed in 0..2 * budget() {
        let (home, mut random) = (Home::new(On::Dram), Random(seed + 1));
        let options = home.options();
        let options = if seed % 2 == 1 { options.comparator(Unknown) } else { options };
        let db = options.open(home.store()).unwrap();
        let mut model = Model::new();
        let mut snapshots: Vec<(Snapshot, Model)> = Vec::new();
        for step in 0..400 {
            change(&db, &mut model, &mut random, step);
            if random.one_in(8) {
                snapshots.push((db.snapshot().unwrap(), model.clone()));
            }
            if snapshots.len() > 3 {
                snapshots.swap_remove(random.below(4) as usize);
            }
            let context = format!("seed {seed}, step {step}");
            for _ in 0..3 {
                check(&mut db.cursor().unwrap(), &model, &mut random, &context);
            }
            if let Some((snapshot, model)) = snapshots.get(random.below(4) as usize) {
                check(&mut snapshot.cursor().unwrap(), model, &mut random, &format!("{context}, a snapshot"));
            }
        }
    }
}

/// What cursors of a snapshot have to see is what its gets see, which skip nothing.
#[test]
fn cursors_over_deletes_beside_writers_see_what_gets_see() {
    const WRITERS: u64 = 3;
    let home = Home::new(On::Dram);
    let db = home.options().open(home.store()).unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (db, is_done) = (&db, &is_done);
            scope.spawn(move || {
                let mut random = Random(writer + 7);
                while !is_done.load(Relaxed) {
                    let number = random.below(KEYS);
                    let result = if random.one_in(40) {
                        db.put(key(number), number.to_le_bytes())
                    } else {
                        (number..number + 20).try_for_each(|number| db.delete(key(number)))
                    };
                    result.unwrap();
                }
            });
        }
        let mut random = Random(1);
        let checked = (0..25 * budget()).all(|round| {
            let snapshot = db.snapshot().unwrap();
            let model: Model = (0..KEYS)
                .filter(|&number| snapshot.get(key(number)).unwrap().is_some())
                .map(|number| (key(number), number))
                .collect();
            let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                for _ in 0..20 {
                    check(&mut snapshot.cursor().unwrap(), &model, &mut random, &format!("round {round}"));
                    drop(db.range::<&str>(..).unwrap().next());
                    drop(db.range::<&str>(..).unwrap().next_back());
                }
            }));
            checked.is_ok()
        });
        is_done.store(true, Relaxed);
        assert!(checked);
    });
}
