//! Readers beside the writer: what they see never goes back, and what stays is always there.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use slmdb_order::KeyOrder;
use slmdb_pmem::Dram;
use slmdb_structures::hybrid_tree::{Entry, LeafCopy, Place};

use super::{Store, version};
use crate::fast_fair::support::Random;

const KEYS: usize = 3000;

fn key(number: usize) -> Vec<u8> {
    format!("key{number:05}").into_bytes()
}

/// Even keys are always there and get ever newer. Odd ones come and go.
#[test]
fn readers_see_what_stays_and_never_go_back() {
    let store = Store::create(Dram, KeyOrder::Bytewise);
    let keys: Vec<_> = (0..KEYS).map(key).collect();
    let evens = keys.iter().step_by(2).map(|key| Entry { key, version: version(1) });
    store.tree.apply(evens, |_, _| {}).unwrap();
    let (done, applied) = (AtomicBool::new(false), AtomicU64::new(1));
    thread::scope(|scope| {
        for reader in 0..2u64 {
            let (store, keys, done, applied) = (&store, &keys, &done, &applied);
            scope.spawn(move || {
                let mut random = Random::new(reader);
                let mut seen = vec![0; KEYS];
                let mut copy = LeafCopy::default();
                while !done.load(Ordering::Acquire) {
                    for _ in 0..200 {
                        let number = random.below(KEYS);
                        let least = applied.load(Ordering::Acquire);
                        let found = store.tree.get(&keys[number]).unwrap();
                        let Some(found) = found else {
                            assert!(number % 2 == 1, "key {number} vanished");
                            continue;
                        };
                        assert_eq!(found, version(found.sequence));
                        assert!(found.sequence >= seen[number], "key {number} went back");
                        assert!(
                            number % 2 == 1 || found.sequence >= least,
                            "key {number} is older than what was applied"
                        );
                        seen[number] = found.sequence;
                    }
                    let start = random.below(KEYS);
                    assert!(store.tree.copy_leaf(Place::At(&keys[start]), &mut copy).unwrap());
                    let copied: Vec<_> = copy.iter().map(|(key, _)| key.to_vec()).collect();
                    assert!(copied.is_sorted_by(|left, right| left < right));
                    let inside = |key: &Vec<u8>| {
                        copy.low().is_none_or(|low| &key[..] >= low) && copy.high().is_none_or(|high| &key[..] < high)
                    };
                    for even in keys.iter().step_by(2).filter(|key| inside(key)) {
                        assert!(copied.binary_search(even).is_ok(), "a copy lacks {}", even.escape_ascii());
                    }
                }
            });
        }
        let mut random = Random::new(99);
        let begin = std::time::Instant::now();
        let mut sequence = 1;
        while begin.elapsed().as_millis() < 1500 {
            sequence += 1;
            let now = version(sequence);
            store.tree.apply(keys.iter().step_by(2).map(|key| Entry { key, version: now }), |_, _| {}).unwrap();
            applied.store(sequence, Ordering::Release);
            let (from, count) = (random.below(KEYS), random.below(1500));
            let odd = || (from | 1..KEYS).step_by(2).take(count);
            store.tree.apply(odd().map(|number| Entry { key: &keys[number], version: now }), |_, _| {}).unwrap();
            store.tree.remove(odd().map(|number| (&keys[number][..], sequence))).unwrap();
        }
        done.store(true, Ordering::Release);
        assert!(sequence > 20, "{sequence} rounds");
    });
    let faults = slmdb_structures::hybrid_tree::HybridTree::verify(&[&store.tree]);
    assert!(faults.is_empty(), "{faults:#?}");
}
