//! A change that a full pool has stopped.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use slmdb_env::Error;
use slmdb_order::{Direction, KeyOrder};
use slmdb_pmem::{Dram, ExtentKind};
use slmdb_structures::fast_fair::{Decision, Tree};
use slmdb_sync::epoch;

use crate::alone;
use crate::support::{Random, Store};

#[test]
fn what_a_full_pool_has_stopped_is_finished_later() {
    let _alone = alone();
    // Long common beginnings, so that inner nodes need blocks for their fences: of these none are set aside. Sooner or
    // later a leaf is split and its parent can't be.
    let mut stopped = 0;
    for taken in 50..90 {
        let mut store = Store::create_in(Dram, 256, 640 << 10);
        let taken: Vec<u64> = (0..taken).map(|_| store.blocks.take(512).unwrap()).collect();
        let keys: Vec<Vec<u8>> = (0..1000)
            .map(|number| [vec![b'x'; 200], Random::new(number).next().to_be_bytes().to_vec()].concat())
            .collect();
        let records = store.records(1, &keys);
        let spare = store.pool.allocate_extent(ExtentKind::Arena, 64 << 10, 0).unwrap();
        let mut model = BTreeMap::new();
        let mut free_spare = Some(spare);
        for round in 0..2 {
            // With this nothing is recycled during a round.
            let _guard = epoch::pin();
            for (key, &record) in keys.iter().zip(&records) {
                match store.tree.insert_or_replace(key, record) {
                    Ok(_) => drop(model.insert(key.clone(), record)),
                    Err(Error::Full { .. }) => assert_eq!(store.get(key), model.get(key).copied()),
                    Err(error) => panic!("{error}"),
                }
            }
            for key in &keys {
                assert_eq!(store.get(key), model.get(key).copied());
            }
            let all: Vec<u64> = model.values().copied().collect();
            assert_eq!(store.collect(Bound::Unbounded, Direction::Forward, 0), all);
            assert_eq!(store.collect(Bound::Unbounded, Direction::Backward, 0).len(), all.len());
            let sorted: Vec<(Vec<u8>, u64)> = model.iter().map(|(key, &record)| (key.clone(), record)).collect();
            let batch = sorted.iter().map(|(key, _)| &key[..]);
            store.tree.update_sorted(batch, |index, _| Ok(Decision::Put(sorted[index].1))).unwrap();
            match store.tree.verify().as_slice() {
                [] => {}
                [Error::Full { .. }] if round == 0 => {
                    stopped += 1;
                    // It can be opened like that, too.
                    let (pool, blocks) = (Arc::clone(&store.pool), Arc::clone(&store.blocks));
                    store.tree = Tree::open(pool, blocks, KeyOrder::Bytewise).unwrap();
                    for key in &keys {
                        assert_eq!(store.get(key), model.get(key).copied());
                    }
                }
                faults => panic!("{faults:?}"),
            }
            for key in keys.iter().step_by(3) {
                store.remove(key);
                model.remove(key);
            }
            if let Some(spare) = free_spare.take() {
                store.pool.free_extent(spare.offset).unwrap();
            }
        }
        store.assert_same(&model);
        taken.into_iter().for_each(|block| store.blocks.recycle(block));
    }
    println!("{stopped} times");
    assert!(stopped > 0);
}
