//! Stores whose keys are in another order than that of their bytes; and comparators that are no order.

use std::cmp::Ordering;
use std::ops::Bound;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::Duration;

use crate::common::{Home, MEDIA, Model, On, Random, assert_verified, budget, share};
use slmdb::{Comparator, Db, ErrorKind, Medium, WriteBatch};

/// Orders by name, so that a child process can be told which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Backwards,
    ByLength,
}

const ORDERS: [Order; 2] = [Order::Backwards, Order::ByLength];

impl Comparator for Order {
    fn name(&self) -> &str {
        match self {
            Order::Backwards => "test.backwards",
            Order::ByLength => "test.by-length",
        }
    }

    fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        match self {
            Order::Backwards => right.cmp(left),
            Order::ByLength => left.len().cmp(&right.len()).then_with(|| left.cmp(right)),
        }
    }
}

impl Order {
    fn sorted<'m>(&self, model: &'m Model) -> Vec<(&'m [u8], &'m [u8])> {
        let mut entries: Vec<_> = model.iter().map(|(key, value)| (&key[..], &value[..])).collect();
        entries.sort_by(|left, right| self.compare(left.0, right.0));
        entries
    }
}

fn key(random: &mut Random) -> Vec<u8> {
    match random.below(10) {
        0 => Vec::new(),
        1 => vec![0; random.below(12) as usize],
        2 => vec![0xff; random.below(12) as usize],
        3 => [vec![b'x'; 60], random.below(40).to_string().into_bytes()].concat(),
        4 if random.one_in(10) => [vec![random.below(3) as u8; 3000], random.bytes(1)].concat(),
        _ => random.below(1500).to_string().into_bytes(),
    }
}

fn value(random: &mut Random) -> Vec<u8> {
    let length = if random.one_in(30) { random.below(9000) } else { random.below(100) };
    vec![random.next() as u8; length as usize]
}

/// The whole store in its order, both ways.
fn assert_contents(db: &Db, order: Order, model: &Model, context: &str) {
    let expected = order.sorted(model);
    let forward: Vec<_> = db.iter().unwrap().map(|entry| entry.unwrap()).collect();
    assert!(forward.iter().map(|(key, value)| (&key[..], &value[..])).eq(expected.iter().copied()), "{context}");
    let backward: Vec<_> = db.iter().unwrap().rev().map(|entry| entry.unwrap()).collect();
    assert!(backward.iter().rev().eq(&forward), "{context}, backwards");
}

fn check_range(db: &Db, order: Order, model: &Model, random: &mut Random) {
    let bound = |key: Vec<u8>, random: &mut Random| match random.below(3) {
        0 => Bound::Included(key),
        1 => Bound::Excluded(key),
        _ => Bound::Unbounded,
    };
    let bounds = (bound(key(random), random), bound(key(random), random));
    let sorted = order.sorted(model);
    let mut expected = sorted.iter().copied().filter(|(key, _)| {
        let not_before = match &bounds.0 {
            Bound::Included(from) => order.compare(key, from).is_ge(),
            Bound::Excluded(from) => order.compare(key, from).is_gt(),
            Bound::Unbounded => true,
        };
        let not_behind = match &bounds.1 {
            Bound::Included(to) => order.compare(key, to).is_le(),
            Bound::Excluded(to) => order.compare(key, to).is_lt(),
            Bound::Unbounded => true,
        };
        not_before && not_behind
    });
    let mut range = db.range::<Vec<u8>>(bounds.clone()).unwrap();
    for _ in 0..random.below(40) {
        let (expected, found) =
            if random.one_in(2) { (expected.next(), range.next()) } else { (expected.next_back(), range.next_back()) };
        let found = found.map(|entry| entry.unwrap());
        assert_eq!(found.as_ref().map(|(key, value)| (&key[..], &value[..])), expected, "{bounds:?}");
        if found.is_none() {
            break;
        }
    }
}

fn check_cursor(db: &Db, order: Order, model: &Model, random: &mut Random) {
    let sorted = order.sorted(model);
    let mut cursor = db.cursor().unwrap();
    for _ in 0..5 {
        let wanted = key(random);
        let at = sorted.partition_point(|(key, _)| order.compare(key, &wanted).is_lt());
        let mut at = if random.one_in(2) {
            cursor.seek(&wanted).unwrap();
            Some(at)
        } else {
            cursor.seek_before(&wanted).unwrap();
            at.checked_sub(1)
        };
        for _ in 0..20 {
            let expected = at.and_then(|at| sorted.get(at)).map(|(key, _)| *key);
            assert_eq!(cursor.valid().then(|| cursor.key()), expected);
            let Some(here) = at.filter(|_| expected.is_some()) else { break };
            if random.one_in(2) {
                cursor.next().unwrap();
                at = Some(here + 1);
            } else {
                cursor.prev().unwrap();
                at = here.checked_sub(1);
            }
        }
    }
}

