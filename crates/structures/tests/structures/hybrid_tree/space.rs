//! What applying needs of the pool is never more than the bound says.

use std::sync::Arc;

use slmdb_order::KeyOrder;
use slmdb_pmem::{Dram, Pool, PoolOptions, Slots, UNIT_BYTES};
use slmdb_structures::hybrid_tree::{Entry, HybridTree, pool_bytes_max};
use slmdb_sync::epoch;

use super::version;
use crate::fast_fair::support::Random;

#[test]
fn applying_never_needs_more_than_the_bound() {
    for (seed, long) in [(1, 20), (2, 400), (3, 5000), (4, 60_000)] {
        let options = PoolOptions { initial_bytes: 0, growth_bytes: UNIT_BYTES, maximum_bytes: 1 << 30, uuid: [7; 16] };
        let pool = Arc::new(Pool::anonymous(Dram, &options).unwrap());
        let slots = Arc::new(Slots::open(Arc::clone(&pool)).unwrap());
        let tree = HybridTree::create(slots, 0, 1, KeyOrder::Bytewise).unwrap();
        let mut random = Random::new(seed);
        for round in 0..12u64 {
            let count = if long > 1000 { 1 + random.below(60) } else { 1 + random.below(8000) };
            let mut keys: Vec<Vec<u8>> = Vec::new();
            for _ in 0..count {
                let mut key = (random.next() % 100_000).to_be_bytes().to_vec();
                key.resize(8 + random.below(long), b'x');
                keys.push(key);
            }
            keys.sort();
            keys.dedup();
            let key_bytes = keys.iter().map(|key| key.len() as u64).sum();
            let longest = keys.iter().map(Vec::len).max().unwrap_or_default() as u32;
            let leaves = tree.counts().leaves;
            let bound = pool_bytes_max::<Dram>(keys.len() as u64, key_bytes, longest, leaves);
            let before = pool.used_bytes();
            // All is held back, so that every extent comes out of the reserve.
            pool.set_reserve(bound, UNIT_BYTES).unwrap();
            tree.apply(keys.iter().map(|key| Entry { key, version: version(1 + round) }), |_, _| {}).unwrap();
            let needed = pool.used_bytes() - before.min(pool.used_bytes());
            assert!(needed <= bound, "{needed} of {bound} for {count} keys");
            for _ in 0..8 {
                epoch::pin().flush();
            }
        }
    }
}
