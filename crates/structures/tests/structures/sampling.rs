//! Samples stand for about as many keys as there are, in trees and MemTables of every shape.

use std::ops::Bound::{self, Excluded, Included, Unbounded};
use std::path::Path;
use std::sync::Arc;

use crate::fast_fair::support::{Random, Store};
use slmdb_pmem::{Arena, Dram};
use slmdb_sync::epoch;

fn key(number: usize) -> Vec<u8> {
    format!("key{number:08}").into_bytes()
}

/// How many keys a sample stands for.
fn estimated(store: &Store<Dram>, range: (Bound<&[u8]>, Bound<&[u8]>)) -> f64 {
    let guard = epoch::pin();
    let samples = store.tree.sample(range, &guard).unwrap();
    for sample in &samples {
        store.tree.record(sample.record, &guard).unwrap();
    }
    samples.iter().map(|sample| sample.weight).sum()
}

/// A tree of the keys with even numbers below twice `count`, in this order of insertion.
fn tree(count: usize, node_bytes: u32, shuffled: bool) -> Store<Dram> {
    let store = Store::create_in(Dram, node_bytes, 1 << 30);
    let keys: Vec<_> = (0..count).map(|number| key(2 * number)).collect();
    let records = store.records(1, &keys);
    let mut order: Vec<usize> = (0..count).collect();
    if shuffled {
        Random::new(7).shuffle(&mut order);
    }
    for index in order {
        store.put(&keys[index], records[index]);
    }
    store
}

#[test]
fn few_keys_are_counted_exactly_whatever_the_bounds() {
    let store = tree(3000, 256, true);
    let count = |range: (Bound<&[u8]>, Bound<&[u8]>)| estimated(&store, range) as usize;
    assert_eq!(count((Unbounded, Unbounded)), 3000);
    for (from, to) in [(0, 6000), (1, 5999), (2, 2), (10, 11), (100, 90), (2999, 3001), (7000, 8000)] {
        let (low, high) = (key(from), key(to));
        let even = |from: usize, to: usize| (from..to).filter(|number| number % 2 == 0 && *number < 6000).count();
        assert_eq!(count((Included(&low), Excluded(&high))), even(from, to), "{from} to {to}");
        assert_eq!(count((Included(&low), Included(&high))), even(from, to + 1), "{from} to {to}, included");
        assert_eq!(count((Excluded(&low), Included(&high))), even(from + 1, to + 1), "after {from} to {to}");
    }
    let empty = Store::create_in(Dram, 512, 1 << 26);
    assert_eq!(estimated(&empty, (Unbounded, Unbounded)), 0.0);
}

#[test]
fn many_keys_are_estimated_within_ten_per_cent() {
    for (node_bytes, shuffled) in [(256, true), (256, false), (512, true), (512, false), (4096, true)] {
        let count = 200_000;
        let store = tree(count, node_bytes, shuffled);
        let mut worst: f64 = 0.0;
        for (from, to) in [(0, 200_000), (0, 5_000), (50_000, 60_000), (90_000, 190_000), (193_000, 200_000)] {
            let (low, high) = (key(2 * from), key(2 * to));
            let error = estimated(&store, (Included(&low), Excluded(&high))) / (to - from) as f64 - 1.0;
            worst = worst.max(error.abs());
        }
        worst = worst.max((estimated(&store, (Unbounded, Unbounded)) / count as f64 - 1.0).abs());
        println!("nodes of {node_bytes}, shuffled {shuffled}: off by {:.1} % at most", 100.0 * worst);
        assert!(worst < 0.10, "nodes of {node_bytes}, shuffled {shuffled}: off by {worst}");
    }
}

#[test]
fn a_tree_of_which_one_end_was_thinned_out_is_still_estimated() {
    let store = tree(100_000, 512, true);
    for number in (0..50_000).filter(|number| number % 8 != 0) {
        store.remove(&key(2 * number));
    }
    let middle = key(100_000);
    for (range, truth) in [
        ((Unbounded, Excluded(&middle[..])), 6_250.0),
        ((Included(&middle[..]), Unbounded), 50_000.0),
        ((Unbounded, Unbounded), 56_250.0),
    ] {
        let error = estimated(&store, range) / truth - 1.0;
        assert!(error.abs() < 0.15, "{range:?}: off by {error}");
    }
}

/// Entries of a memtable are estimated within a fifth and few exactly.
#[test]
fn entries_are_estimated_within_a_fifth_and_few_exactly() {
    use slmdb_structures::log::Payload;
    use slmdb_structures::memtable::{MemTable, MemTableOptions};
    let arena = Arena::from_bytes(Dram, Path::new("(memory)"), vec![0; 32 << 20]);
    let memtable = Arc::new(MemTable::create(arena, 1, [3; 16], &MemTableOptions::default()));
    let count = 100_000;
    let mut order: Vec<usize> = (0..count).collect();
    Random::new(9).shuffle(&mut order);
    for (number, sequence) in order.into_iter().zip(1..) {
        let mut payload = Payload::new();
        payload.put(&key(number), b"value").unwrap();
        let place = memtable.try_reserve(payload.len_bytes(), payload.count()).unwrap();
        memtable.fill(place, &payload, sequence, 0);
    }
    for (from, to) in [(0, 100_000), (20_000, 90_000), (500, 3_000), (1_000, 1_100), (7, 7), (9, 3)] {
        let (low, high) = (key(from), key(to));
        let (entries, each) = memtable.sample((Included(&low), Excluded(&high)));
        assert!(entries.iter().all(|entry| entry.key >= &low[..] && entry.key < &high[..]));
        let (found, truth) = (entries.len() as f64 * each as f64, to.saturating_sub(from) as f64);
        println!("{from} to {to}: {found} of {truth}, each for {each}");
        assert!((found - truth).abs() <= if truth < 250.0 { 0.0 } else { truth / 5.0 }, "{from} to {to}: {found}");
    }
    assert_eq!(memtable.sample((Excluded(&key(0)), Included(&key(1)))).0.len(), 1);
    let all = memtable.sample((Unbounded, Unbounded));
    assert!((all.0.len() as f64 * all.1 as f64 / count as f64 - 1.0).abs() < 0.2);
}