/// The `number`th change of a store: the same in a child that is killed and in the parent that knows what it did.
fn change(number: u64) -> (Vec<u8>, Option<Vec<u8>>) {
    let mut random = Random(number);
    (key(&mut random), (!random.one_in(4)).then(|| value(&mut random)))
}

fn apply(model: &mut Model, (key, value): (Vec<u8>, Option<Vec<u8>>)) {
    match value {
        Some(value) => drop(model.insert(key, value)),
        None => drop(model.remove(&key)),
    }
}

#[test]
fn random_operations_match_a_model_in_every_order() {
    for on in MEDIA {
        for order in ORDERS {
            for seed in 0..budget() {
                println!("{on:?}, {order:?}, seed {seed}");
                let home = Home::new(on);
                let (mut random, mut model) = (Random(seed), Model::new());
                for round in 0..share(4) {
                    let options = home
                        .options()
                        .memtable_bytes([16 << 10, 64 << 10][(round % 2) as usize])
                        .advanced(|advanced| advanced.node_bytes(256));
                    let db = options.comparator(order).open(home.store()).unwrap();
                    assert_contents(&db, order, &model, &format!("round {round}"));
                    for step in 0..1500 {
                        match random.below(100) {
                            0..80 => {
                                let (key, value) = (key(&mut random), value(&mut random));
                                match random.one_in(4) {
                                    true => db.delete(&key).unwrap(),
                                    false => db.put(&key, &value).unwrap(),
                                }
                                let current = db.get(&key).unwrap();
                                apply(&mut model, (key, current.map(|value| value.to_vec())));
                            }
                            80..90 => {
                                let mut batch = WriteBatch::new();
                                for _ in 0..random.below(20) {
                                    let (key, value) = (key(&mut random), value(&mut random));
                                    batch.put(&key, &value).unwrap();
                                    apply(&mut model, (key, Some(value)));
                                }
                                db.write(&batch).unwrap();
                            }
                            90..95 => check_range(&db, order, &model, &mut random),
                            95..99 => check_cursor(&db, order, &model, &mut random),
                            _ => db.flush().unwrap(),
                        }
                        if step % 500 == 0 {
                            assert_contents(&db, order, &model, &format!("round {round}, step {step}"));
                        }
                    }
                    for (key, value) in &model {
                        assert_eq!(db.get(key).unwrap().as_deref(), Some(&value[..]));
                    }
                    if round == 1 {
                        db.flush().unwrap();
                    }
                    assert_verified(&db, &format!("round {round}"));
                    db.close().unwrap();
                }
                let options = home.options().read_only(true).comparator(order);
                assert_contents(&options.open(home.store()).unwrap(), order, &model, "read-only");
            }
        }
    }
}

/// An iterator sees its moment while all of it is overwritten and flushed.
#[test]
fn an_iterator_sees_its_moment_while_all_is_overwritten() {
    for on in MEDIA {
        for order in ORDERS {
            let home = Home::new(on);
            let db = home.options().comparator(order).open(home.store()).unwrap();
            let mut model = Model::new();
            for number in 0..2000_u64 {
                let (key, value) = (number.to_string().into_bytes(), format!("old {number}").into_bytes());
                db.put(&key, &value).unwrap();
                model.insert(key, value);
            }
            db.flush().unwrap();
            let (forward, backward) = (db.iter().unwrap(), db.iter().unwrap().rev());
            for number in (0..2000_u64).filter(|number| number % 3 != 0) {
                let key = number.to_string();
                if number % 3 == 1 {
                    db.put(&key, "new").unwrap()
                } else {
                    db.delete(&key).unwrap()
                }
                db.put(format!("{number}a"), "later").unwrap();
            }
            db.flush().unwrap();
            let forward: Vec<_> = forward.map(|entry| entry.unwrap()).collect();
            let found: Vec<_> = forward.iter().map(|(key, value)| (&key[..], &value[..])).collect();
            assert_eq!(found, order.sorted(&model));
            assert!(backward.map(|entry| entry.unwrap()).eq(forward.iter().rev().cloned()));
        }
    }
}

