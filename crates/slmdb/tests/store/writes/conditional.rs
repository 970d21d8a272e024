//! Conditional writes: of many who insert one key exactly one wins, an update makes no key, and each operation on a key
//! takes effect at one moment between its call and its return, whatever rotations and flushes go on meanwhile.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::{Home, MEDIA, Model, Random, assert_same, assert_verified, budget, contents, rounds};
use slmdb::{Db, ErrorKind, MAXIMUM_KEY_BYTES, MAXIMUM_VALUE_BYTES, WriteOptions};
use slmdb_testkit::{Failure, MemoryEnv, Repeat};

/// So small that MemTables are rotated and flushed all the time.
const TINY_MEMTABLE_BYTES: u64 = 4 << 10;

fn open_tiny(home: &Home) -> Db {
    home.options().memtable_bytes(TINY_MEMTABLE_BYTES).open(home.store()).unwrap()
}

#[test]
fn of_many_inserts_of_a_key_exactly_one_wins() {
    const THREADS: u64 = 8;
    const KEYS: u64 = 300;
    for on in MEDIA {
        let home = Home::new(on);
        let db = open_tiny(&home);
        let mut expected = Model::new();
        for round in 0..rounds(2) {
            let key = |number: u64| format!("{round}/{number:03}").into_bytes();
            let value = |thread: u64, number: u64| vec![thread as u8; 20 + (number % 200) as usize];
            let won: Vec<Vec<u64>> = std::thread::scope(|scope| {
                let race = |thread: u64| {
                    let db = &db;
                    move || {
                        // In one order, so that all come to a key at about the same time.
                        let numbers = (0..KEYS)
                            .filter(|&number| db.insert_if_absent(key(number), value(thread, number)).unwrap());
                        numbers.collect()
                    }
                };
                let racers: Vec<_> = (0..THREADS).map(|thread| scope.spawn(race(thread))).collect();
                racers.into_iter().map(|racer| racer.join().unwrap()).collect()
            });
            for (thread, numbers) in won.iter().enumerate() {
                for &number in numbers {
                    let first = expected.insert(key(number), value(thread as u64, number)).is_none();
                    assert!(first, "{on:?}: {number} was inserted twice");
                }
            }
            assert_eq!(expected.len() as u64, (round + 1) * KEYS, "{on:?}: a key that nobody won");
            assert_same(&contents(&db).unwrap(), &expected, &format!("{on:?}, round {round}"));
        }
        assert_verified(&db, "after the races");
        let last_sequence_number = db.stats().last_sequence_number;
        db.close().unwrap();
        let db = open_tiny(&home);
        assert_eq!(db.stats().last_sequence_number, last_sequence_number);
        assert_same(&contents(&db).unwrap(), &expected, "reopened");
        assert_verified(&db, "reopened");
    }
}

#[test]
fn updates_change_what_is_there_and_nothing_else() {
    const THREADS: u64 = 4;
    const KEYS: u64 = 100;
    for on in MEDIA {
        let home = Home::new(on);
        let db = open_tiny(&home);
        for number in (0..KEYS).step_by(2) {
            db.put(format!("{number:03}"), "first").unwrap();
        }
        db.flush().unwrap();
        let before = db.stats();
        let applied: u64 = std::thread::scope(|scope| {
            let update = |thread: u64| {
                let db = &db;
                move || {
                    let keys = (0..KEYS).map(|number| format!("{number:03}"));
                    keys.filter(|key| db.update_if_present(key, [thread as u8; 50]).unwrap()).count() as u64
                }
            };
            let updaters: Vec<_> = (0..THREADS).map(|thread| scope.spawn(update(thread))).collect();
            updaters.into_iter().map(|updater| updater.join().unwrap()).sum()
        });
        assert_eq!(applied, THREADS * KEYS / 2);
        // What did not apply was told by the look beforehand: it took no sequence number.
        let after = db.stats();
        assert_eq!(after.last_sequence_number - before.last_sequence_number, applied);
        assert_eq!(after.since_open.user_bytes_put - before.since_open.user_bytes_put, applied * 53);
        let found = contents(&db).unwrap();
        assert_eq!(found.len() as u64, KEYS / 2);
        for (key, value) in found {
            let number: u64 = std::str::from_utf8(&key).unwrap().parse().unwrap();
            assert_eq!(number % 2, 0);
            assert!(value.len() == 50 && u64::from(value[0]) < THREADS);
        }
    }
}

