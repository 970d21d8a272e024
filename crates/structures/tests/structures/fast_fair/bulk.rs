//! Bulk load: what it makes is a tree like any other, in every order, with every size of node, in any number of parts.

use std::collections::BTreeMap;

use super::support::{Random, Store, hostile_keys, orders};
use slmdb_env::{Error, ErrorKind};
use slmdb_order::KeyOrder;
use slmdb_pmem::{Dram, Medium};
use slmdb_structures::EntryKind;
use slmdb_structures::fast_fair::{Segment, SegmentEntry, SegmentWriter};
use slmdb_sync::epoch;
use slmdb_testkit::{Simulated, medium::Choice};

fn entry(key: &[u8], number: u64) -> SegmentEntry<'_> {
    SegmentEntry { key, sequence: number, kind: EntryKind::Put, block_offset: number as u32, block_length: 5 << 20 }
}

/// Loads these keys, cut at these bounds, into two files' segments; the rest of the model is empty.
fn load<M: Medium>(store: &Store<M>, keys: &[Vec<u8>], bounds: &[Vec<u8>]) -> BTreeMap<Vec<u8>, u64> {
    let order = store.tree.order().clone();
    let mut sorted = keys.to_vec();
    sorted.sort_by(|left, right| order.compare(left, right));
    sorted.dedup();
    let mut parts = store.tree.bulk_load(bounds).unwrap();
    let mut writers: Vec<Vec<SegmentWriter<'_, M>>> = [1, 2]
        .map(|file| parts.iter().map(|_| SegmentWriter::new(&*store.pool, file, 5000)).collect())
        .into_iter()
        .collect();
    let mut model = BTreeMap::new();
    for (number, key) in sorted.iter().enumerate() {
        let part = bounds.iter().take_while(|bound| order.compare(bound, key).is_le()).count();
        let record = writers[number % 2][part].add(&entry(key, number as u64)).unwrap();
        parts[part].add(key, record).unwrap();
        model.insert(key.clone(), record);
    }
    let counts = writers.into_iter().map(|writers| SegmentWriter::finish(writers).unwrap().count());
    assert_eq!(counts.sum::<u64>(), model.len() as u64);
    store.tree.finish_bulk_load(parts).unwrap();
    for file in [1, 2] {
        Segment::of_file(&store.pool, file).unwrap();
    }
    model
}

fn bounds_of(keys: &[Vec<u8>], order: &KeyOrder, count: usize, random: &mut Random) -> Vec<Vec<u8>> {
    let mut bounds: Vec<Vec<u8>> = (0..count).map(|_| keys[random.below(keys.len())].clone()).collect();
    bounds.sort_by(|left, right| order.compare(left, right));
    bounds.dedup();
    bounds
}

#[test]
fn a_loaded_tree_is_like_any_other() {
    let mut random = Random::new(5);
    for order in [KeyOrder::Bytewise, orders::backwards(), orders::by_length(), orders::as_comparator()] {
        for (node_bytes, count, cuts) in [
            (256, 0, 0),
            (256, 1, 0),
            (256, 10, 1),
            (256, 900, 3),
            (512, 24, 0),
            (512, 25, 0),
            (512, 700, 1),
            (4096, 900, 2),
        ] {
            println!("{order:?}, nodes of {node_bytes} bytes, {count} keys, {cuts} bounds");
            let store = Store::create_ordered(Dram, node_bytes, 400 << 20, order.clone());
            let mut keys = hostile_keys(&mut random, count.max(40));
            keys.truncate(count);
            let bounds = if count == 0 { Vec::new() } else { bounds_of(&keys, &order, cuts, &mut random) };
            let mut model = load(&store, &keys, &bounds);
            store.assert_same(&model);
            store.assert_ranges(&model, &keys[..count.min(40)]);
            // It goes on as a tree does.
            let more: Vec<Vec<u8>> =
                (0..500).map(|_| random.next().to_be_bytes()[..1 + random.below(8)].to_vec()).collect();
            for (key, record) in more.iter().zip(store.records(3, &more)) {
                store.put(key, record);
                model.insert(key.clone(), record);
            }
            for key in &keys {
                if random.below(2) == 0 {
                    store.remove(key);
                    model.remove(key);
                }
            }
            store.assert_same(&model);
            assert!(store.tree.bulk_load(&[]).is_err(), "it is not empty any more");
        }
    }
}

