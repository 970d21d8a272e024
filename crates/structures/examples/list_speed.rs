//! How quick a list is beside the hybrid tree and the FAST and FAIR tree, in plain memory: a look-up of a random key, an entry in
//! order, an entry to build. `cargo run --release -p slmdb-structures --example list_speed -- 260000 1000000`.
#![allow(clippy::unwrap_used, reason = "a program that measures stops where something fails")]

use std::hint::black_box;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Instant;

use slmdb_order::{Direction, KeyOrder};
use slmdb_pmem::{Blocks, Claim, Dram, Pool, PoolOptions, Slots};
use slmdb_structures::EntryKind;
use slmdb_structures::fast_fair::{SegmentEntry, Tree, write_segment};
use slmdb_structures::hybrid_tree::{Entry, HybridTree, LeafCopy, Place, Version};
use slmdb_structures::list::{List, ListCursor, ListOptions, ListWriter, Persists, SegmentOptions, SegmentWriter};
use slmdb_sync::epoch;

const VALUE_BYTES: usize = 100;
const LOOKS: usize = 300_000;
const ROUNDS: usize = 7;

fn mixed(number: u64) -> u64 {
    let word = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (word ^ word >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 13
}

/// Sorted, 16 to 20 bytes.
fn keys(count: u64) -> Vec<Vec<u8>> {
    let key = |number: u64| format!("user{:012}{}", mixed(number) % 1_000_000_000_000, &"abcd"[..number as usize % 5]);
    let mut keys: Vec<_> = (0..count).map(|number| key(number).into_bytes()).collect();
    keys.sort();
    keys.dedup();
    keys
}

fn pool() -> Arc<Pool<Dram>> {
    let options = PoolOptions { initial_bytes: 1 << 30, growth_bytes: 64 << 20, maximum_bytes: 8 << 30, uuid: [7; 16] };
    Arc::new(Pool::anonymous(Dram, &options).unwrap())
}

/// The best of several rounds, in nanoseconds for each of so many.
fn best(count: usize, mut act: impl FnMut()) -> f64 {
    let mut once = || {
        let start = Instant::now();
        act();
        start.elapsed().as_nanos() as f64 / count as f64
    };
    (0..ROUNDS).map(|_| once()).fold(f64::MAX, f64::min)
}

fn tell(what: &str, look_up: f64, missing: f64, in_order: f64, build: f64, bytes: f64) {
    println!("{what:<32} {look_up:>9.0} {missing:>9.0} {in_order:>9.1} {build:>9.0} {bytes:>9.2}");
}

fn options(filter_bits_per_key: u32) -> ListOptions {
    ListOptions { order: KeyOrder::Bytewise, filter_bits_per_key, claim: Claim::Privileged, persists: Persists::Once }
}

fn open(pool: &Arc<Pool<Dram>>, list: ListWriter<Dram>, segments: SegmentWriter<Dram>) -> Arc<List<Dram>> {
    let list = list.finish(1).unwrap();
    segments.complete(std::slice::from_ref(&list)).unwrap();
    let record = list.record();
    Arc::new(List::open(Arc::clone(pool), record.extent, record.number, KeyOrder::Bytewise).unwrap())
}

fn lists(keys: &[Vec<u8>], looks: &[Vec<u8>], filter_bits: u32) {
    let pool = pool();
    let value = [7; VALUE_BYTES];
    let segment_options = SegmentOptions { segment_bytes: 256 << 10, owner: 1, claim: Claim::Privileged };
    let write = |keys: &mut dyn Iterator<Item = &Vec<u8>>| {
        let mut segments = SegmentWriter::new(Arc::clone(&pool), segment_options);
        let mut list = ListWriter::new(Arc::clone(&pool), 1, options(filter_bits));
        for key in keys {
            list.add(key, 1, EntryKind::Put, segments.add(key, 1, EntryKind::Put, &value).unwrap()).unwrap();
        }
        open(&pool, list, segments)
    };
    let (list, build) = built(keys.len(), || write(&mut keys.iter()), true);
    measure(&format!("list, {filter_bits} bits of filter"), &list, keys, looks, build);
    // Over the entries of four others, as after a compaction.
    let parts: Vec<_> = (0..4).map(|part| write(&mut keys.iter().skip(part).step_by(4))).collect();
    let merge = || {
        let mut sources: Vec<_> = parts.iter().map(|part| ListCursor::new(Arc::clone(part))).collect();
        sources.iter_mut().for_each(|source| source.seek_first().unwrap());
        let mut list = ListWriter::new(Arc::clone(&pool), 1, options(filter_bits));
        for index in 0..keys.len() {
            let source = &mut sources[index % 4];
            list.add(source.key(), 1, EntryKind::Put, source.place().unwrap()).unwrap();
            source.next().unwrap();
        }
        open(&pool, list, SegmentWriter::new(Arc::clone(&pool), segment_options))
    };
    let (list, build) = built(keys.len(), merge, false);
    measure(&format!("merged list, {filter_bits} bits of filter"), &list, keys, looks, build);
}

/// Makes a list several times, where the one before it lay. The best time, in nanoseconds for each of so many entries.
fn built(count: usize, make: impl Fn() -> Arc<List<Dram>>, with_segments: bool) -> (Arc<List<Dram>>, f64) {
    let (mut list, mut best) = (None::<Arc<List<Dram>>>, f64::MAX);
    for _ in 0..ROUNDS {
        if let Some(list) = list.take() {
            let (pool, record) = (Arc::clone(list.pool()), list.record().clone());
            drop(list);
            let segments = record.segments.iter().map(|share| share.segment).filter(|_| with_segments);
            segments.chain([record.extent.offset]).for_each(|offset| pool.free_extent(offset).unwrap());
        }
        let start = Instant::now();
        list = Some(make());
        best = best.min(start.elapsed().as_nanos() as f64 / count as f64);
    }
    (list.unwrap(), best)
}

fn measure(what: &str, list: &Arc<List<Dram>>, keys: &[Vec<u8>], looks: &[Vec<u8>], build: f64) {
    let look_up = best(looks.len(), || {
        looks.iter().for_each(|key| assert!(black_box(list.get(key, u64::MAX).unwrap()).is_some()));
    });
    let others: Vec<Vec<u8>> = looks.iter().map(|key| [&key[..], b"!"].concat()).collect();
    let missing = best(looks.len(), || {
        others.iter().for_each(|key| assert!(black_box(list.get(key, u64::MAX).unwrap()).is_none()));
    });
    let mut cursor = ListCursor::new(Arc::clone(list));
    let in_order = best(keys.len(), || {
        cursor.seek_first().unwrap();
        while cursor.valid() {
            black_box(cursor.value().unwrap());
            cursor.next().unwrap();
        }
    });
    let record = list.record();
    let key_bytes = (record.smallest_key.len() + record.largest_key.len()) as u64;
    let filter_bits = if what.contains(", 0 ") { 0 } else { 10 };
    let bytes =
        slmdb_structures::list::list_bytes(record.entries, filter_bits, key_bytes, record.segments.len() as u64);
    tell(what, look_up, missing, in_order, build, bytes as f64 / record.entries as f64);
}

fn hybrid_tree(keys: &[Vec<u8>], looks: &[Vec<u8>]) {
    let build_one = || {
        let slots = Arc::new(Slots::open(pool()).unwrap());
        let tree = HybridTree::create(slots, 0, 1, KeyOrder::Bytewise).unwrap();
        let version = Version { sequence: 1, kind: EntryKind::Put, file: 1, offset: 1, length_bytes: 100 };
        tree.apply(keys.iter().map(|key| Entry { key, version }), |_, _| {}).unwrap();
        tree
    };
    let mut tree = build_one();
    let build = best(keys.len(), || tree = build_one());
    let look_up = best(looks.len(), || {
        looks.iter().for_each(|key| assert!(black_box(tree.get(key).unwrap()).is_some()));
    });
    let mut copy = LeafCopy::default();
    let in_order = best(keys.len(), || {
        let mut more = tree.copy_leaves(Place::First, 8, &mut copy).unwrap();
        while more {
            black_box(copy.iter().count());
            let Some(high) = copy.high().map(<[u8]>::to_vec) else { break };
            more = tree.copy_leaves(Place::At(&high), 8, &mut copy).unwrap();
        }
    });
    let counts = tree.counts();
    let bytes = (counts.leaf_bytes + counts.record_bytes) as f64 / counts.keys as f64;
    tell("hybrid tree (no values)", look_up, f64::NAN, in_order, build, bytes);
}

fn fast_fair(keys: &[Vec<u8>], looks: &[Vec<u8>]) {
    let pool = pool();
    let blocks = Arc::new(Blocks::open(Arc::clone(&pool)).unwrap());
    let tree = Tree::create(Arc::clone(&pool), blocks, 1024, KeyOrder::Bytewise).unwrap();
    let start = Instant::now();
    let entries = keys.iter().map(|key| SegmentEntry {
        key,
        sequence: 1,
        kind: EntryKind::Put,
        block_offset: 1,
        block_length: 100,
    });
    let segment = write_segment(&pool, 1, entries).unwrap();
    let guard = epoch::pin();
    for (key, record) in keys.iter().zip(segment.records(&pool, &guard)) {
        tree.insert_or_replace(key, record.unwrap().offset()).unwrap();
    }
    let build = start.elapsed().as_nanos() as f64 / keys.len() as f64;
    let look_up = best(looks.len(), || {
        looks.iter().for_each(|key| assert!(black_box(tree.get(key, &guard).unwrap()).is_some()));
    });
    let in_order = best(keys.len(), || {
        let range = tree.range(Bound::Unbounded, Direction::Forward, &guard);
        range.for_each(|record| assert!(black_box(record.unwrap()).sequence() == 1));
    });
    let bytes = (tree.node_bytes_used().unwrap() + segment.length_bytes()) as f64 / keys.len() as f64;
    tell("FAST and FAIR tree (no values)", look_up, f64::NAN, in_order, build, bytes);
}

fn main() {
    let counts: Vec<u64> = std::env::args().skip(1).filter_map(|count| count.parse().ok()).collect();
    for count in if counts.is_empty() { vec![260_000, 1_000_000] } else { counts } {
        let keys = keys(count);
        // Copies, one behind another, so that finding out what to look for costs nothing.
        let looks: Vec<_> = (0..LOOKS as u64).map(|look| keys[mixed(look) as usize % keys.len()].clone()).collect();
        println!(
            "\n{} keys                       look-up   missing  in order     build  B of index  (ns an entry)",
            keys.len()
        );
        lists(&keys, &looks, 10);
        lists(&keys, &looks, 0);
        hybrid_tree(&keys, &looks);
        fast_fair(&keys, &looks);
    }
}
