//! The hybrid tree beside the FAST and FAIR tree, in turns, on this machine:
//! `cargo run --release --example hybrid_tree_speed -p slmdb-structures [KEYS [KEY_BYTES [FOLDER [ROUNDS]]]]`.
//!
//! Each tree first gets all even numbers as keys, in batches that are sorted. Then two *flushes* bring in keys by chance, sorted, each a twentieth as
//! many as there are: half of them new. The first meets full leaves, as an ascending load leaves them. (The FAST and FAIR tree gets a key segment for them, and then the keys.) Then keys are
//! looked up by chance, and the hybrid tree is opened anew. One thread. Medians of all rounds, nanoseconds of processor
//! time a key (where the system does not tell it, of time). With a folder, say
//! `/dev/shm`, the pools are files there, on emulated persistent memory without added latency.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use slmdb_env::OsEnv;
use slmdb_order::KeyOrder;
use slmdb_pmem::{Blocks, Dram, Emulated, Medium, Pool, PoolOptions, Slots};
use slmdb_structures::EntryKind;
use slmdb_structures::fast_fair::{Decision, SegmentEntry, Tree, write_segment};
use slmdb_structures::hybrid_tree::{Entry, HybridTree, Version};
use slmdb_sync::epoch;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// What was measured, in this order.
const NAMES: [&str; 9] = [
    "fast_fair load",
    "fast_fair flush 1",
    "fast_fair flush 2",
    "fast_fair get",
    "hybrid load",
    "hybrid flush 1",
    "hybrid flush 2",
    "hybrid get",
    "hybrid open",
];
const GETS: usize = 1_000_000;
const LOAD_BATCH: usize = 200_000;

struct Setup {
    count: u64,
    key_bytes: usize,
    folder: Option<String>,
}

impl Setup {
    /// The key of a number: of 8 bytes the number itself, else `user` and digits.
    fn key(&self, number: u64) -> Vec<u8> {
        match self.key_bytes {
            8 => number.to_be_bytes().to_vec(),
            bytes => format!("user{number:0width$}", width = bytes - 4).into_bytes(),
        }
    }

    fn pool<M: Medium>(&self, medium: M) -> Outcome<Arc<Pool<M>>> {
        let options = PoolOptions { initial_bytes: 0, growth_bytes: 64 << 20, maximum_bytes: 4 << 30, uuid: [7; 16] };
        let Some(folder) = &self.folder else { return Ok(Arc::new(Pool::anonymous(medium, &options)?)) };
        let path = Path::new(folder).join(format!("hybrid_tree_speed.{}", std::process::id()));
        let pool = Pool::create(&OsEnv::new(), &path, medium, &options)?;
        // The mapping keeps the bytes as long as they are needed.
        std::fs::remove_file(path)?;
        Ok(Arc::new(pool))
    }

