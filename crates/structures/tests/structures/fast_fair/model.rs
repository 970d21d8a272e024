//! The tree against a `BTreeMap`: every operation, every kind of key, every size of node.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::support::workload::Workload;
use super::support::{Random, Store, budget, hostile_keys};
use proptest::prelude::*;
use slmdb_env::{Error, ErrorKind};
use slmdb_order::Direction;
use slmdb_pmem::Dram;
use slmdb_structures::EntryKind;
use slmdb_structures::fast_fair::{
    Applied, Decision, KeyRecord, LeafRead, MAXIMUM_KEY_BYTES, Segment, SegmentEntry, set_replaced_file, write_segment,
};
use slmdb_sync::epoch;

#[test]
fn random_operations_on_hostile_keys_agree_with_a_map() {
    for (seed, node_bytes) in [(1, 256), (2, 256), (3, 512), (4, 1024), (5, 4096)] {
        println!("seed {seed}, nodes of {node_bytes} bytes");
        let mut random = Random::new(seed);
        let store = Store::create(Dram, node_bytes);
        let keys = hostile_keys(&mut random, 700);
        Workload::new(&store, keys).run(2400 * budget(), &mut random);
    }
}

#[test]
fn random_operations_on_many_short_keys_agree_with_a_map() {
    let mut random = Random::new(11);
    let store = Store::create(Dram, 256);
    let keys = (0..6000).map(|_| random.next().to_be_bytes()[..3].to_vec()).collect();
    let mut workload = Workload::new(&store, keys);
    for _ in 0..budget() {
        workload.run(2000, &mut random);
        // And all gone, and back.
        for from in (0..workload.keys.len()).step_by(100) {
            workload.batch(from, 60, 8, &mut random);
        }
        workload.check(&mut random);
        for key in 0..workload.keys.len() {
            workload.remove(key);
        }
        workload.check(&mut random);
        assert!(store.tree.height().unwrap() <= 3, "empty leaves are merged: {}", store.tree.dump().unwrap());
        for key in 0..workload.keys.len() {
            let record = workload.record(key, &mut random);
            workload.put(key, record);
        }
        workload.check(&mut random);
    }
}

#[test]
fn every_order_of_insertion_gives_the_same_map() {
    let mut random = Random::new(21);
    let mut keys = hostile_keys(&mut random, 900);
    keys.sort();
    for order in ["ascending", "descending", "random", "inwards"] {
        println!("{order}");
        let store = Store::create(Dram, 256);
        let mut workload = Workload::new(&store, keys.clone());
        let mut turns: Vec<usize> = (0..keys.len()).collect();
        match order {
            "ascending" => {}
            "descending" => turns.reverse(),
            "random" => random.shuffle(&mut turns),
            _ => {
                turns = (0..keys.len())
                    .map(|turn| if turn % 2 == 0 { turn / 2 } else { keys.len() - 1 - turn / 2 })
                    .collect()
            }
        }
        for &turn in &turns {
            workload.put(turn, workload.records[0][turn]);
        }
        workload.check(&mut random);
        for &turn in &turns {
            workload.remove(turn);
            if turn % 97 == 0 {
                workload.check(&mut random);
            }
        }
        workload.check(&mut random);
    }
}

