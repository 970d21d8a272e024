//! The known faults of published FAST and FAIR code, one test each, by name. Three more, about
//! readers in the middle of shifts, are in `src/fast_fair/tests/interleave.rs`, since they stop a reader between its loads:
//! `range_scan_sees_a_key_twice_or_out_of_order_during_a_shift`, `inner_search_takes_the_wrong_child_during_a_shift` and
//! `slot_0_passes_through_null`.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::support::{Random, Store};
use crate::hooked::{Event, Hooked};
use slmdb_env::ErrorKind;
use slmdb_order::Direction;
use slmdb_pmem::{Dram, ExtentKind, Medium, Pool};
use slmdb_structures::fast_fair::{Applied, Decision};
use slmdb_testkit::Simulated;

/// Two-letter keys: `aa`, `ab`, ...
fn keys(count: u8) -> Vec<Vec<u8>> {
    (0..count).map(|number| vec![b'a' + number / 26, b'a' + number % 26]).collect()
}

fn model(keys: &[Vec<u8>], records: &[u64], which: impl Iterator<Item = usize>) -> BTreeMap<Vec<u8>, u64> {
    which.map(|index| (keys[index].clone(), records[index])).collect()
}

/// Runs an operation and looks at every crash in it. `check` gets what the crash left, opened again.
fn crash_in(medium: &Simulated, operation: impl FnOnce(), images: u64, mut check: impl FnMut(Store<Simulated>, bool)) {
    let begin = medium.moment();
    operation();
    let end = medium.moment();
    let mut replay = medium.history().replay();
    replay.to_moment(begin);
    let mut looked_at = 0;
    while replay.to_next_crash() {
        for image in replay.images(images, 17) {
            check(Store::open_image(Simulated::new(), image), replay.moment() >= end);
            looked_at += 1;
        }
    }
    assert!(looked_at > 2, "a crash in the middle was looked at");
}

/// The tree is sound, and holds `before` or `after`, which differ in one operation.
fn check_either<M: Medium>(
    store: &Store<M>,
    before: &BTreeMap<Vec<u8>, u64>,
    after: &BTreeMap<Vec<u8>, u64>,
    done: bool,
) -> BTreeMap<Vec<u8>, u64> {
    let all = store.collect(Bound::Unbounded, Direction::Forward, 0);
    let is_after = all.iter().eq(after.values());
    assert!(is_after || (!done && all.iter().eq(before.values())), "{all:?} is neither {before:?} nor {after:?}");
    let model = if is_after { after } else { before };
    store.assert_same(model);
    model.clone()
}

/// What another writer does between the moment that a first one has found its leaf and the moment that it locks it: puts
/// so many keys at once that the leaf is replaced, without having been full.
fn split_before_lock(store: &Arc<Store<Hooked<Dram>>>, keys: &[Vec<u8>], records: &[u64], batch: &[usize]) {
    let other = Arc::clone(store);
    let batch: Vec<(Vec<u8>, u64)> = batch.iter().map(|&index| (keys[index].clone(), records[index])).collect();
    store.pool.medium().set(move |event| {
        let locking = matches!(event, Event::Exchange { .. });
        if locking {
            let keys = batch.iter().map(|(key, _)| &key[..]);
            other.tree.update_sorted(keys, |index, _| Ok(Decision::Put(batch[index].1))).unwrap();
            assert_eq!(other.tree.height().unwrap(), 2);
        }
        !locking
    });
}

#[test]
fn writer_lands_in_the_wrong_node_during_a_split() {
    let keys = keys(26);
    type Operation = fn(&Store<Hooked<Dram>>, &[u8], u64);
    let put: Operation = |store, key, record| store.put(key, record);
    let put_sorted: Operation = |store, key, record| {
        store.tree.update_sorted(std::iter::once(key), |_, _| Ok(Decision::Put(record))).unwrap();
    };
    let remove: Operation = |store, key, _| store.remove(key);
    for (operation, puts) in [(put, true), (put_sorted, true), (remove, false)] {
        // A new key of either half, and one that is there.
        for key in [1, 21, 2, 14] {
            let store = Arc::new(Store::create(Hooked::new(Dram), 256));
            let records = store.records(1, &keys);
            for index in (0..16).step_by(2) {
                store.put(&keys[index], records[index]);
            }
            let others = [3, 5, 7, 9, 11, 13];
            split_before_lock(&store, &keys, &records, &others);
            operation(&store, &keys[key], records[key]);
            let mut there = model(&keys, &records, (0..16).step_by(2).chain(others));
            if puts {
                there.insert(keys[key].clone(), records[key]);
            } else {
                there.remove(&keys[key]);
            }
            store.assert_same(&there);
        }
    }
}

