//! Reads of the pool that somebody waits for: how many each structure has for a look-up, and that an emulated latency is taken for
//! each.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::fast_fair::support as fast_fair;
use crate::hybrid_tree::{Model, Store as HybridStore, version};
use slmdb_order::KeyOrder;
use slmdb_pmem::{AnyMedium, Arena, Claim, Emulation, ExtentKind, Medium, Persistent, Pool, PoolOptions};
use slmdb_structures::EntryKind;
use slmdb_structures::hybrid_tree::{LeafCopy, Place};
use slmdb_structures::list::{List, ListOptions, ListWriter, Persists, SegmentOptions, SegmentWriter};
use slmdb_structures::log::Payload;
use slmdb_structures::memtable::{MemTable, MemTableOptions};
use slmdb_sync::epoch;

/// Added latency of a read, in nanoseconds.
const READ_NS: u64 = 20_000;

fn medium() -> AnyMedium {
    Persistent::emulating(&Emulation { read_latency_ns: READ_NS, ..Emulation::default() }).into()
}

/// How many reads something takes. At least their latency passes meanwhile.
fn reads<T>(pool: &Pool<AnyMedium>, work: impl FnOnce() -> T) -> (u64, T) {
    let (before, start) = (pool.medium().counters().reads, Instant::now());
    let result = work();
    let (took, reads) = (start.elapsed(), pool.medium().counters().reads - before);
    let expected = Duration::from_nanos(reads * READ_NS).mul_f64(0.98);
    assert!(took >= expected, "{reads} reads took {took:?}, not {expected:?}");
    (reads, result)
}

fn insert(store: &fast_fair::Store<AnyMedium>, keys: &[Vec<u8>]) {
    let records = store.records(1, keys);
    keys.iter().zip(records).for_each(|(key, record)| store.put(key, record));
}

fn key(number: u64) -> Vec<u8> {
    // Heads differ, so that whole keys are compared with the one that is looked for alone.
    (number * 2).to_be_bytes().to_vec()
}

/// The reads of a look-up of each key, which is there.
fn reads_of_keys(store: &fast_fair::Store<AnyMedium>, keys: &[Vec<u8>]) -> Vec<u64> {
    let guard = epoch::pin();
    let reads_of = |key: &Vec<u8>| {
        let (reads, found) = reads(&store.pool, || store.tree.get(key, &guard).unwrap().is_some());
        assert!(found);
        reads
    };
    keys.iter().map(reads_of).collect()
}

#[test]
fn a_look_up_in_a_tree_reads_a_node_a_level_and_a_record() {
    for (keys, height) in [(5, 1), (60, 2), (400, 3)] {
        let store = fast_fair::Store::create(medium(), 256);
        let all: Vec<Vec<u8>> = (0..keys).map(key).collect();
        insert(&store, &all);
        assert_eq!(u64::from(store.tree.height().unwrap()), height, "{keys} keys");
        // So few that no shortcuts are made.
        let reads = reads_of_keys(&store, &all[1..all.len().min(50)]);
        // Where a leaf begins with the key, its parent has a head like it, and looks at the leaf first.
        let of_leaves = reads.iter().filter(|&&reads| reads > height + 1).count();
        assert!(reads.iter().all(|reads| (height + 1..=2 * height).contains(reads)), "{reads:?}");
        assert!(of_leaves * 3 < reads.len(), "{reads:?}");
        let mut missing = all[3].clone();
        missing[7] += 1;
        let guard = epoch::pin();
        let (reads, found) = self::reads(&store.pool, || store.tree.get(&missing, &guard).unwrap().is_some());
        assert!(!found);
        assert_eq!(reads, height, "there is no record with its head");
    }
}

#[test]
fn a_look_up_in_a_hash_table_reads_one_unit_or_two() {
    let options =
        PoolOptions { initial_bytes: 0, growth_bytes: 64 << 10, maximum_bytes: 64 << 20, uuid: crate::hash::UUID };
    let pool = Arc::new(Pool::anonymous(medium(), &options).unwrap());
    let parts = crate::hash::parts([(2, 400)], 1);
    let table = crate::hash::open(&pool, crate::hash::written(&pool, 1, &parts), 1).unwrap();
    let (reads, _) = reads(&pool, || parts[&2].keys().for_each(|key| assert!(table.get(key).unwrap().is_some())));
    assert!((400..560).contains(&reads), "{reads} reads of 400 keys");
}

#[test]
fn shortcuts_save_the_reads_of_the_levels_above() {
    let store = fast_fair::Store::create(medium(), 256);
    let all: Vec<Vec<u8>> = (0..400).map(key).collect();
    insert(&store, &all);
    assert_eq!(store.tree.height().unwrap(), 3);
    reads_of_keys(&store, &all);
    let reads = reads_of_keys(&store, &all[1..50]);
    assert!(
        reads.iter().filter(|&&reads| reads == 3).count() > 30,
        "{reads:?}: a node above the leaf, the leaf, the record"
    );
}

