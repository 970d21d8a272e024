//! How fast the tree is on this machine: `cargo run --release --example tree_speed -p slmdb-structures [KEYS]`.
//!
//! One thread, DRAM, no latency added, keys of 20 bytes (`user` and 16 digits). Best of three rounds, nanoseconds a key.

use std::error::Error;
use std::hint::black_box;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Instant;

use slmdb_order::KeyOrder;
use slmdb_pmem::{Blocks, Dram, Pool, PoolOptions};
use slmdb_structures::EntryKind;
use slmdb_structures::fast_fair::{Decision, Direction, LeafRead, SegmentEntry, Tree, write_segment};
use slmdb_sync::epoch;

const ROUNDS: usize = 3;
const RANGE_KEYS: usize = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let count = std::env::args().nth(1).map_or(Ok(1_000_000), |text| text.parse())?;
    // The order in which single keys are inserted and looked up: each once, far from the one before.
    let step = (1..count).rev().find(|step| gcd(*step, count) == 1 && *step < count / 3 * 2).unwrap_or(1);
    let scattered = || (0..count).map(|number| number * step % count);
    let keys: Vec<[u8; 20]> =
        (0..count).map(|number| format!("user{number:016}").into_bytes().try_into().unwrap_or_default()).collect();
    let mut best = [f64::INFINITY; 5];
    for _ in 0..ROUNDS {
        let options = PoolOptions { initial_bytes: 0, growth_bytes: 64 << 20, maximum_bytes: 8 << 30, uuid: [7; 16] };
        let pool = Arc::new(Pool::anonymous(Dram, &options)?);
        let blocks = Arc::new(Blocks::open(Arc::clone(&pool))?);
        let tree = Tree::create(Arc::clone(&pool), blocks, 512, KeyOrder::Bytewise)?;
        let entries = keys.iter().map(|key| SegmentEntry {
            key,
            sequence: 1,
            kind: EntryKind::Put,
            block_offset: 0,
            block_length: 100,
        });
        let segment = write_segment(&pool, 1, entries)?;
        let guard = epoch::pin();
        let records = segment
            .records(&pool, &guard)
            .map(|record| record.map(|record| record.offset()))
            .collect::<Result<Vec<u64>, _>>()?;
        drop(guard);
        let mut took = [0.0; 5];

        let start = Instant::now();
        for number in scattered() {
            tree.insert_or_replace(&keys[number], records[number])?;
        }
        took[0] = start.elapsed().as_secs_f64() / count as f64;

        let start = Instant::now();
        let mut found = 0;
        for number in scattered() {
            found += usize::from(tree.get(&keys[number], &epoch::pin())?.is_some());
        }
        assert_eq!(found, count);
        took[1] = start.elapsed().as_secs_f64() / count as f64;

        let start = Instant::now();
        let (mut leaf, ranges) = (LeafRead::new(), count / RANGE_KEYS);
        for number in scattered().take(ranges) {
            let guard = epoch::pin();
            tree.read_leaves(Bound::Included(&keys[number]), Direction::Forward, RANGE_KEYS, &guard, &mut leaf)?;
            for &record in leaf.records().iter().take(RANGE_KEYS) {
                black_box(tree.record(record, &guard)?.sequence());
            }
        }
        took[2] = start.elapsed().as_secs_f64() / ranges as f64;

        let start = Instant::now();
        tree.update_sorted(keys.iter().map(|key| &key[..]), |index, _| Ok(Decision::Put(records[index])))?;
        took[3] = start.elapsed().as_secs_f64() / count as f64;

        let start = Instant::now();
        for number in scattered() {
            tree.remove(&keys[number])?;
        }
        took[4] = start.elapsed().as_secs_f64() / count as f64;
        for (best, took) in best.iter_mut().zip(took) {
            *best = best.min(took * 1e9);
        }
    }
    let [insert, get, range, sorted, remove] = best;
    println!(
        "{count} keys, ns: insert {insert:.0}, get {get:.0}, range of {RANGE_KEYS} {range:.0}, sorted replace {sorted:.0}, remove {remove:.0}"
    );
    Ok(())
}

fn gcd(left: usize, right: usize) -> usize {
    if right == 0 { left } else { gcd(right, left % right) }
}