/// The child: writes, says how far it has come, and is killed. Does nothing when the tests are run as usual.
#[test]
fn child_that_writes_in_an_order_until_it_is_killed() {
    let Ok(plan) = std::env::var("SLMDB_COMPARATOR_TEST") else { return };
    let words: Vec<&str> = plan.split('|').collect();
    let order = ORDERS.into_iter().find(|order| order.name() == words[2]).unwrap();
    let numbers = words[3].parse::<u64>().unwrap()..words[4].parse().unwrap();
    let options =
        crate::common::options().memtable_bytes(64 << 10).pool_initial_bytes(4 << 20).pool_growth_bytes(1 << 20);
    let options = options.pool_maximum_bytes(4 << 30).comparator(order);
    let medium = if words[1].is_empty() { Medium::Dram } else { Medium::Emulated { path: words[1].into() } };
    let db = options.medium(medium).open(words[0]).unwrap();
    for number in numbers {
        match change(number) {
            (key, Some(value)) => db.put(key, value).unwrap(),
            (key, None) => db.delete(key).unwrap(),
        }
    }
    // As a kill: nothing is flushed, closed or unlocked on the way out.
    std::process::abort();
}

#[test]
fn a_killed_store_comes_back_in_its_order() {
    for on in MEDIA {
        for order in ORDERS {
            let (home, mut model) = (Home::new(on), Model::new());
            for round in 0..4_u64 {
                let (first, end) = (round * 3000, round * 3000 + 2000 + 300 * round);
                let pool = home.pool().unwrap_or_default();
                let (store, pool) = (home.store().display().to_string(), pool.display().to_string());
                let plan = [&store, &pool, order.name(), &first.to_string(), &end.to_string()].join("|");
                let status = Command::new(std::env::current_exe().unwrap())
                    .args(["reads::key_orders::child_that_writes_in_an_order_until_it_is_killed", "--exact"])
                    .env("SLMDB_COMPARATOR_TEST", plan)
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .status()
                    .unwrap();
                assert!(status.code().is_none(), "the child was to be killed: {status}");
                (first..end).for_each(|number| apply(&mut model, change(number)));
                let db = home.options().comparator(order).open(home.store()).unwrap();
                assert_contents(&db, order, &model, &format!("{on:?}, {order:?}, round {round}"));
                assert_verified(&db, &format!("{on:?}, {order:?}, round {round}"));
                db.close().unwrap();
            }
        }
    }
}

#[test]
fn a_store_is_opened_in_its_own_order_alone() {
    for on in MEDIA {
        let home = Home::new(on);
        let db = home.options().comparator(Order::Backwards).open(home.store()).unwrap();
        db.put("a", "1").unwrap();
        db.put("b", "2").unwrap();
        db.close().unwrap();
        let others = [home.options(), home.options().comparator(Order::ByLength), home.options().read_only(true)];
        for (other, name) in others.into_iter().zip(["\"bytewise\"", "\"test.by-length\"", "\"bytewise\""]) {
            let error = other.open(home.store()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            let text = error.to_string();
            assert!(text.contains("\"test.backwards\"") && text.contains(name) && text.contains("MANIFEST"), "{text}");
        }
        let db = home.options().comparator(Order::Backwards).open(home.store()).unwrap();
        let keys: Vec<_> = db.iter().unwrap().keys_only().map(|key| key.unwrap()).collect();
        assert_eq!(keys, [b"b", b"a"]);
        drop(db);

        let plain = Home::new(on);
        plain.open().close().unwrap();
        let error = plain.options().comparator(Order::ByLength).open(plain.store()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
}

#[test]
fn names_that_would_be_mistaken_are_refused() {
    struct Named(String);

    impl Comparator for Named {
        fn name(&self) -> &str {
            &self.0
        }

        fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
            left.cmp(right)
        }
    }

    let home = Home::new(On::Dram);
    for name in ["", "bytewise", "bytewise.2", &"x".repeat(256)] {
        let error = home.options().comparator(Named(name.into())).open(home.store()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{name:?}");
        assert!(!home.store().exists());
    }
}

#[test]
fn keys_with_a_prefix_are_no_range_in_another_order() {
    let home = Home::new(On::Dram);
    let db = home.options().comparator(Order::ByLength).open(home.store()).unwrap();
    for key in ["a", "b", "aa", "ab", "b1"] {
        db.put(key, "").unwrap();
    }
    let error = db.prefix("a").map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("test.by-length"), "{error}");
    assert_eq!(db.prefix("").unwrap().count(), 5, "all is a range in every order");
    let keys: Vec<_> = db.range("b"..="ab").unwrap().map(|entry| entry.unwrap().0).collect();
    assert_eq!(keys, [&b"b"[..], b"aa", b"ab"]);
    assert_eq!(db.range("ab".."b").unwrap().count(), 0, "that is from back to front");
}

#[test]
fn keys_that_a_comparator_calls_equal_are_different_keys() {
    struct Letters;

    impl Comparator for Letters {
        fn name(&self) -> &str {
            "test.letters"
        }

        fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
            left.to_ascii_lowercase().cmp(&right.to_ascii_lowercase())
        }
    }

    for on in MEDIA {
        let home = Home::new(on);
        let db = home.options().comparator(Letters).open(home.store()).unwrap();
        for flushing in [false, true] {
            for key in ["b", "B", "a", "A", "C"] {
                db.put(key, key).unwrap();
            }
            if flushing {
                db.flush().unwrap();
            }
            let found: Vec<_> = db.iter().unwrap().map(|entry| entry.unwrap()).collect();
            let keys: Vec<_> = found.iter().map(|(key, _)| &key[..]).collect();
            assert_eq!(keys, [b"A", b"a", b"B", b"b", b"C"]);
            assert!(found.iter().all(|(key, value)| key == value));
        }
        assert_verified(&db, "letters");
    }
}

/// Comparators that are none, of several kinds.
struct Nonsense {
    kind: u64,
    calls: AtomicU64,
}

impl Comparator for Nonsense {
    fn name(&self) -> &str {
        "test.nonsense"
    }

    fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        let sum = |key: &[u8]| key.iter().map(|&byte| u64::from(byte)).sum::<u64>();
        let call = self.calls.fetch_add(1, Relaxed);
        match self.kind {
            // Always the same about the same keys.
            0 => Random(sum(left) << 20 | sum(right)).next().cmp(&(1 << 63)),
            // Round in a circle.
            1 => [left.cmp(right), Ordering::Less, Ordering::Greater][((sum(left) + 2 * sum(right)) % 3) as usize],
            // Another answer every time.
            2 => Random(call).next().cmp(&(1 << 63)),
            // Wrong now and then.
            _ if Random(call).one_in(300) => right.cmp(left),
            _ => left.cmp(right),
        }
    }
}

