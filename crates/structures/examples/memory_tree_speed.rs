//! How quick the tree for plain memory is beside the FAST and FAIR tree and the standard library's B-tree: a look-up of a random
//! key, of one that is missing, a range of 100 with keys and places, an overwrite, a key of a batch of new ones, a bulk load; and
//! what a key takes. Keys come in batches of 250,000.
//!
//! `cargo run --release -p slmdb-structures --example memory_tree_speed -- keys=1000000 kind=0 rounds=5 trees=memory,fast_fair,standard`;
//! kinds: 0: 20 random digits, 1: 8 random bytes, 2: URLs of about 65 bytes, 3: 100 letters, 4: ascending. `numbers=0` leaves sequence numbers out.
//! Memory comes from a pool, which asks for large pages, as that of FAST and FAIR does.
#![allow(clippy::unwrap_used, reason = "a program that measures stops where something fails")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::ops::Bound;
use std::ptr::NonNull;
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use slmdb_order::{Direction, KeyOrder};
use slmdb_pmem::{Blocks, Dram, ExtentKind, Pool, PoolOptions};
use slmdb_structures::EntryKind;
use slmdb_structures::fast_fair::{self, LeafRead, SegmentEntry, Tree, write_segment};
use slmdb_structures::memory_tree::{ChunkSource, Decision, Found, MemoryTree, Place, RangeRead, Settings};
use slmdb_sync::epoch;

const BATCH: usize = 250_000;
const LOOKS: usize = 400_000;
const RANGES: usize = 10_000;
const PARTS: usize = 200;
const RANGE_KEYS: usize = 100;
const LETTERS: u64 = 26;

fn argument(name: &str) -> Option<String> {
    std::env::args().find_map(|argument| Some(argument.strip_prefix(name)?.strip_prefix('=')?.to_string()))
}

fn number(name: &str, default: u64) -> u64 {
    argument(name).map_or(default, |value| value.parse().unwrap())
}

fn mixed(number: u64) -> u64 {
    let word = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word ^ word >> 27
}

fn key(kind: u64, number: u64) -> Vec<u8> {
    let random = mixed(number);
    match kind {
        0 => format!("{random:020}").into_bytes(),
        1 => random.to_be_bytes().to_vec(),
        2 => format!(
            "https://www.example{}.com/{:x}/2026/{:02}/article-{number}",
            random % 97,
            random >> 30,
            random % 12
        )
        .into_bytes(),
        3 => (0..100).map(|letter| b'a' + (mixed(number * 128 + letter) % LETTERS) as u8).collect(),
        _ => format!("user{number:016}").into_bytes(),
    }
}

/// The best of so many rounds, in nanoseconds for each of so many.
fn best_of(rounds: usize, count: usize, mut act: impl FnMut(usize)) -> f64 {
    let mut once = |round| {
        let start = Instant::now();
        act(round);
        start.elapsed().as_nanos() as f64 / count as f64
    };
    (0..rounds).map(&mut once).fold(f64::MAX, f64::min)
}

/// The best of some rounds that do the same.
fn best(count: usize, mut act: impl FnMut()) -> f64 {
    best_of(number("rounds", 5) as usize, count, |_| act())
}

/// The best of many short rounds, each with keys of its own: somebody else takes the processor in few of them.
fn best_part<K>(keys: &[K], mut act: impl FnMut(&K)) -> f64 {
    let parts: Vec<&[K]> = keys.chunks_exact(keys.len() / PARTS).collect();
    best_of(parts.len(), parts[0].len(), |round| parts[round].iter().for_each(&mut act))
}

/// What is measured of a tree, in nanoseconds each (a range in microseconds), and bytes a key.
struct Figures {
    fill: f64,
    get: f64,
    missing: f64,
    range: f64,
    overwrite: f64,
    bulk: f64,
    bytes: f64,
}

struct Keys {
    batches: Vec<Vec<Vec<u8>>>,
    sorted: Vec<Vec<u8>>,
    looks: Vec<Vec<u8>>,
    others: Vec<Vec<u8>>,
}