#[test]
fn parent_link_never_completed_after_a_crash_in_mid_split() {
    let keys = keys(60);
    let medium = Simulated::new();
    let store = Store::create_in(medium.clone(), 256, 16 << 20);
    let records = store.records(1, &keys);
    for index in (0..60).step_by(2) {
        store.put(&keys[index], records[index]);
    }
    let leaves =
        |store: &Store<Simulated>| store.tree.dump().unwrap().lines().nth(2).unwrap().matches(" n").count() - 1;
    let mut there: Vec<usize> = (0..60).step_by(2).collect();
    let mut split = None;
    for index in (1..60).step_by(2) {
        let (before, count) = (model(&keys, &records, there.iter().copied()), leaves(&store));
        there.push(index);
        let after = model(&keys, &records, there.iter().copied());
        crash_in(
            &medium,
            || store.put(&keys[index], records[index]),
            16,
            |crashed, done| {
                // Verified against the parent: it has every leaf, and no leaf is reached by its sibling alone.
                let found = check_either(&crashed, &before, &after, done);
                assert!(leaves(&crashed) >= count && (found != after || leaves(&crashed) >= leaves(&store)));
            },
        );
        if leaves(&store) > count {
            split = Some(index);
            break;
        }
    }
    assert!(split.is_some(), "a leaf was split below a parent");
}

#[test]
fn root_pointer_and_height_not_changed_together() {
    let keys = keys(120);
    let medium = Simulated::new();
    let store = Store::create_in(medium.clone(), 256, 16 << 20);
    let records = store.records(1, &keys);
    let mut now = BTreeMap::new();
    let mut heights = std::collections::BTreeSet::new();
    let mut order: Vec<(usize, bool)> = (0..120).map(|index| (index, true)).collect();
    Random::new(6).shuffle(&mut order);
    order.extend((0..120).map(|index| (index, false)));
    for (index, put) in order {
        let before = now.clone();
        let height = store.tree.height().unwrap();
        let begin = medium.moment();
        if put {
            now.insert(keys[index].clone(), records[index]);
            store.put(&keys[index], records[index]);
        } else {
            now.remove(&keys[index]);
            store.remove(&keys[index]);
        }
        if store.tree.height().unwrap() == height {
            continue;
        }
        heights.insert((height, store.tree.height().unwrap()));
        let (end, mut replay) = (medium.moment(), medium.history().replay());
        replay.to_moment(begin);
        while replay.to_next_crash() {
            for image in replay.images(16, 5) {
                let crashed = Store::open_image(Dram, image);
                check_either(&crashed, &before, &now, replay.moment() >= end);
                let found = crashed.tree.height().unwrap();
                assert!(found == height || found == store.tree.height().unwrap());
                // It grows on from there.
                let mut after = check_either(&crashed, &before, &now, false);
                for (key, &record) in keys.iter().zip(&records) {
                    crashed.put(key, record);
                    after.insert(key.clone(), record);
                }
                crashed.assert_same(&after);
            }
        }
    }
    assert!([(1, 2), (2, 3), (3, 2), (2, 1)].iter().all(|change| heights.contains(change)), "{heights:?}");
}

#[test]
fn shifts_flush_the_wrong_end_of_a_line() {
    let keys = keys(24);
    for used in [1, 3, 4, 5, 7, 8, 9, 11] {
        for at in 0..=used {
            let medium = Simulated::new();
            let store = Store::create_in(medium.clone(), 256, 16 << 20);
            let records = store.records(1, &keys);
            let there: Vec<usize> = (0..used).map(|index| 2 * index + 1).collect();
            for &index in &there {
                store.put(&keys[index], records[index]);
            }
            let without = model(&keys, &records, there.iter().copied());
            let with = model(&keys, &records, there.iter().copied().chain([2 * at]));
            let insert = || store.put(&keys[2 * at], records[2 * at]);
            crash_in(&medium, insert, 64, |crashed, done| drop(check_either(&crashed, &without, &with, done)));
            let remove = || store.remove(&keys[2 * at]);
            crash_in(&medium, remove, 64, |crashed, done| drop(check_either(&crashed, &with, &without, done)));
        }
    }
}