#[test]
fn parts_without_keys_are_parts_too() {
    let store = Store::create(Dram, 256);
    let bounds = [b"b".to_vec(), b"c".to_vec(), b"d".to_vec(), b"e".to_vec()];
    let keys: Vec<Vec<u8>> = (0..100).map(|number| format!("c{number}").into_bytes()).collect();
    let model = load(&store, &keys, &bounds);
    store.assert_same(&model);
    store.put(b"zebra", store.records(3, &["zebra"])[0]);
    assert_eq!(store.tree.count().unwrap(), 101);
    assert!(store.tree.verify().is_empty());
}

#[test]
fn what_does_not_ascend_is_refused_and_leaves_an_empty_tree() {
    let store = Store::create(Dram, 512);
    let before = store.blocks.free_count(512);
    let bounds = [b"m".to_vec()];
    let cases: [(usize, &[&[u8]]); 4] = [(0, &[b"b", b"a"]), (0, &[b"b", b"b"]), (1, &[b"a"]), (0, &[b"a", b"m"])];
    for (part, keys) in cases {
        let mut parts = store.tree.bulk_load(&bounds).unwrap();
        let added = keys.iter().try_for_each(|key| parts[part].add(key, 64));
        let ended = added.and_then(|()| store.tree.finish_bulk_load(parts));
        assert_eq!(ended.unwrap_err().kind(), ErrorKind::Invalid, "{keys:?}");
        assert_eq!(store.tree.count().unwrap(), 0);
        assert!(store.tree.verify().is_empty());
    }
    assert!(matches!(store.tree.bulk_load(&[b"b".to_vec(), b"a".to_vec()]), Err(Error::Invalid { .. })));
    assert!(store.blocks.free_count(512) >= before, "all blocks are back");
}

#[test]
fn writers_that_are_given_up_give_their_space_back() {
    let store = Store::create(Dram, 512);
    let used = store.pool.used_bytes();
    let mut writer = SegmentWriter::new(&*store.pool, 9, 100);
    for number in 0..20_000_u64 {
        writer.add(&entry(&number.to_be_bytes(), number)).unwrap();
    }
    assert!(store.pool.used_bytes() > used);
    drop(writer);
    assert_eq!(store.pool.used_bytes(), used);
    let segment = SegmentWriter::finish(vec![SegmentWriter::new(&*store.pool, 9, 100)]).unwrap();
    assert_eq!((segment.count(), segment.parts().len()), (0, 1));
    assert_eq!(Segment::of_file(&store.pool, 9).unwrap(), segment);
}

/// On a persistent medium: everything is durable on return.
#[test]
fn a_loaded_tree_outlives_a_power_cut() {
    let store = Store::create_in(Simulated::new(), 256, 64 << 20);
    let keys: Vec<Vec<u8>> = (0..600_u64).map(|number| number.to_be_bytes().to_vec()).collect();
    let model = load(&store, &keys, &[keys[300].clone()]);
    let medium = store.pool.medium();
    let mut replay = medium.history().replay();
    replay.to_moment(medium.moment());
    let image = replay.image(Choice::Nothing);
    let again = Store::open_image(Dram, image);
    again.assert_same(&model);
    let guard = epoch::pin();
    for (number, key) in keys.iter().enumerate() {
        assert_eq!(again.tree.get(key, &guard).unwrap().unwrap().sequence(), number as u64);
    }
}