#[test]
fn ascending_keys_leave_full_leaves_behind() {
    let store = Store::create(Dram, 512);
    let keys: Vec<[u8; 4]> = (0..20_000_u32).map(u32::to_be_bytes).collect();
    let records = store.records(1, &keys);
    let slots = (512.0 - 64.0) / 16.0;
    for (key, &record) in keys.iter().zip(&records) {
        store.put(key, record);
    }
    let leaves = store.tree.node_bytes_used().unwrap() as f64 / 512.0;
    assert!(leaves < 1.1 * keys.len() as f64 / slots, "{leaves} nodes");
    let batched = Store::create(Dram, 512);
    let records = batched.records(1, &keys);
    batched.tree.update_sorted(keys.iter().map(|key| &key[..]), |index, _| Ok(Decision::Put(records[index]))).unwrap();
    assert_eq!(batched.tree.count().unwrap(), 20_000);
    let leaves = batched.tree.node_bytes_used().unwrap() as f64 / 512.0;
    assert!(leaves < 1.1 * keys.len() as f64 / slots, "{leaves} nodes");
    assert!(batched.tree.verify().is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48 * budget() as u32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_operations_on_any_keys_agree_with_a_map(
        keys in prop::collection::vec(prop::collection::vec(prop::sample::select(vec![0_u8, 1, b'a', 0xff]), 0..12), 1..80),
        operations in prop::collection::vec((0_usize..80, 0_usize..4), 1..300),
    ) {
        let store = Store::create(Dram, 256);
        let mut workload = Workload::new(&store, keys);
        for (key, operation) in operations {
            let key = key % workload.keys.len();
            if operation == 3 {
                workload.remove(key);
            } else {
                workload.put(key, workload.records[operation][key]);
            }
        }
        workload.check(&mut Random::new(0));
    }
}

#[test]
fn an_update_decides_once_and_does_what_was_decided() {
    let store = Store::create(Dram, 256);
    let keys: Vec<Vec<u8>> = (0..200_u8).map(|number| vec![b'k', number]).collect();
    let records = store.records(1, &keys);
    let mut calls = 0;
    for (key, &record) in keys.iter().zip(&records) {
        let decide = |current: Option<KeyRecord<'_>>| {
            assert!(current.is_none());
            calls += 1;
            Ok(Decision::Put(record))
        };
        assert_eq!(store.tree.update(key, decide).unwrap(), Applied::Inserted);
    }
    assert_eq!(calls, 200, "once, also where the leaf had to be split");
    let kept = store.tree.update(&keys[3], |current| {
        assert_eq!(current.unwrap().offset(), records[3]);
        Ok(Decision::Keep)
    });
    assert_eq!(kept.unwrap(), Applied::Nothing);
    let refused = store.tree.update(&keys[3], |_| Err(Error::invalid("no")));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(store.tree.update(b"absent", |_| Ok(Decision::Remove)).unwrap(), Applied::Nothing);
    let wrong = store.tree.update(&keys[3], |_| Ok(Decision::Put(records[4]))).unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::Invalid, "a record of another key");
    assert_eq!(store.get(&keys[3]), Some(records[3]));
    assert!(store.tree.verify().is_empty());
}

#[test]
fn a_batch_stops_at_the_key_that_is_refused() {
    let store = Store::create(Dram, 256);
    let keys: Vec<Vec<u8>> = (0..100_u8).map(|number| vec![b'k', number]).collect();
    let records = store.records(1, &keys);
    for stop in [0, 1, 40, 99] {
        let result = store.tree.update_sorted(keys.iter().map(Vec::as_slice), |index, _| {
            if index == stop { Err(Error::invalid("stop")) } else { Ok(Decision::Put(records[index])) }
        });
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Invalid);
        for (index, key) in keys.iter().enumerate() {
            assert_eq!(store.get(key), (index < stop).then_some(records[index]));
            if index < stop {
                store.remove(key);
            }
        }
        assert!(store.tree.verify().is_empty());
    }
    let unsorted = [b"b".as_slice(), b"a"];
    assert_eq!(
        store.tree.update_sorted(unsorted.into_iter(), |_, _| Ok(Decision::Keep)).unwrap_err().kind(),
        ErrorKind::Invalid
    );
    let twice = [b"a".as_slice(), b"a"];
    assert_eq!(
        store.tree.update_sorted(twice.into_iter(), |_, _| Ok(Decision::Keep)).unwrap_err().kind(),
        ErrorKind::Invalid
    );
}