#[test]
fn delete_after_a_torn_insert_removes_only_the_duplicate() {
    let keys = keys(12);
    let medium = Simulated::new();
    let store = Store::create_in(medium.clone(), 256, 16 << 20);
    let records = store.records(1, &keys);
    for index in 1..10 {
        store.put(&keys[index], records[index]);
    }
    let begin = medium.moment();
    store.put(&keys[0], records[0]);
    store.remove(&keys[3]);
    let mut replay = medium.history().replay();
    replay.to_moment(begin);
    while replay.to_next_crash() {
        for image in replay.images(24, 23) {
            for deleted in 0..10 {
                let medium = Simulated::new();
                let crashed = Store::open_image(medium.clone(), image.clone());
                crashed.remove(&keys[deleted]);
                assert_eq!(crashed.get(&keys[deleted]), None, "key {deleted} comes back");
                assert!(!crashed.collect(Bound::Unbounded, Direction::Forward, 0).contains(&records[deleted]));
                let faults = crashed.tree.verify();
                assert!(faults.is_empty(), "{faults:?}");
                // Nor does it come back by another crash.
                let mut replay = medium.history().replay();
                while replay.to_next_crash() {}
                for image in replay.images(4, 1) {
                    assert_eq!(Store::open_image(Dram, image).get(&keys[deleted]), None);
                }
            }
        }
    }
}

#[test]
fn merge_that_is_not_atomic() {
    let keys = keys(100);
    let medium = Simulated::new();
    let store = Store::create_in(medium.clone(), 256, 16 << 20);
    let records = store.records(1, &keys);
    let mut order: Vec<usize> = (0..100).collect();
    Random::new(4).shuffle(&mut order);
    for &index in &order {
        store.put(&keys[index], records[index]);
    }
    let mut now = model(&keys, &records, 0..100);
    let mut merges = 0;
    for index in (30..90).chain(0..30) {
        let (before, nodes, begin) = (now.clone(), store.tree.node_bytes_used().unwrap(), medium.moment());
        now.remove(&keys[index]);
        store.remove(&keys[index]);
        if store.tree.node_bytes_used().unwrap() == nodes {
            continue;
        }
        merges += 1;
        let (end, mut replay) = (medium.moment(), medium.history().replay());
        replay.to_moment(begin);
        while replay.to_next_crash() {
            for image in replay.images(12, 29) {
                let crashed = Store::open_image(Dram, image);
                check_either(&crashed, &before, &now, replay.moment() >= end);
            }
        }
    }
    assert!(merges > 5, "{merges} merges");
}

#[test]
fn data_put_under_a_sibling_pointer_not_persisted_yet() {
    let keys = keys(26);
    let recorder = Simulated::new();
    let medium = Hooked::new(recorder.clone());
    let store = Arc::new(Store::create_in(medium.clone(), 256, 16 << 20));
    let records = store.records(1, &keys);
    for index in (0..24).step_by(2) {
        store.put(&keys[index], records[index]);
    }
    // The root is a full leaf. Once the new nodes can be reached another writer puts a key into one of them, while the
    // splitting thread has not come to make that durable.
    let base = address_of_root(&store);
    let acknowledged = Arc::new(Mutex::new(Vec::new()));
    let writers = Arc::new(Mutex::new(Vec::new()));
    let hook = {
        let (store, acknowledged, writers) = (Arc::clone(&store), Arc::clone(&acknowledged), Arc::clone(&writers));
        let (keys, records, recorder) = (keys.clone(), records.clone(), recorder.clone());
        let mut committed = false;
        move |event| {
            if !committed {
                committed = matches!(event, Event::Store { address, value } if address == base + 16 && value != 0);
                return true;
            }
            if event != Event::Flush {
                return true;
            }
            for index in [5, 21] {
                let (store, acknowledged, recorder) = (Arc::clone(&store), Arc::clone(&acknowledged), recorder.clone());
                let (key, record) = (keys[index].clone(), records[index]);
                let (done, wait) = mpsc::channel();
                writers.lock().unwrap().push(std::thread::spawn(move || {
                    store.put(&key, record);
                    acknowledged.lock().unwrap().push((recorder.moment(), key, record));
                    let _ = done.send(());
                }));
                // If it is not made to wait it is through long before.
                let _ = wait.recv_timeout(Duration::from_millis(300));
            }
            false
        }
    };
    medium.set(hook);
    let begin = recorder.moment();
    store.put(&keys[11], records[11]);
    medium.clear();
    writers.lock().unwrap().drain(..).for_each(|writer| writer.join().unwrap());
    let acknowledged = acknowledged.lock().unwrap();
    assert_eq!(acknowledged.len(), 2);
    let mut replay = recorder.history().replay();
    replay.to_moment(begin);
    while replay.to_next_crash() {
        for image in replay.images(12, 3) {
            let crashed = Store::open_image(Dram, image);
            assert!(crashed.tree.verify().is_empty(), "{:?}", crashed.tree.verify());
            for (moment, key, record) in acknowledged.iter() {
                if *moment <= replay.moment() {
                    assert_eq!(crashed.get(key), Some(*record), "an acknowledged key was lost with its node");
                }
            }
        }
    }
}