#[test]
fn conditional_writes_do_what_a_map_does() {
    for on in MEDIA {
        for seed in 0..rounds(4) {
            let home = Home::new(on);
            let mut db = open_tiny(&home);
            let (mut random, mut model) = (Random(seed), Model::new());
            for number in 0..2000 {
                let key = match random.below(40) {
                    0 => Vec::new(),
                    other => format!("key{other}").into_bytes(),
                };
                let length = random.below(200) as usize;
                let value = random.bytes(length);
                let context = format!("{on:?}, seed {seed}, operation {number}, key {}", key.escape_ascii());
                match random.below(100) {
                    0 => db.flush().unwrap(),
                    1 => {
                        db.close().unwrap();
                        db = open_tiny(&home);
                        assert_same(&contents(&db).unwrap(), &model, &context);
                    }
                    2..20 => {
                        db.delete(&key).unwrap();
                        model.remove(&key);
                    }
                    20..40 => {
                        db.put(&key, &value).unwrap();
                        model.insert(key, value);
                    }
                    40..70 => {
                        assert_eq!(db.insert_if_absent(&key, &value).unwrap(), !model.contains_key(&key), "{context}");
                        model.entry(key).or_insert(value);
                    }
                    _ => {
                        let expected = model.get_mut(&key);
                        assert_eq!(db.update_if_present(&key, &value).unwrap(), expected.is_some(), "{context}");
                        if let Some(there) = expected {
                            *there = value;
                        }
                    }
                }
            }
            assert_same(&contents(&db).unwrap(), &model, "at the end");
        }
    }
}

/// What a thread did to a key, between two ticks of a clock that all share.
#[derive(Debug, Clone, Copy)]
struct Event {
    called: u64,
    returned: u64,
    what: What,
}

#[derive(Debug, Clone, Copy)]
enum What {
    Put(u64),
    Delete,
    Insert(u64, bool),
    Update(u64, bool),
    Get(Option<u64>),
}

impl What {
    /// What the key's value is afterwards, if the answer fits what it was before.
    fn after(self, before: Option<u64>) -> Option<Option<u64>> {
        match self {
            What::Put(value) => Some(Some(value)),
            What::Delete => Some(None),
            What::Insert(value, applied) => (applied == before.is_none()).then_some(before.or(Some(value))),
            What::Update(value, applied) => (applied == before.is_some()).then_some(before.map(|_| value)),
            What::Get(seen) => (seen == before).then_some(before),
        }
    }
}

/// Whether there is an order in which one event after the other explains all answers, none before one that had returned
/// when it was called (Wing and Gong's search, with what was tried kept in mind).
fn has_an_order(events: &[Event], done: u128, value: Option<u64>, tried: &mut HashSet<(u128, Option<u64>)>) -> bool {
    let open = |&at: &usize| done & (1 << at) == 0;
    let Some(first_return) = (0..events.len()).filter(open).map(|at| events[at].returned).min() else { return true };
    if !tried.insert((done, value)) {
        return false;
    }
    (0..events.len()).filter(open).filter(|&at| events[at].called < first_return).any(|at| {
        let after = events[at].what.after(value);
        after.is_some_and(|after| has_an_order(events, done | 1 << at, after, tried))
    })
}

