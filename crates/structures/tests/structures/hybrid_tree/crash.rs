//! Crashes: a workload is recorded on the simulated medium, and every crash that its fences part is looked at. Each key has what it
//! had before the operation in flight, or what it has after it.

use std::collections::BTreeSet;

use slmdb_order::KeyOrder;
use slmdb_pmem::Dram;
use slmdb_testkit::Simulated;

use super::{Model, Store, version};
use crate::fast_fair::support::{Random, budget};

fn key(number: usize) -> Vec<u8> {
    format!("key{number:04}").into_bytes()
}

/// Does something to the tree and the model.
fn operation(store: &Store<Simulated>, random: &mut Random, model: &mut Model, sequence: &mut u64, epoch: &mut u32) {
    let start = random.below(900);
    match random.below(16) {
        0..9 => {
            let (count, step) = (1 + random.below(400), 1 + random.below(4));
            let keys = (0..count).map(|index| start + index * step);
            let batch: Model = keys
                .map(|number| {
                    *sequence += 1;
                    (key(number), version(*sequence))
                })
                .collect();
            store.apply(&batch);
            model.extend(batch);
        }
        9..13 => {
            let to = start + random.below(300);
            let keys: Vec<_> =
                model.range(key(start)..key(to)).map(|(key, version)| (key.clone(), version.sequence)).collect();
            store.tree.remove(keys.iter().map(|(key, sequence)| (&key[..], *sequence))).unwrap();
            for (key, _) in keys {
                model.remove(&key);
            }
        }
        13..15 => {
            let through = key(random.below(400));
            store.tree.cut_through(&through).unwrap();
            model.retain(|key, _| *key > through);
        }
        _ => {
            *epoch += 1;
            store.tree.begin_again(*epoch).unwrap();
            model.clear();
        }
    }
}

/// That a tree after a crash has for each key what it had before, or what it was getting.
fn check(image: Vec<u8>, before: &Model, after: &Model) {
    let store = Store::open(Dram, image, KeyOrder::Bytewise).unwrap();
    let found: Model = store.forwards().into_iter().collect();
    store.check(&found);
    let keys: BTreeSet<_> = before.keys().chain(after.keys()).chain(found.keys()).collect();
    for key in keys {
        let is = found.get(key);
        assert!(is == before.get(key) || is == after.get(key), "{}: {is:?}", key.escape_ascii());
    }
    // What was in flight is done again, and more.
    store.apply(after);
    let mut all = found;
    for (key, version) in after {
        let newest = all.entry(key.clone()).or_insert(*version);
        if newest.sequence < version.sequence {
            *newest = *version;
        }
    }
    store.check(&all);
}

#[test]
fn every_crash_leaves_each_key_old_or_new() {
    for seed in 0..3 * budget() as u64 {
        let medium = Simulated::new();
        let store = Store::create(medium.clone(), KeyOrder::Bytewise);
        let begin = medium.moment();
        let mut random = Random::new(seed);
        let (mut model, mut sequence, mut epoch) = (Model::new(), 0, 1);
        let mut moments = vec![(begin, model.clone())];
        for _ in 0..30 {
            operation(&store, &mut random, &mut model, &mut sequence, &mut epoch);
            moments.push((medium.moment(), model.clone()));
        }
        let mut replay = medium.history().replay();
        replay.to_moment(begin);
        loop {
            let next = moments.partition_point(|(moment, _)| *moment <= replay.moment());
            let before = &moments[next.max(1) - 1].1;
            let after = moments.get(next).map_or(before, |(_, model)| model);
            for image in replay.images(4, seed) {
                check(image, before, after);
            }
            if !replay.to_next_crash() {
                break;
            }
        }
    }
}

#[test]
fn a_crash_during_a_creation_leaves_no_tree_or_an_empty_one() {
    let medium = Simulated::new();
    let store = Store::create(medium.clone(), KeyOrder::Bytewise);
    drop(store);
    let mut replay = medium.history().replay();
    let mut seen = BTreeSet::new();
    while replay.to_next_crash() {
        for image in replay.images(8, 1) {
            let Ok(pool) = slmdb_pmem::Pool::from_image(Dram, image.clone()) else { continue };
            let exists = slmdb_structures::hybrid_tree::HybridTree::exists(&pool, 0).unwrap();
            seen.insert(exists);
            if exists {
                Store::open(Dram, image, KeyOrder::Bytewise).unwrap().check(&Model::new());
            }
        }
    }
    assert_eq!(seen.len(), 2);
}
