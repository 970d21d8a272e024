//! Many threads at once: readers that check what must be there, scans that must ascend, writers that split, merge and
//! swap under them.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::support::{Random, Store, budget, orders};
use slmdb_order::{Direction, KeyOrder};
use slmdb_pmem::Dram;
use slmdb_structures::fast_fair::{Decision, LeafRead};
use slmdb_sync::epoch;

fn key(number: u64) -> Vec<u8> {
    // Some share their heads, some do not.
    match number % 3 {
        0 => number.to_be_bytes().to_vec(),
        1 => [b"the same beginning".as_slice(), &number.to_be_bytes()].concat(),
        _ => [&(number % 7).to_be_bytes()[7..], &Random::new(number).next().to_be_bytes()[..5]].concat(),
    }
}

#[test]
fn readers_find_what_is_there_while_writers_change_all_around() {
    change_all_around(KeyOrder::Bytewise);
}

#[test]
fn readers_find_what_is_there_where_whole_keys_are_compared() {
    change_all_around(orders::as_comparator());
}

fn change_all_around(order: KeyOrder) {
    let count = 3000_u64;
    let store = Store::create_ordered(Dram, 256, 200 << 20, order);
    let mut keys: Vec<Vec<u8>> = (0..count).map(key).collect();
    keys.sort();
    keys.dedup();
    let versions: Vec<Vec<u64>> = (1..=2).map(|file| store.records(file, &keys)).collect();
    // Keys of class 0 are always there, but swapped; of class 1 they come and go; of class 2 they are never there.
    let class = |index: usize| index % 3;
    for index in (0..keys.len()).filter(|&index| class(index) == 0) {
        store.put(&keys[index], versions[0][index]);
    }
    let end = Instant::now() + Duration::from_millis(2500 * budget() as u64);
    let (reads, scans, writes) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (store, keys, versions, writes) = (&store, &keys, &versions, &writes);
            scope.spawn(move || {
                let mut random = Random::new(100 + thread);
                let mut growing = true;
                while Instant::now() < end {
                    // Each writer has its own keys of class 1, so it knows what is there.
                    let mine = |index: usize| class(index) == 1 && index % 2 == thread as usize;
                    if random.below(3) == 0 {
                        let start = random.below(keys.len());
                        let chosen: Vec<usize> = (start..keys.len()).filter(|&index| mine(index)).take(40).collect();
                        let batch = chosen.iter().map(|&index| &keys[index][..]);
                        let decision = |index: usize| {
                            if growing { Decision::Put(versions[0][chosen[index]]) } else { Decision::Remove }
                        };
                        store.tree.update_sorted(batch, |index, _| Ok(decision(index))).unwrap();
                        for &index in &chosen {
                            assert_eq!(store.get(&keys[index]), growing.then_some(versions[0][index]));
                        }
                    }
                    for _ in 0..50 {
                        let index = random.below(keys.len());
                        match class(index) {
                            0 => store.put(&keys[index], versions[random.below(2)][index]),
                            1 if mine(index) && growing => {
                                store.put(&keys[index], versions[0][index]);
                                assert_eq!(store.get(&keys[index]), Some(versions[0][index]));
                            }
                            1 if mine(index) => {
                                store.remove(&keys[index]);
                                assert_eq!(store.get(&keys[index]), None);
                            }
                            _ => {}
                        }
                        writes.fetch_add(1, Ordering::Relaxed);
                    }
                    if random.below(200) == 0 {
                        growing = !growing;
                    }
                }
            });
        }
        for thread in 0..2 {
            let (store, keys, versions, reads) = (&store, &keys, &versions, &reads);
            scope.spawn(move || {
                let mut random = Random::new(200 + thread);
                while Instant::now() < end {
                    let check = |index: usize, found: Option<u64>| {
                        match (class(index), found) {
                            (0, Some(record)) => assert!(versions.iter().any(|version| version[index] == record)),
                            (0, None) => panic!("key {index} was missed"),
                            (2, Some(_)) => panic!("key {index} was never there"),
                            _ => {}
                        }
                        reads.fetch_add(1, Ordering::Relaxed);
                    };
                    let guard = epoch::pin();
                    for _ in 0..50 {
                        let index = random.below(keys.len());
                        let found = store.tree.get(&keys[index], &guard).unwrap();
                        check(index, found.map(|record| record.offset()));
                    }
                    let step = 1 + random.below(20);
                    let from = random.below(keys.len() - 50 * step);
                    let chosen: Vec<usize> = (from..).step_by(step).take(50).collect();
                    let found = store.get_each(&chosen.iter().map(|&index| &keys[index]).collect::<Vec<_>>());
                    chosen.iter().zip(found).for_each(|(&index, found)| check(index, found));
                }
            });
        }
        for direction in [Direction::Forward, Direction::Backward] {
            let (store, keys, scans) = (&store, &keys, &scans);
            scope.spawn(move || {
                let mut leaf = LeafRead::new();
                while Instant::now() < end {
                    let (mut from, mut last, mut always) = (Some(Bound::Unbounded), None::<Vec<u8>>, 0);
                    while let Some(bound) = from {
                        let guard = epoch::pin();
                        let at_once = if scans.load(Ordering::Relaxed) % 2 == 0 { 0 } else { 60 };
                        store
                            .tree
                            .read_leaves(bound.as_ref().map(Vec::as_slice), direction, at_once, &guard, &mut leaf)
                            .unwrap();
                        for &record in leaf.records() {
                            let key = store.tree.record(record, &guard).unwrap().key();
                            if let Some(last) = &last {
                                let ascends =
                                    if direction == Direction::Forward { &last[..] < key } else { &last[..] > key };
                                assert!(ascends, "{} comes after {}", key.escape_ascii(), last.escape_ascii());
                            }
                            always +=
                                usize::from(class(keys.binary_search_by(|known| known[..].cmp(key)).unwrap()) == 0);
                            last = Some(key.to_vec());
                        }
                        from = leaf.next().map(|bound| bound.map(<[u8]>::to_vec));
                    }
                    assert_eq!(always, keys.len().div_ceil(3), "a key that is always there was missed");
                    scans.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    println!("{reads:?} reads, {scans:?} scans, {writes:?} writes");
    assert!(
        reads.load(Ordering::Relaxed) > 1000
            && scans.load(Ordering::Relaxed) > 3
            && writes.load(Ordering::Relaxed) > 1000
    );
    let faults = store.tree.verify();
    assert!(faults.is_empty(), "{faults:?}");
}

#[test]
fn writers_of_disjoint_keys_do_not_undo_each_other() {
    for round in 0..4 * budget() as u64 {
        let store = Store::create(Dram, 256);
        let mut keys: Vec<Vec<u8>> = (0..8000).map(|number| key(number ^ round << 20)).collect();
        keys.sort();
        keys.dedup();
        let records = store.records(1, &keys);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (store, keys, records) = (&store, &keys, &records);
                scope.spawn(move || {
                    let mut mine: Vec<usize> = (thread..keys.len()).step_by(4).collect();
                    if thread == 3 {
                        let batch = mine.iter().map(|&index| &keys[index][..]);
                        store.tree.update_sorted(batch, |index, _| Ok(Decision::Put(records[mine[index]]))).unwrap();
                    } else {
                        Random::new(round + thread as u64).shuffle(&mut mine);
                        for &index in &mine {
                            store.put(&keys[index], records[index]);
                        }
                    }
                    // Half of them go again.
                    mine.sort();
                    for &index in mine.iter().filter(|&&index| index / 4 % 2 == 0) {
                        store.remove(&keys[index]);
                    }
                });
            }
        });
        let expected: BTreeMap<_, _> = keys
            .iter()
            .cloned()
            .zip(records)
            .enumerate()
            .filter(|(index, _)| index / 4 % 2 == 1)
            .map(|(_, pair)| pair)
            .collect();
        store.assert_same(&expected);
    }
}