#[test]
fn histories_of_a_key_have_an_order() {
    const THREADS: u64 = 4;
    const KEYS: u64 = 5;
    const OPERATIONS: u64 = 70;
    let value = |number: u64| format!("{number:0width$}", width = 20 + (number % 150) as usize).into_bytes();
    let number = |value: &[u8]| std::str::from_utf8(value).unwrap().parse().unwrap();
    for on in MEDIA {
        let home = Home::new(on);
        let db = open_tiny(&home);
        let clock = AtomicU64::new(1);
        for round in 0..15 * budget() {
            let act = |thread: u64| {
                let (db, clock) = (&db, &clock);
                move || {
                    let mut random = Random(round << 8 | thread);
                    let mut events = Vec::new();
                    for _ in 0..OPERATIONS {
                        let key = random.below(KEYS);
                        let name = format!("{round}/{key}");
                        let called = clock.fetch_add(1, Ordering::SeqCst);
                        // Unique, so that each value tells who wrote it.
                        let new = called;
                        let what = match random.below(10) {
                            0 => db.put(name, value(new)).map(|()| What::Put(new)),
                            1 | 2 => db.delete(name).map(|()| What::Delete),
                            3..6 => db.insert_if_absent(name, value(new)).map(|applied| What::Insert(new, applied)),
                            6..8 => db.update_if_present(name, value(new)).map(|applied| What::Update(new, applied)),
                            _ => db.get(name).map(|found| What::Get(found.as_deref().map(number))),
                        };
                        let returned = clock.fetch_add(1, Ordering::SeqCst);
                        events.push((key, Event { called, returned, what: what.unwrap() }));
                    }
                    events
                }
            };
            let mut events: Vec<(u64, Event)> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(act(thread))).collect();
                threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
            });
            events.sort_by_key(|(_, event)| event.called);
            for key in 0..KEYS {
                let last = db.get(format!("{round}/{key}")).unwrap().as_deref().map(number);
                let last = Event { called: u64::MAX - 1, returned: u64::MAX, what: What::Get(last) };
                let mut history: Vec<Event> =
                    events.iter().filter(|(of, _)| *of == key).map(|(_, event)| *event).collect();
                history.push(last);
                assert!(history.len() <= 128);
                let explained = has_an_order(&history, 0, None, &mut HashSet::new());
                assert!(explained, "{on:?}, round {round}, key {key}: {history:#?}");
            }
        }
        assert_verified(&db, "after all histories");
    }
}

/// The checker itself: it must not call everything explained.
#[test]
fn a_history_that_no_order_explains_is_found_out() {
    let at = |called, returned, what| Event { called, returned, what };
    let explained = |events: &[Event]| has_an_order(events, 0, None, &mut HashSet::new());
    let two_winners = [at(1, 4, What::Insert(1, true)), at(2, 3, What::Insert(2, true))];
    assert!(!explained(&two_winners));
    assert!(explained(&[two_winners[0], two_winners[1], at(1, 5, What::Delete)]));
    assert!(!explained(&[two_winners[0], two_winners[1], at(5, 6, What::Delete)]));
    assert!(explained(&[at(1, 4, What::Insert(1, false)), at(2, 3, What::Put(2)), at(5, 6, What::Get(Some(2)))]));
    assert!(!explained(&[at(1, 2, What::Insert(1, false)), at(3, 4, What::Put(2))]));
    assert!(!explained(&[at(1, 2, What::Update(1, true))]));
    assert!(!explained(&[at(1, 2, What::Put(1)), at(3, 4, What::Update(2, true)), at(5, 6, What::Get(Some(1)))]));
}

/// An owner of a key counts without any other protection: two owners at once would lose counts.
#[test]
fn a_key_serves_as_a_lock() {
    const THREADS: u64 = 4;
    const TURNS: u64 = 150;
    for on in MEDIA {
        let home = Home::new(on);
        let db = open_tiny(&home);
        let count = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (db, count) = (&db, &count);
                scope.spawn(move || {
                    let mut turns = 0;
                    while turns < TURNS * budget() {
                        if !db.insert_if_absent("lock", [thread as u8; 30]).unwrap() {
                            std::thread::yield_now();
                            continue;
                        }
                        let before = count.load(Ordering::Relaxed);
                        assert!(db.update_if_present("lock", [thread as u8; 60]).unwrap());
                        assert_eq!(db.get("lock").unwrap().as_deref(), Some([thread as u8; 60].as_slice()));
                        count.store(before + 1, Ordering::Relaxed);
                        db.delete("lock").unwrap();
                        turns += 1;
                    }
                });
            }
        });
        assert_eq!(count.into_inner(), THREADS * TURNS * budget());
        assert!(db.insert_if_absent("lock", "").unwrap());
    }
}