/// The address of the root node, as the hook sees it: that of the one word which is stored when the root leaf is locked.
fn address_of_root(store: &Store<Hooked<Simulated>>) -> usize {
    let (found, address) = mpsc::channel();
    store.pool.medium().set(move |event| match event {
        Event::Exchange { address } => {
            found.send(address).unwrap();
            false
        }
        Event::Store { .. } | Event::Flush => true,
    });
    store.remove(b"no such key");
    address.recv().unwrap()
}

#[test]
fn equal_adjacent_values_read_as_a_hole() {
    // Published code takes equal neighbouring pointers for an unfinished shift, and so loses a key whose value is its
    // neighbour's. Here a pointer is a key's own record: the tree refuses it for any other key, and the same record for
    // the same key can come back as often as it likes.
    let store = Store::create(Dram, 256);
    let keys = keys(8);
    let records = store.records(1, &keys);
    for (key, &record) in keys.iter().zip(&records) {
        store.put(key, record);
    }
    for other in [2, 4] {
        let refused = store.tree.insert_or_replace(&keys[3], records[other]).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
        assert_eq!(
            store.tree.compare_and_swap(&keys[3], records[3], records[other]).unwrap_err().kind(),
            ErrorKind::Invalid
        );
        let batch = keys[3..5].iter().map(Vec::as_slice);
        let result = store.tree.update_sorted(batch, |_, _| Ok(Decision::Put(records[other])));
        assert!(result.is_err());
    }
    for _ in 0..3 {
        store.remove(&keys[3]);
        store.put(&keys[3], records[3]);
        assert_eq!(store.tree.insert_or_replace(&keys[3], records[3]).unwrap(), Applied::Replaced { old: records[3] });
    }
    // Values of keys that are equal in all but the key itself.
    let again = store.records(2, &keys);
    for (key, &record) in keys.iter().zip(&again) {
        store.put(key, record);
    }
    store.assert_same(&model(&keys, &again, 0..8));
}

/// Insert that is not an upsert leaves two entries around a split.
#[test]
fn an_insert_without_upsert_leaves_two_entries_around_a_split() {
    let keys = keys(26);
    for key in [0, 4, 10, 12, 14, 22] {
        // A full leaf, and a put of a key that it has: no split, one entry.
        let store = Store::create(Dram, 256);
        let (old, new) = (store.records(1, &keys), store.records(2, &keys));
        for index in (0..24).step_by(2) {
            store.put(&keys[index], old[index]);
        }
        let mut expected = model(&keys, &old, (0..24).step_by(2));
        expected.insert(keys[key].clone(), new[key]);
        let applied = store.tree.insert_or_replace(&keys[key], new[key]).unwrap();
        assert_eq!(applied, Applied::Replaced { old: old[key] });
        assert_eq!(store.tree.height().unwrap(), 1);
        store.assert_same(&expected);
        // A put of a key that is not there when the writer finds the leaf, and is, in another node, when it has the lock:
        // somebody else has put it and split the leaf.
        let store = Arc::new(Store::create(Hooked::new(Dram), 256));
        let (old, new) = (store.records(1, &keys), store.records(2, &keys));
        for index in (0..16).step_by(2) {
            store.put(&keys[index], old[index]);
        }
        let mut others = vec![3, 5, 7, 9, 17, key + 1];
        others.sort();
        others.dedup();
        split_before_lock(&store, &keys, &old, &others);
        let applied = store.tree.insert_or_replace(&keys[key + 1], new[key + 1]).unwrap();
        assert_eq!(applied, Applied::Replaced { old: old[key + 1] });
        let mut expected = model(&keys, &old, (0..16).step_by(2).chain(others));
        expected.insert(keys[key + 1].clone(), new[key + 1]);
        store.assert_same(&expected);
    }
}