#[test]
fn one_of_many_wins_a_swap() {
    let store = Store::create(Dram, 256);
    let keys: Vec<Vec<u8>> = (0..50).map(key).collect();
    let versions: Vec<Vec<u64>> = (1..=5).map(|file| store.records(file, &keys)).collect();
    for (key, &record) in keys.iter().zip(&versions[0]) {
        store.put(key, record);
    }
    let wins = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for version in &versions[1..] {
            let (store, keys, first, wins) = (&store, &keys, &versions[0], &wins);
            scope.spawn(move || {
                for (index, key) in keys.iter().enumerate() {
                    if store.tree.compare_and_swap(key, first[index], version[index]).unwrap() {
                        wins.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert_eq!(wins.load(Ordering::Relaxed), 50);
    for (index, key) in keys.iter().enumerate() {
        assert!(versions[1..].iter().any(|version| Some(version[index]) == store.get(key)));
    }
}

#[test]
fn a_reader_with_an_old_guard_sees_sound_nodes() {
    // Holds a guard while the tree is replaced around it many times over, and goes on reading all the while.
    let store = Arc::new(Store::create(Dram, 256));
    let keys: Vec<Vec<u8>> = (0..600).map(key).collect();
    let records = store.records(1, &keys);
    let stop = Arc::new(AtomicBool::new(false));
    for (key, &record) in keys.iter().zip(&records) {
        store.put(key, record);
    }
    std::thread::scope(|scope| {
        let (store, keys, records, stop) = (&store, &keys, &records, &stop);
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                for (key, &record) in keys.iter().zip(records).skip(1) {
                    store.remove(key);
                    if record % 3 == 0 {
                        store.put(key, record);
                    }
                }
                for (key, &record) in keys.iter().zip(records) {
                    store.put(key, record);
                }
            }
        });
        for _ in 0..20 {
            let guard = epoch::pin();
            for _ in 0..300 {
                assert_eq!(store.tree.get(&keys[0], &guard).unwrap().unwrap().offset(), records[0]);
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(store.tree.verify().is_empty());
}