#[test]
fn keys_that_are_too_long_are_refused() {
    let store = Store::create(Dram, 256);
    let long = vec![b'x'; MAXIMUM_KEY_BYTES + 1];
    assert_eq!(store.tree.remove(&long).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(store.get(&long), None);
    let entry = SegmentEntry { key: &long, sequence: 1, kind: EntryKind::Put, block_offset: 0, block_length: 0 };
    assert_eq!(write_segment(&store.pool, 1, std::iter::once(entry)).unwrap_err().kind(), ErrorKind::Invalid);
    let used = store.pool.used_bytes();
    let entry = SegmentEntry { key: b"x", sequence: 1 << 56, ..entry };
    assert_eq!(write_segment(&store.pool, 1, std::iter::once(entry)).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(store.pool.used_bytes(), used);
}

#[test]
fn a_full_pool_refuses_what_needs_room_and_nothing_else() {
    let store = Store::create_in(Dram, 256, 512 << 10);
    let keys: Vec<Vec<u8>> = (0..6000_u32).map(|number| mixed(number).to_vec()).collect();
    let records = store.records(1, &keys);
    let mut model = BTreeMap::new();
    let mut full = None;
    for (index, (key, &record)) in keys.iter().zip(&records).enumerate() {
        let mut asked = false;
        match store.tree.update(key, |_| {
            asked = true;
            Ok(Decision::Put(record))
        }) {
            Ok(_) => drop(model.insert(key.clone(), record)),
            Err(Error::Full { .. }) => {
                assert!(!asked, "nothing was decided that could not be done");
                full = Some(index);
                break;
            }
            Err(error) => panic!("{error}"),
        }
    }
    let full = full.expect("the pool is small");
    store.assert_same(&model);
    // Keys whose leaves have room, new records for old keys, and removals go on; in batches too.
    let (mut done, mut refused) = (0, 0);
    for index in full..keys.len() {
        match store.tree.insert_or_replace(&keys[index], records[index]) {
            Ok(_) => {
                done += 1;
                model.insert(keys[index].clone(), records[index]);
            }
            Err(Error::Full { .. }) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(done > 0 && refused > 0, "{done} done, {refused} refused");
    store.assert_same(&model);
    let sorted: Vec<(Vec<u8>, u64)> = model.iter().map(|(key, &record)| (key.clone(), record)).collect();
    store
        .tree
        .update_sorted(sorted.iter().map(|(key, _)| &key[..]), |index, _| Ok(Decision::Put(sorted[index].1)))
        .unwrap();
    store.assert_same(&model);
    let odd = |index: usize| if index.is_multiple_of(2) { Decision::Remove } else { Decision::Keep };
    store.tree.update_sorted(sorted.iter().map(|(key, _)| &key[..]), |index, _| Ok(odd(index))).unwrap();
    let left: BTreeMap<_, _> = sorted.iter().skip(1).step_by(2).cloned().collect();
    store.assert_same(&left);
    for key in left.keys() {
        store.remove(key);
    }
    store.assert_same(&BTreeMap::new());
}

fn mixed(number: u32) -> [u8; 8] {
    Random::new(u64::from(number)).next().to_be_bytes()
}

#[test]
fn blocks_are_used_again_when_no_reader_is_left() {
    let store = Store::create(Dram, 256);
    let keys: Vec<[u8; 8]> = (0..500).map(mixed).collect();
    let records = store.records(1, &keys);
    let mut lengths = Vec::new();
    for round in 0..40 {
        for (key, &record) in keys.iter().zip(&records) {
            store.put(key, record);
        }
        for key in &keys {
            store.remove(key);
        }
        // Until what was deferred before has been done, too.
        let done = Arc::new(AtomicBool::new(false));
        let set = Arc::clone(&done);
        epoch::pin().defer(move || set.store(true, Ordering::Release));
        while !done.load(Ordering::Acquire) {
            epoch::pin().flush();
            std::thread::yield_now();
        }
        lengths.push(store.pool.used_bytes());
        if round > 4 {
            assert!(lengths[round] <= lengths[4] + (256 << 10), "the pool grows without end: {lengths:?}");
        }
    }
}

/// Segments hold what was written and their notes change nothing else.
#[test]
fn segments_hold_what_was_written_whatever_is_noted() {
    let store = Store::create(Dram, 256);
    let mut random = Random::new(31);
    let mut keys = hostile_keys(&mut random, 3000);
    keys.sort();
    let kind = |index: usize| if index.is_multiple_of(5) { EntryKind::Delete } else { EntryKind::Put };
    // Those that stand in the record's words, and those that stand behind it.
    let block_length = |index: usize| [index as u32, (1 << 22) - 2, (1 << 22) - 1, 1 << 22, u32::MAX][index % 5];
    let entries = keys.iter().enumerate().map(|(index, key)| SegmentEntry {
        key,
        sequence: (1 << 55) + index as u64,
        kind: kind(index),
        block_offset: u32::MAX - index as u32,
        block_length: block_length(index),
    });
    let segment = write_segment(&store.pool, 77, entries).unwrap();
    assert_eq!((segment.file(), segment.count(), segment.parts().len()), (77, keys.len() as u64, 1));
    let guard = epoch::pin();
    for round in 0..2 {
        assert_eq!(Segment::of_file(&store.pool, 77).unwrap(), segment);
        let mut count = 0;
        for (index, record) in segment.records(&store.pool, &guard).enumerate() {
            let record = record.unwrap();
            assert_eq!(record.key(), keys[index]);
            assert_eq!((record.sequence(), record.kind()), ((1 << 55) + index as u64, kind(index)));
            assert_eq!((record.block_offset(), record.block_length()), (u32::MAX - index as u32, block_length(index)));
            assert_eq!((record.file(), record.replaced_file()), (77, if round == 0 { 0 } else { index as u32 + 1 }));
            set_replaced_file(&store.pool, record.offset(), index as u32 + 1).unwrap();
            count += 1;
        }
        assert_eq!(count, keys.len());
    }
    let empty = write_segment(&store.pool, 78, std::iter::empty()).unwrap();
    assert_eq!(Segment::of_file(&store.pool, 78).unwrap().count(), 0);
    assert_eq!(empty.records(&store.pool, &guard).count(), 0);
    empty.free(&store.pool).unwrap();
    assert!(empty.records(&store.pool, &guard).all(|record| record.is_err()));
    assert_eq!(Segment::of_file(&store.pool, 78).unwrap_err().kind(), ErrorKind::Corruption);
    // The record of a delete is nothing for the tree to point to.
    let delete = segment.records(&store.pool, &guard).next().unwrap().unwrap();
    assert_eq!(store.tree.insert_or_replace(delete.key(), delete.offset()).unwrap_err().kind(), ErrorKind::Corruption);
}

#[test]
fn reading_leaf_by_leaf_covers_the_key_space() {
    let store = Store::create(Dram, 256);
    let keys: Vec<Vec<u8>> = (0..300_u32).map(|number| format!("key{number:05}").into_bytes()).collect();
    let records = store.records(1, &keys);
    for (key, &record) in keys.iter().zip(&records) {
        store.put(key, record);
    }
    let guard = epoch::pin();
    let mut leaf = LeafRead::new();
    store.tree.read_leaf(Bound::Included(b"key00100"), Direction::Forward, &guard, &mut leaf).unwrap();
    assert_eq!(leaf.records()[0], records[100]);
    let Some(Bound::Included(next)) = leaf.next() else { panic!("{leaf:?}") };
    let first_of_next = 100 + leaf.records().len();
    assert!(next > keys[first_of_next - 1].as_slice() && next <= keys[first_of_next].as_slice());
    store.tree.read_leaf(Bound::Excluded(b"key00100"), Direction::Forward, &guard, &mut leaf).unwrap();
    assert_eq!(leaf.records()[0], records[101]);
    store.tree.read_leaf(Bound::Included(b"key00100"), Direction::Backward, &guard, &mut leaf).unwrap();
    assert_eq!(leaf.records()[0], records[100]);
    assert!(matches!(leaf.next(), Some(Bound::Excluded(_))));
    store.tree.read_leaf(Bound::Unbounded, Direction::Backward, &guard, &mut leaf).unwrap();
    assert_eq!(leaf.records()[0], records[299]);
    store.tree.read_leaf(Bound::Included(b"z"), Direction::Forward, &guard, &mut leaf).unwrap();
    assert_eq!((leaf.records(), leaf.next()), (&[][..], None));
    store.tree.read_leaf(Bound::Included(b""), Direction::Backward, &guard, &mut leaf).unwrap();
    assert_eq!((leaf.records(), leaf.next()), (&[][..], None));
    store.tree.read_leaves(Bound::Unbounded, Direction::Forward, usize::MAX, &guard, &mut leaf).unwrap();
    assert_eq!((leaf.records(), leaf.next()), (&records[..], None));
}

#[test]
fn a_small_tree_as_text() {
    let store = Store::create(Dram, 256);
    assert_eq!(store.tree.dump().unwrap(), "height 1, nodes of 256 bytes\nlevel 0\n  n0 [start .. end) prefix \"\":\n");
    let mut keys: Vec<Vec<u8>> = (0..26_u8).map(|letter| vec![b'a' + letter; 2]).collect();
    keys.push([b"mm".as_slice(), &[0; 40]].concat());
    let records = store.records(1, &keys);
    for (key, &record) in keys.iter().zip(&records) {
        store.put(key, record);
    }
    let expected = r#"height 2, nodes of 256 bytes
level 1
  n0 [start .. end) prefix "": n1 n2 n3 n4
level 0
  n1 [start .. "m") prefix "": "aa" "bb" "cc" "dd" "ee" "ff" "gg" "hh" "ii" "jj" "kk" "ll"
  n2 ["m" .. "r") prefix "": "mm" "mm\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00..."(42 bytes) "nn" "oo" "pp" "qq"
  n3 ["r" .. "y") prefix "": "rr" "ss" "tt" "uu" "vv" "ww" "xx"
  n4 ["y" .. end) prefix "": "yy" "zz"
"#;
    assert_eq!(store.tree.dump().unwrap(), expected);
    for letter in b'b'..=b'l' {
        store.tree.remove(&[letter; 2]).unwrap();
    }
    for letter in b'n'..=b'x' {
        store.tree.remove(&[letter; 2]).unwrap();
    }
    let expected = r#"height 2, nodes of 256 bytes
level 1
  n0 [start .. end) prefix "": n1 n2
level 0
  n1 [start .. "y") prefix "": "aa" "mm" "mm\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00..."(42 bytes)
  n2 ["y" .. end) prefix "": "yy" "zz"
"#;
    assert_eq!(store.tree.dump().unwrap(), expected);
    store.remove(b"yy");
    let expected = r#"height 1, nodes of 256 bytes
level 0
  n0 [start .. end) prefix "": "aa" "mm" "mm\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00..."(42 bytes) "zz"
"#;
    assert_eq!(store.tree.dump().unwrap(), expected);
}