    /// The numbers of a flush: by chance, in order, each once.
    fn flush(&self, random: &mut u64) -> Vec<u64> {
        let mut numbers: Vec<u64> = (0..self.count / 20).map(|_| next(random) % (self.count * 2)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    fn gets(&self, random: &mut u64) -> Vec<Vec<u8>> {
        (0..GETS).map(|_| self.key(next(random) % self.count * 2)).collect()
    }
}

fn next(random: &mut u64) -> u64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    *random
}

/// A moment of this thread: what it has used of the processor, or else the time.
struct Moment(Instant, Option<u64>);

impl Moment {
    fn now() -> Moment {
        let used = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
        Moment(Instant::now(), used.and_then(|text| text.split(' ').next()?.parse().ok()))
    }
}

/// Nanoseconds since a moment, for each of so many.
fn each(start: Moment, count: usize) -> f64 {
    let nanoseconds = match (start.1, Moment::now().1) {
        (Some(before), Some(now)) => (now - before) as f64,
        _ => start.0.elapsed().as_secs_f64() * 1e9,
    };
    nanoseconds / count as f64
}

fn fast_fair<M: Medium>(setup: &Setup, medium: M, random: &mut u64) -> Outcome<[f64; 4]> {
    let pool = setup.pool(medium)?;
    let blocks = Arc::new(Blocks::open(Arc::clone(&pool))?);
    let tree = Tree::create(Arc::clone(&pool), blocks, 512, KeyOrder::Bytewise)?;
    let mut file = 0;
    let mut bring_in = |numbers: &[u64]| -> Outcome<f64> {
        file += 1;
        let keys: Vec<Vec<u8>> = numbers.iter().map(|&number| setup.key(number)).collect();
        let start = Moment::now();
        let entries = keys.iter().map(|key| SegmentEntry {
            key,
            sequence: u64::from(file),
            kind: EntryKind::Put,
            block_offset: 0,
            block_length: 100,
        });
        let segment = write_segment(&pool, file, entries)?;
        let guard = epoch::pin();
        let records: Vec<u64> = segment
            .records(&pool, &guard)
            .map(|record| record.map(|record| record.offset()))
            .collect::<Result<_, _>>()?;
        drop(guard);
        tree.update_sorted(keys.iter().map(|key| &key[..]), |index, _| Ok(Decision::Put(records[index])))?;
        Ok(each(start, keys.len()))
    };
    let all: Vec<u64> = (0..setup.count).map(|number| number * 2).collect();
    let batches: Vec<f64> = all.chunks(LOAD_BATCH).map(&mut bring_in).collect::<Outcome<_>>()?;
    let flushes = [bring_in(&setup.flush(random))?, bring_in(&setup.flush(random))?];
    let keys = setup.gets(random);
    let start = Moment::now();
    for key in &keys {
        assert!(tree.get(key, &epoch::pin())?.is_some());
    }
    Ok([batches.iter().sum::<f64>() / batches.len() as f64, flushes[0], flushes[1], each(start, keys.len())])
}

fn hybrid<M: Medium>(setup: &Setup, medium: M, random: &mut u64) -> Outcome<[f64; 5]> {
    let pool = setup.pool(medium)?;
    let slots = Arc::new(Slots::open(Arc::clone(&pool))?);
    let tree = HybridTree::create(slots, 0, 1, KeyOrder::Bytewise)?;
    let mut sequence = 0;
    let mut bring_in = |numbers: &[u64]| -> Outcome<f64> {
        sequence += 1;
        let keys: Vec<Vec<u8>> = numbers.iter().map(|&number| setup.key(number)).collect();
        let version = Version { sequence, kind: EntryKind::Put, file: sequence as u32, offset: 0, length_bytes: 100 };
        let start = Moment::now();
        tree.apply(keys.iter().map(|key| Entry { key, version }), |_, _| {})?;
        Ok(each(start, keys.len()))
    };
    let all: Vec<u64> = (0..setup.count).map(|number| number * 2).collect();
    let batches: Vec<f64> = all.chunks(LOAD_BATCH).map(&mut bring_in).collect::<Outcome<_>>()?;
    let flushes = [bring_in(&setup.flush(random))?, bring_in(&setup.flush(random))?];
    let keys = setup.gets(random);
    let start = Moment::now();
    for key in &keys {
        assert!(tree.get(key)?.is_some());
    }
    let get = each(start, keys.len());
    let (counts, directory_bytes) = (tree.counts(), tree.directory_bytes());
    drop(tree);
    let start = Moment::now();
    let slots = Arc::new(Slots::open(Arc::clone(&pool))?);
    let tree = HybridTree::open(slots, 0, KeyOrder::Bytewise, |_| true)?;
    let open = each(start, counts.keys as usize);
    assert_eq!(tree.counts(), counts);
    let bytes = (counts.leaf_bytes + counts.record_bytes) as f64 / counts.keys as f64;
    println!("  {} keys, {bytes:.1} bytes of the pool for each, directory {directory_bytes} bytes", counts.keys);
    Ok([batches.iter().sum::<f64>() / batches.len() as f64, flushes[0], flushes[1], get, open])
}

fn round<M: Medium>(setup: &Setup, medium: impl Fn() -> M, random: &mut u64) -> Outcome<Vec<f64>> {
    let fast_fair = fast_fair(setup, medium(), random)?;
    Ok([&fast_fair[..], &hybrid(setup, medium(), random)?].concat())
}

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let count = arguments.next().map_or(Ok(4_000_000), |text| text.parse())?;
    let key_bytes = arguments.next().map_or(Ok(20), |text| text.parse())?;
    let folder = arguments.next().filter(|folder| folder != "-");
    let rounds = arguments.next().map_or(Ok(3), |text| text.parse())?;
    let setup = Setup { count, key_bytes, folder };
    let mut random = 0x9e37_79b9_7f4a_7c15;
    let mut all = Vec::new();
    for _ in 0..rounds {
        all.push(match setup.folder {
            None => round(&setup, || Dram, &mut random)?,
            Some(_) => round(&setup, Emulated::new, &mut random)?,
        });
    }
    for (index, name) in NAMES.iter().enumerate() {
        let mut figures: Vec<f64> = all.iter().map(|round| round[index]).collect();
        figures.sort_by(f64::total_cmp);
        println!("{name:18} {:6.0}   ({:.0} to {:.0})", figures[rounds / 2], figures[0], figures[rounds - 1]);
    }
    Ok(())
}
