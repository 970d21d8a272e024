//! The tree under orders other than by bytes; and under such that are none, which it survives.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use super::support::workload::Workload;
use super::support::{Random, Store, budget, hostile_keys, orders};
use slmdb_env::{Error, ErrorKind};
use slmdb_order::{Direction, KeyOrder};
use slmdb_pmem::{Dram, Pool};
use slmdb_structures::fast_fair::{Decision, LeafRead, Tree};
use slmdb_sync::epoch;
use slmdb_testkit::{Simulated, medium::Choice};

fn store(node_bytes: u32, order: KeyOrder) -> Store<Dram> {
    Store::create_ordered(Dram, node_bytes, 200 << 20, order)
}

fn true_orders() -> [KeyOrder; 3] {
    [orders::backwards(), orders::by_length(), orders::as_comparator()]
}

/// Random operations on hostile keys agree with a map in every order.
#[test]
fn hostile_keys_agree_with_a_map_in_every_order() {
    for (seed, order) in true_orders().into_iter().enumerate() {
        for node_bytes in [256, 512] {
            println!("{order:?}, nodes of {node_bytes} bytes");
            let mut random = Random::new(seed as u64);
            let store = store(node_bytes, order.clone());
            let keys = hostile_keys(&mut random, 500);
            Workload::new(&store, keys).run(1200 * budget(), &mut random);
        }
    }
}

#[test]
fn all_keys_come_and_go_in_every_order() {
    for order in true_orders() {
        println!("{order:?}");
        let mut random = Random::new(11);
        let store = store(256, order);
        let keys = (0..3000).map(|_| random.next().to_be_bytes()[..1 + random.below(4)].to_vec()).collect();
        let mut workload = Workload::new(&store, keys);
        for key in 0..workload.keys.len() {
            let record = workload.record(key, &mut random);
            workload.put(key, record);
        }
        workload.check(&mut random);
        for key in (0..workload.keys.len()).rev() {
            workload.remove(key);
        }
        workload.check(&mut random);
        for from in (0..workload.keys.len()).step_by(100) {
            workload.batch(from, 100, 0, &mut random);
        }
        workload.check(&mut random);
        assert!(store.tree.height().unwrap() > 2);
    }
}

#[test]
fn the_empty_key_has_its_place_like_any_other() {
    for order in true_orders() {
        let store = store(256, order.clone());
        let mut keys: Vec<Vec<u8>> = (0..200_u8).map(|number| vec![b'k', number]).collect();
        keys.push(Vec::new());
        keys.sort_by(|left, right| order.compare(left, right));
        let records = store.records(1, &keys);
        let place = keys.iter().position(Vec::is_empty).unwrap();
        assert_eq!(place, if order.name() == "backwards" { 200 } else { 0 });
        let mut model = BTreeMap::new();
        for (key, &record) in keys.iter().zip(&records) {
            store.put(key, record);
            model.insert(key.clone(), record);
        }
        store.assert_same(&model);
        store.assert_ranges(&model, &[Vec::new(), keys[5].clone(), keys[195].clone(), vec![0xff; 3]]);
        store.remove(b"");
        model.remove(&Vec::new());
        store.assert_same(&model);
        store.assert_ranges(&model, &[Vec::new()]);
    }
}

#[test]
fn a_tree_is_opened_in_its_own_order_alone() {
    for (made, others) in [
        (KeyOrder::Bytewise, [orders::backwards(), orders::by_length()]),
        (orders::backwards(), [KeyOrder::Bytewise, orders::by_length()]),
    ] {
        let medium = Simulated::new();
        let store = Store::create_ordered(medium.clone(), 256, 1 << 20, made.clone());
        let record = store.records(1, &[b"key"])[0];
        store.put(b"key", record);
        let mut replay = medium.history().replay();
        replay.to_moment(u64::MAX);
        let image = replay.image(Choice::Everything);
        for other in others {
            let pool = Arc::new(Pool::from_image(Dram, image.clone()).unwrap());
            let blocks = Arc::new(slmdb_pmem::Blocks::open(Arc::clone(&pool)).unwrap());
            let error = Tree::open(pool, blocks, other.clone()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains(other.name()), "{error}");
        }
        assert_eq!(Store::open_image_ordered(Dram, image, made).get(b"key"), Some(record));
    }
}