impl Keys {
    fn new(kind: u64, count: u64) -> Keys {
        let all: Vec<Vec<u8>> = (0..count).map(|number| key(kind, number)).collect();
        let mut batches: Vec<Vec<Vec<u8>>> = all.chunks(BATCH).map(<[_]>::to_vec).collect();
        batches.iter_mut().for_each(|batch| batch.sort_unstable());
        let looks = (0..LOOKS as u64).map(|look| all[mixed(look) as usize % all.len()].clone()).collect();
        let others = (0..LOOKS as u64).map(|look| key(kind, count + look)).collect();
        let mut sorted = all;
        sorted.sort_unstable();
        Keys { batches, sorted, looks, others }
    }

    fn measure(
        &self,
        fill: impl FnOnce(),
        has: impl Fn(&[u8]) -> bool,
        mut range: impl FnMut(&[u8]) -> usize,
        overwrite: impl FnMut(),
    ) -> Figures {
        let start = Instant::now();
        fill();
        let fill = start.elapsed().as_nanos() as f64 / self.sorted.len() as f64;
        let get = best_part(&self.looks, |key| assert!(black_box(has(key))));
        let missing = best_part(&self.others, |key| assert!(!black_box(has(key))));
        let range = best_part(&self.looks[..RANGES], |key| assert!(black_box(range(key)) > 0)) / 1000.0;
        let overwrite = best(self.batches[0].len(), overwrite);
        Figures { fill, get, missing, range, overwrite, bulk: f64::NAN, bytes: f64::NAN }
    }
}

fn pool() -> Arc<Pool<Dram>> {
    let options = PoolOptions { initial_bytes: 0, growth_bytes: 64 << 20, maximum_bytes: 16 << 30, uuid: [7; 16] };
    Arc::new(Pool::anonymous(Dram, &options).unwrap())
}

/// Chunks that are extents of a pool.
#[derive(Debug)]
struct PoolChunks(Arc<Pool<Dram>>);

// SAFETY: an extent is nobody else's, begins at a multiple of 64 KiB, and lies where it is until it is freed.
unsafe impl ChunkSource for PoolChunks {
    fn take(&self, length_bytes: usize) -> Option<NonNull<u8>> {
        let extent = self.0.allocate_extent(ExtentKind::Blocks, length_bytes as u64, 1).ok()?;
        NonNull::new(self.0.pointer(extent.offset, length_bytes as u64).ok()?)
    }

    unsafe fn give_back(&self, _chunk: NonNull<u8>, _length_bytes: usize) {
        // The program ends soon.
    }
}

fn found(sequence: u64) -> Found {
    static HAS_NUMBERS: LazyLock<bool> = LazyLock::new(|| number("numbers", 1) > 0);
    let sequence = if *HAS_NUMBERS { sequence } else { 0 };
    Found { place: Place { slot: 0, offset: 160, length_bytes: 160 }, sequence }
}

fn memory_tree(keys: &Keys) -> Figures {
    let new = || MemoryTree::new(Arc::new(PoolChunks(pool())), Settings::default()).unwrap();
    let tree = new();
    let put = |batch: &[Vec<u8>], sequence: u64| {
        tree.update_sorted(batch, |_, _| Ok(Decision::Put(found(sequence))), |_, _| {}).unwrap();
    };
    let mut read = RangeRead::default();
    let fill = || keys.batches.iter().zip(1..).for_each(|(batch, number)| put(batch, number));
    let has = |key: &[u8]| tree.get(key, &epoch::pin()).is_some();
    let range = |key: &[u8]| {
        tree.read(Bound::Included(key), Direction::Forward, RANGE_KEYS, &epoch::pin(), &mut read);
        read.len()
    };
    let mut sequence = 100;
    let figures = keys.measure(fill, has, range, || {
        sequence += 1;
        put(&keys.batches[0], sequence);
    });
    let bytes = tree.memory_bytes() as f64 / keys.sorted.len() as f64;
    println!("  {:.1} bytes a key in nodes", tree.live_bytes() as f64 / keys.sorted.len() as f64);
    let places = best(keys.batches[0].len(), || {
        let mut moved = 0;
        tree.repoint(&keys.batches[0], |_| (found(1).place, found(1).place), |_| moved += 1).unwrap();
        assert_eq!(moved, keys.batches[0].len());
    });
    println!("  {places:.0} ns a place that moves");
    let bulk = best(keys.sorted.len(), || {
        let tree = new();
        let mut part = tree.bulk_part();
        keys.sorted.iter().for_each(|key| part.add(key, found(1)).unwrap());
        tree.finish_bulk_load(vec![part]).unwrap();
    });
    Figures { bulk, bytes, ..figures }
}