/// Fails the test, and does not hang, if `run` does not end.
fn must_end(what: &str, run: impl FnOnce() + Send + 'static) {
    let (done, wait) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        run();
        let _ = done.send(());
    });
    match wait.recv_timeout(Duration::from_secs(20)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{what} waits for ever"),
        _ => thread.join().unwrap(),
    }
}

#[test]
fn volatile_lock_word_trusted_after_a_restart() {
    let keys = keys(40);
    let medium = Simulated::new();
    let store = Store::create_in(medium.clone(), 256, 16 << 20);
    let records = store.records(1, &keys);
    let begin = medium.moment();
    for (key, &record) in keys.iter().zip(&records) {
        store.put(key, record);
    }
    // Killed at any moment, with everything stored so far durable: locks that were held are.
    let mut replay = medium.history().replay();
    replay.to_moment(begin);
    let mut images = Vec::new();
    while replay.to_next_crash() {
        images.push(replay.image(slmdb_testkit::medium::Choice::Everything));
    }
    must_end("an update after a restart", {
        let (keys, records) = (keys.clone(), records.clone());
        move || {
            for image in images {
                let crashed = Store::open_image(Dram, image);
                for (key, &record) in keys.iter().zip(&records) {
                    crashed.put(key, record);
                }
                crashed.assert_same(&model(&keys, &records, 0..keys.len()));
            }
        }
    });
    // Lock words from hostile hands, as the next opening might write them.
    let image = replay.image(slmdb_testkit::medium::Choice::Everything);
    let opened = Store::open_image(Dram, image.clone());
    let number = u64::from(opened.pool.open_count());
    for held in [number << 32 | 1, number << 32 | 3, number << 32 | u64::from(u32::MAX)] {
        let mut image = image.clone();
        for block in opened.blocks.used() {
            if opened.blocks.block_size(block).unwrap() == 256 {
                image[block as usize..][..8].copy_from_slice(&held.to_le_bytes());
            }
        }
        let keys = keys.clone();
        must_end("an update of a hostile pool", move || {
            let crashed = Store::open_image(Dram, image);
            for key in &keys {
                crashed.remove(key);
            }
        });
    }
}

#[test]
fn prefix_keys_compare_equal() {
    // Keys that are beginnings of each other, and differ from them in zeros only: the heads are the same.
    let mut keys: Vec<Vec<u8>> = (0..40).map(|length| vec![0; length]).collect();
    for start in [b"k".as_slice(), b"key", b"longer than a head is", &[0xff; 8]] {
        keys.extend((0..20).map(|length| [start, &vec![0; length]].concat()));
    }
    keys.sort();
    for seed in 0..3 {
        let store = Store::create(Dram, 256);
        let records = store.records(1, &keys);
        let mut order: Vec<usize> = (0..keys.len()).collect();
        Random::new(seed).shuffle(&mut order);
        let mut there = BTreeMap::new();
        for &index in &order {
            assert_eq!(store.get(&keys[index]), None);
            assert_eq!(store.tree.insert_or_replace(&keys[index], records[index]).unwrap(), Applied::Inserted);
            there.insert(keys[index].clone(), records[index]);
        }
        store.assert_same(&there);
        store.assert_ranges(&there, &keys);
        for &index in &order {
            assert_eq!(store.tree.remove(&keys[index]).unwrap(), Applied::Removed { old: records[index] });
            there.remove(&keys[index]);
            assert_eq!(store.get(&keys[index]), None);
        }
        store.assert_same(&there);
    }
}

#[test]
fn the_intents_and_nodes_are_all_the_blocks_there_are() {
    // What the other tests rely on: that verify notices a block too many.
    let store = Store::create(Dram, 256);
    assert!(store.tree.verify().is_empty());
    let stray = store.blocks.take(256).unwrap();
    store.blocks.mark_used(stray).unwrap();
    assert_eq!(store.tree.verify().len(), 1);
    store.blocks.mark_free(stray).unwrap();
    assert!(store.tree.verify().is_empty());
    assert_eq!(store.pool.kind_at(stray), Some(ExtentKind::Blocks));
    fn is_shared<T: Send + Sync>(_: &T) {}
    is_shared(&store.tree);
    let _: &Arc<Pool<Dram>> = store.tree.pool();
}