#[test]
fn a_batch_ascends_in_the_order_of_the_tree() {
    let store = store(256, orders::backwards());
    let records = store.records(1, &[b"a", b"b"]);
    let put = |keys: [&[u8]; 2], records: [u64; 2]| {
        store.tree.update_sorted(keys.into_iter(), |index, _| Ok(Decision::Put(records[index])))
    };
    assert_eq!(put([b"a", b"b"], [records[0], records[1]]).unwrap_err().kind(), ErrorKind::Invalid);
    store.remove(b"a");
    put([b"b", b"a"], [records[1], records[0]]).unwrap();
    assert_eq!(store.keys(), ["b", "a"]);
}

/// Everything that can be done with a tree whose comparator is no order: it ends, in answers or errors, and never has
/// another key's record for the one that was asked for.
fn exercise(order: KeyOrder, seed: u64) {
    let mut random = Random::new(seed);
    let store = store(256, order);
    let keys: Vec<Vec<u8>> = (0..400).map(|_| random.next().to_be_bytes()[..1 + random.below(4)].to_vec()).collect();
    let records = store.records(1, &keys);
    let expected = |error: &Error| {
        let kinds = [ErrorKind::Corruption, ErrorKind::Invalid, ErrorKind::Full];
        assert!(kinds.contains(&error.kind()), "{error}");
    };
    for round in 0..3 {
        for _ in 0..600 {
            let index = random.below(keys.len());
            let result = match random.below(4) {
                0 if round > 0 => store.tree.remove(&keys[index]),
                _ => store.tree.insert_or_replace(&keys[index], records[index]),
            };
            result.map_or_else(|error| expected(&error), drop);
        }
        for _ in 0..20 {
            let mut chosen: Vec<usize> = (0..60).map(|_| random.below(keys.len())).collect();
            chosen.sort_by_key(|&index| &keys[index]);
            for part in chosen.chunks(1 + random.below(6)) {
                let batch = part.iter().map(|&index| &keys[index][..]);
                let removing = random.below(3) == 0;
                let decide =
                    |index: usize| if removing { Decision::Remove } else { Decision::Put(records[part[index]]) };
                store.tree.update_sorted(batch, |index, _| Ok(decide(index))).unwrap_or_else(|error| expected(&error));
            }
        }
        let guard = epoch::pin();
        for key in &keys {
            match store.tree.get(key, &guard) {
                Ok(found) => assert!(found.is_none_or(|record| record.key() == key)),
                Err(error) => expected(&error),
            }
        }
        for direction in [Direction::Forward, Direction::Backward] {
            for at_once in [0, 100, usize::MAX] {
                let (mut leaf, mut from) = (LeafRead::new(), Some(Bound::Unbounded));
                while let Some(bound) = from {
                    let bound = bound.as_ref().map(Vec::as_slice);
                    if let Err(error) = store.tree.read_leaves(bound, direction, at_once, &guard, &mut leaf) {
                        expected(&error);
                        break;
                    }
                    from = leaf.next().map(|bound| bound.map(<[u8]>::to_vec));
                }
            }
            for record in store.tree.range(Bound::Included(&keys[0]), direction, &guard) {
                record.map_or_else(|error| expected(&error), drop);
            }
        }
        store.tree.verify().iter().for_each(expected);
        store.tree.count().map_or_else(|error| expected(&error), drop);
    }
}

#[test]
fn a_comparator_that_is_no_order_gives_errors_and_nothing_worse() {
    let (done, wait) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        for seed in 0..12 * budget() as u64 {
            for order in [orders::nonsense(seed), orders::circle(), orders::fickle(seed), orders::unreliable(seed)] {
                exercise(order, seed);
            }
        }
        let _ = done.send(());
    });
    match wait.recv_timeout(Duration::from_secs(120 * budget() as u64)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("the tree is caught in a loop"),
        _ => thread.join().unwrap(),
    }
}