fn fast_fair(keys: &Keys) -> Figures {
    let pool = pool();
    let blocks = Arc::new(Blocks::open(Arc::clone(&pool)).unwrap());
    let tree = Tree::create(Arc::clone(&pool), blocks, 1024, KeyOrder::Bytewise).unwrap();
    let segment_bytes = std::cell::Cell::new(0);
    let put = |batch: &[Vec<u8>], sequence: u64| {
        let entries = batch.iter().map(|key| SegmentEntry {
            key,
            sequence,
            kind: EntryKind::Put,
            block_offset: 160,
            block_length: 160,
        });
        let segment = write_segment(&pool, sequence as u32, entries).unwrap();
        segment_bytes.set(segment_bytes.get() + segment.length_bytes());
        let guard = epoch::pin();
        let records: Vec<u64> = segment.records(&pool, &guard).map(|record| record.unwrap().offset()).collect();
        drop(guard);
        for (keys, records) in batch.chunks(256).zip(records.chunks(256)) {
            let decide =
                |index: usize, _: Option<fast_fair::KeyRecord<'_>>| Ok(fast_fair::Decision::Put(records[index]));
            tree.update_sorted(keys.iter().map(|key| &key[..]), decide).unwrap();
        }
    };
    let mut leaf = LeafRead::new();
    let fill = || keys.batches.iter().zip(1..).for_each(|(batch, number)| put(batch, number));
    let has = |key: &[u8]| tree.get(key, &epoch::pin()).unwrap().is_some();
    let mut copied = Vec::new();
    let range = |key: &[u8]| {
        let guard = epoch::pin();
        copied.clear();
        tree.read_leaves(Bound::Included(key), Direction::Forward, RANGE_KEYS, &guard, &mut leaf).unwrap();
        tree.prefetch_records(leaf.records());
        for &record in leaf.records() {
            copied.extend_from_slice(tree.record_at_hand(record, &guard).unwrap().key());
        }
        leaf.records().len()
    };
    let bytes = std::cell::Cell::new(f64::NAN);
    let mut sequence = 1000;
    let figures = keys.measure(
        || {
            fill();
            let all = tree.node_bytes_used().unwrap() + segment_bytes.get();
            bytes.set(all as f64 / keys.sorted.len() as f64);
        },
        has,
        range,
        || {
            sequence += 1;
            put(&keys.batches[0], sequence);
        },
    );
    Figures { bytes: bytes.get(), ..figures }
}

fn standard(keys: &Keys) -> Figures {
    let map = std::cell::RefCell::new(BTreeMap::new());
    let put = |batch: &[Vec<u8>], sequence: u64| {
        let mut map = map.borrow_mut();
        map.extend(batch.iter().map(|key| (key.clone(), found(sequence))));
    };
    let fill = || keys.batches.iter().zip(1..).for_each(|(batch, number)| put(batch, number));
    let range = |key: &[u8]| {
        let map = map.borrow();
        let range = map.range::<[u8], _>((Bound::Included(key), Bound::Unbounded)).take(RANGE_KEYS);
        range.map(|(key, found)| black_box((key.clone(), *found)).0.len().min(1)).sum()
    };
    keys.measure(fill, |key| map.borrow().contains_key(key), range, || put(&keys.batches[0], 100))
}

fn main() {
    let (kind, count) = (number("kind", 0), number("keys", 1_000_000));
    let trees = argument("trees").unwrap_or("memory,fast_fair,standard".into());
    let keys = Keys::new(kind, count);
    println!(
        "{count} keys of kind {kind}, {} bytes the first; ns each, ranges of {RANGE_KEYS} in us",
        keys.sorted[0].len()
    );
    println!(
        "{:<12} {:>8} {:>8} {:>8} {:>8} {:>10} {:>8} {:>8}",
        "", "fill", "get", "missing", "range", "overwrite", "bulk", "bytes"
    );
    for (name, measure) in
        [("memory", memory_tree as fn(&Keys) -> Figures), ("fast_fair", fast_fair), ("standard", standard)]
    {
        if trees.split(',').any(|tree| tree == name) {
            let Figures { fill, get, missing, range, overwrite, bulk, bytes } = measure(&keys);
            println!(
                "{name:<12} {fill:>8.0} {get:>8.0} {missing:>8.0} {range:>8.2} {overwrite:>10.0} {bulk:>8.0} {bytes:>8.1}"
            );
        }
    }
}