#[test]
fn look_ups_side_by_side_wait_for_leaves_and_records_at_once() {
    let store = fast_fair::Store::create(medium(), 256);
    let all: Vec<Vec<u8>> = (0..60).map(key).collect();
    insert(&store, &all);
    assert_eq!(store.tree.height().unwrap(), 2);
    let singly = reads_of_keys(&store, &all);
    // Without those that leaves begin with.
    let keys = all.iter().zip(singly).filter(|&(_, reads)| reads == 3).map(|(key, _)| &key[..]);
    let keys: Vec<&[u8]> = keys.take(16).collect();
    assert_eq!(keys.len(), 16);
    let guard = epoch::pin();
    let (reads, ()) = reads(&store.pool, || {
        let is_there = |_, found: Option<_>| {
            assert!(found.is_some());
            Ok(())
        };
        store.tree.get_each(&keys, &guard, is_there).unwrap();
    });
    assert_eq!(reads, 3, "the root, all leaves, all records");
}

#[test]
fn a_look_up_in_a_hybrid_tree_reads_a_leaf_and_a_record() {
    let store = HybridStore::create(medium(), KeyOrder::Bytewise);
    let model: Model = (0..500).map(|number| (key(number), version(number))).collect();
    store.apply(&model);
    let mut more = 0;
    for number in 0..500 {
        let (reads, found) = reads(&store.pool, || store.tree.get(&key(number)).unwrap());
        assert_eq!(found, Some(version(number)));
        assert!(reads >= 2);
        more += reads - 2;
    }
    assert!(more < 50, "{more} records with the fingerprint of another key");
    let mut copy = LeafCopy::default();
    let (reads, copied) = reads(&store.pool, || store.tree.copy_leaf(Place::First, &mut copy).unwrap());
    assert!(copied && copy.len() > 1);
    assert_eq!(reads, 2, "the leaf, and its records together");
}

#[test]
fn a_look_up_in_a_memtable_reads_the_entry() {
    let pool = Arc::new(Pool::anonymous(medium(), &fast_fair::pool_options(64 << 20)).unwrap());
    let extent = pool.allocate_extent(ExtentKind::Arena, 1 << 20, 1).unwrap();
    let memtable = MemTable::create(Arena::in_pool(Arc::clone(&pool), extent), 1, [7; 16], &MemTableOptions::default());
    let (mut sequence, long) = (1, |number: u64| [&key(number)[..], b"and more"].concat());
    for number in 0..100 {
        for key in [key(number), long(number + 1000)] {
            let mut payload = Payload::new();
            payload.put(&key, b"value").unwrap();
            let at = memtable.try_reserve(payload.len_bytes(), payload.count()).unwrap();
            memtable.fill(at, &payload, sequence, 0);
            sequence += 1;
        }
    }
    // A head of zeros could be that of a shorter key.
    for number in 1..100 {
        let (one, found) = reads(&pool, || memtable.get(&key(number), u64::MAX).is_some());
        assert!(found);
        assert_eq!(one, 1, "its head and its length say where it is");
        let (two, found) = reads(&pool, || memtable.get(&long(number + 1000), u64::MAX).is_some());
        assert!(found);
        assert_eq!(two, 2, "it is compared on the way, and given back");
    }
    let memtable = Arc::new(memtable);
    let mut cursor = memtable.cursor();
    assert_eq!(reads(&pool, || cursor.seek_first()).0, 1);
    assert_eq!(reads(&pool, || cursor.next()).0, 1);
}

/// Without emulated time nothing is counted.
#[test]
fn nothing_is_counted_where_nothing_is_emulated() {
    for medium in [AnyMedium::dram(), Persistent::new().into()] {
        let store = HybridStore::create(medium, KeyOrder::Bytewise);
        store.apply(&(0..50).map(|number| (key(number), version(number))).collect());
        assert!(store.tree.get(&key(7)).unwrap().is_some());
        assert_eq!(store.pool.medium().counters().reads, 0);
    }
}

#[test]
fn a_look_up_in_a_list_reads_a_block_a_level_and_the_entry() {
    let options = PoolOptions { initial_bytes: 1 << 20, growth_bytes: 1 << 20, maximum_bytes: 1 << 24, uuid: [3; 16] };
    // Each level has every sixteenth node of the one below.
    for (keys, upper_levels, filter_bits) in [(10, 0, 0), (200, 1, 0), (1000, 2, 10)] {
        let pool = Arc::new(Pool::anonymous(medium(), &options).unwrap());
        let segments = SegmentOptions { segment_bytes: 64 << 10, owner: 1, claim: Claim::Ordinary };
        let list = ListOptions {
            order: KeyOrder::Bytewise,
            filter_bits_per_key: filter_bits,
            claim: Claim::Ordinary,
            persists: Persists::Once,
        };
        let mut segments = SegmentWriter::new(pool.clone(), segments);
        let mut list = ListWriter::new(pool.clone(), 1, list);
        for number in 0..keys {
            let place = segments.add(&key(number), number, EntryKind::Put, b"value").unwrap();
            list.add(&key(number), number, EntryKind::Put, place).unwrap();
        }
        let finished = list.finish(0).unwrap();
        let extent = finished.record().extent;
        segments.complete(&[finished]).unwrap();
        let list = List::open(pool.clone(), extent, 1, KeyOrder::Bytewise).unwrap();
        let filter_reads = u64::from(filter_bits > 0);
        let mut most = 0;
        for number in 1..keys.min(40) {
            let (reads, found) = reads(&pool, || list.get(&key(number), u64::MAX >> 8).unwrap().is_some());
            assert!(found);
            // The whole keys of equal heads are compared once on the way, and once for the proof.
            most = most.max(reads);
        }
        let least = filter_reads + upper_levels + 1 + 1;
        assert!((least..=least + upper_levels + 1).contains(&most), "{keys} keys: {most} reads, {least} at least");
    }
}