#[test]
fn what_is_refused_is_refused_whether_or_not_it_would_apply() {
    for on in MEDIA {
        let home = Home::new(on);
        let db = home.open();
        db.put("there", "v").unwrap();
        let long_key = vec![0; MAXIMUM_KEY_BYTES + 1];
        assert_eq!(db.insert_if_absent(&long_key, "v").unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(db.update_if_present(&long_key, "v").unwrap_err().kind(), ErrorKind::Invalid);
        let long_value = vec![0; MAXIMUM_VALUE_BYTES + 1];
        assert_eq!(db.insert_if_absent("there", &long_value).unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(db.stats().last_sequence_number, 1);
        db.close().unwrap();
        let db = home.options().read_only(true).open(home.store()).unwrap();
        for key in ["there", "absent"] {
            assert_eq!(db.insert_if_absent(key, "v").unwrap_err().kind(), ErrorKind::ReadOnly);
            assert_eq!(db.update_if_present(key, "v").unwrap_err().kind(), ErrorKind::ReadOnly);
        }
    }
}

#[test]
fn on_a_full_disk_only_what_needs_space_fails() {
    let env = MemoryEnv::new();
    let options = crate::common::options().env(Arc::new(env.clone())).memtable_bytes(TINY_MEMTABLE_BYTES);
    let db = options.open("/db").unwrap();
    let mut model = Model::new();
    env.set_capacity(200_000);
    for number in 0_u32.. {
        match db.insert_if_absent(number.to_be_bytes(), [7; 100]) {
            Ok(applied) => assert!(applied && model.insert(number.to_be_bytes().into(), vec![7; 100]).is_none()),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Full);
                break;
            }
        }
    }
    assert!(!model.is_empty());
    for key in model.keys() {
        assert!(!db.insert_if_absent(key, "other").unwrap());
        assert_eq!(db.update_if_present(key, [8; 200_000]).unwrap_err().kind(), ErrorKind::Full);
    }
    assert!(!db.update_if_present("absent", "v").unwrap());
    env.set_capacity(1 << 30);
    assert!(db.insert_if_absent("absent", "v").unwrap());
    model.insert(b"absent".into(), b"v".into());
    assert_same(&contents(&db).unwrap(), &model, "with space again");
}

/// A refusal that is asked for with `sync` rests on a write that nobody has synced.
#[test]
fn with_sync_the_answer_outlives_a_power_cut_either_way() {
    let env = MemoryEnv::new();
    let open = |env: &MemoryEnv| crate::common::options().env(Arc::new(env.clone())).sync(true).open("/db").unwrap();
    let without_sync = WriteOptions::new().sync(false);
    let db = open(&env);
    db.put_with("unsynced", "v", without_sync).unwrap();
    assert!(!open(&env.crash()).contains_key("unsynced").unwrap());
    assert!(!db.insert_if_absent("unsynced", "other").unwrap());
    let in_between = env.crash();
    assert!(db.insert_if_absent("synced", "v").unwrap());
    for (crashed, keys) in [(in_between, &["unsynced"][..]), (env.crash(), &["unsynced", "synced"])] {
        let db = open(&crashed);
        for key in keys {
            assert!(db.contains_key(key).unwrap(), "{key}");
        }
    }
    env.fail_at(env.operation_count(), Failure::FailedSync, Repeat::ForGood);
    db.put_with("last", "v", without_sync).unwrap();
    assert!(db.insert_if_absent("last", "other").is_err());
    assert_eq!(db.insert_if_absent("last", "other").unwrap_err().kind(), ErrorKind::ReadOnly);
}