fn survive(on: On, kind: u64) {
    let home = Home::new(on);
    let open = || {
        let comparator = Nonsense { kind, calls: AtomicU64::new(kind) };
        home.options()
            .memtable_bytes(16 << 10)
            .advanced(|advanced| advanced.node_bytes(256))
            .comparator(comparator)
            .open(home.store())
    };
    let expected = |error: slmdb::Error| {
        let kinds = [ErrorKind::Corruption, ErrorKind::Invalid, ErrorKind::ReadOnly, ErrorKind::Full];
        assert!(kinds.contains(&error.kind()), "{error}");
    };
    let mut random = Random(kind);
    for _ in 0..3 {
        let db = match open() {
            Ok(db) => db,
            Err(error) => return expected(error),
        };
        for number in 0..1500 {
            let key = random.below(800).to_string();
            let written = if random.one_in(4) { db.delete(&key) } else { db.put(&key, format!("value of {key}")) };
            written.map_or_else(expected, drop);
            match db.get(&key) {
                Ok(found) => assert!(found.is_none_or(|found| found == format!("value of {key}").as_bytes())),
                Err(error) => expected(error),
            }
            if number % 300 == 299 {
                for entries in [db.iter().unwrap(), db.range("2".."7").unwrap()] {
                    entries.for_each(|entry| entry.map_or_else(expected, drop));
                }
                db.iter().unwrap().rev().for_each(|entry| entry.map_or_else(expected, drop));
                let mut cursor = db.cursor().unwrap();
                for _ in 0..50 {
                    let key = random.below(800).to_string();
                    let moved = match random.below(4) {
                        0 => cursor.seek(&key),
                        1 => cursor.seek_before(&key),
                        2 => cursor.next(),
                        _ => cursor.prev(),
                    };
                    moved.map_or_else(expected, drop);
                }
                db.verify(&mut |_| ()).map_or_else(expected, drop);
            }
        }
        db.flush().map_or_else(expected, drop);
        db.close().map_or_else(expected, drop);
    }
}

#[test]
fn a_comparator_that_is_no_order_gives_errors_and_nothing_worse() {
    let (done, wait) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        for on in MEDIA {
            (0..4).for_each(|kind| survive(on, kind));
        }
        let _ = done.send(());
    });
    match wait.recv_timeout(Duration::from_secs(120 * budget())) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("the store is caught in a loop"),
        _ => thread.join().unwrap(),
    }
}
