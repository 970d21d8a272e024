//! A tree that becomes a leaf and grows again while others read it.

use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};

use slmdb_sync::epoch;

use super::shortcuts::Store;
use crate::fast_fair::LeafRead;
use slmdb_order::Direction;

/// Grows and shrinks a tree between no inner level and two while this is done.
fn while_it_shrinks(read: impl Fn(&Store) + Sync) {
    const KEYS: usize = 200;
    let store = Store::new((0..KEYS).map(|key| format!("{key:08}").into_bytes()).collect());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (store, read, is_over) = (&store, &read, &is_over);
        let reader = scope.spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                read(store);
            }
        });
        for _ in 0..1000 {
            (0..KEYS).for_each(|key| store.put(key));
            (0..KEYS).for_each(|key| _ = store.tree.remove(&store.keys[key]).unwrap());
            if reader.is_finished() {
                break;
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn many_keys_are_looked_up_while_the_root_becomes_a_leaf() {
    while_it_shrinks(|store| {
        let keys: Vec<&[u8]> = store.keys.iter().map(Vec::as_slice).collect();
        let found = |number: usize, record: Option<crate::fast_fair::KeyRecord<'_>>| {
            assert!(record.is_none_or(|record| record.offset() == store.records[number]));
            Ok(())
        };
        store.tree.get_each(&keys, &epoch::pin(), found).unwrap();
    });
}

#[test]
fn leaves_ahead_are_asked_for_while_the_root_becomes_a_leaf() {
    while_it_shrinks(|store| {
        let mut leaf = LeafRead::new();
        for key in &store.keys {
            let from = Bound::Included(&key[..]);
            store.tree.read_leaves(from, Direction::Forward, 100, &epoch::pin(), &mut leaf).unwrap();
        }
    });
}

#[test]
fn a_range_is_sampled_while_the_root_becomes_a_leaf() {
    while_it_shrinks(|store| {
        let guard = epoch::pin();
        let samples = store.tree.sample_paths((Bound::Unbounded, Bound::Unbounded), &guard).unwrap();
        let keys: f64 = samples.iter().flatten().map(|sample| sample.weight).sum();
        assert!(keys < 1000.0, "{keys} keys");
    });
}
