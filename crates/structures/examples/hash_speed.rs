//! How quick hash tables are beside the FAST and FAIR tree and the standard library's hash map, in plain memory: a look-up of a random
//! key (its hash included), of a key that is missing, an insertion, a merge; and what a key takes.
//! `cargo run --release -p slmdb-structures --example hash_speed -- 1000000 4000000`.
#![allow(clippy::unwrap_used, reason = "a program that measures stops where something fails")]

use std::collections::HashMap;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use slmdb_env::{Env, Mapped, OpenMode, OsEnv, Result};
use slmdb_order::KeyOrder;
use slmdb_pmem::{Blocks, Claim, Dram, Pool, PoolOptions};
use slmdb_structures::EntryKind;
use slmdb_structures::fast_fair::{SegmentEntry, Tree, write_segment};
use slmdb_structures::hash::{
    Deletes, DramWriter, HashTable, Identity, KeyHasher, Merge, PoolBytes, Slot, SlotPlace, TableBuilder, TableBytes,
    TableOptions,
};
use slmdb_sync::epoch;

const KEY_BYTES: usize = 20;
const LOOKS: usize = 1_000_000;
const ROUNDS: usize = 5;
const SHARDS: u32 = 256;
const AHEAD: usize = 8;
/// So many keys come with a flush.
const FLUSH: usize = 100_000;
const UUID: [u8; 16] = [7; 16];

type Key = [u8; KEY_BYTES];

fn mixed(number: u64) -> u64 {
    let word = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (word ^ word >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 13
}

fn key(number: u64) -> Key {
    format!("user{number:016}").as_bytes().try_into().unwrap()
}

fn nanoseconds(start: Instant, count: usize) -> f64 {
    start.elapsed().as_nanos() as f64 / count as f64
}

/// The best of several rounds, in nanoseconds for each of so many.
fn best(count: usize, mut act: impl FnMut()) -> f64 {
    let mut once = || {
        let start = Instant::now();
        act();
        nanoseconds(start, count)
    };
    (0..ROUNDS).map(|_| once()).fold(f64::MAX, f64::min)
}

fn tell(what: &str, look_up: f64, missing: f64, insertion: f64, bytes: f64) {
    println!("{what:<40} {look_up:>8.0} {missing:>8.0} {insertion:>8.0} {bytes:>8.1}");
}

/// Look-ups of keys that are there, and of others.
fn looked(looks: &[Key], others: &[Key], has: impl Fn(&Key) -> bool) -> (f64, f64) {
    let look_up = best(looks.len(), || looks.iter().for_each(|key| assert!(black_box(has(key)))));
    let missing = best(others.len(), || others.iter().for_each(|key| assert!(!black_box(has(key)))));
    (look_up, missing)
}

fn slot(identity: &Identity, number: usize) -> Slot {
    let place =
        SlotPlace { file: 1 + (number / FLUSH) as u32, offset: (number % FLUSH) as u32 * 160, length_bytes: 160 };
    Slot::new(identity, place, false).unwrap()
}

/// Identities and slots, flush by flush, those of each in order.
fn flushes(hasher: &KeyHasher, keys: &[Key]) -> Vec<Vec<(Identity, Slot)>> {
    let slots = keys.iter().enumerate().map(|(number, key)| {
        let identity = hasher.identity(key);
        (identity, slot(&identity, number))
    });
    let mut flushes: Vec<Vec<_>> = slots.collect::<Vec<_>>().chunks(FLUSH).map(<[_]>::to_vec).collect();
    flushes.iter_mut().for_each(|flush| flush.sort_unstable_by_key(|(identity, _)| *identity));
    flushes
}

fn dram_tables(
    hasher: &KeyHasher,
    flushes: &[Vec<(Identity, Slot)>],
    looks: &[Key],
    others: &[Key],
) -> Vec<DramWriter> {
    let mut tables: Vec<_> = (0..SHARDS).map(|shard| DramWriter::new(hasher.load_percent(shard as u16), 0)).collect();
    let start = Instant::now();
    for (identity, slot) in flushes.iter().flatten() {
        black_box(tables[usize::from(identity.shard())].insert(*slot));
    }
    let keys = flushes.iter().map(Vec::len).sum::<usize>();
    let insertion = nanoseconds(start, keys);
    let readers: Vec<_> = tables.iter().map(|writer| Arc::clone(writer.table())).collect();
    let (look_up, missing) = looked(looks, others, |key| {
        let identity = hasher.identity(key);
        readers[usize::from(identity.shard())].get(&identity).is_some()
    });
    let table_of = |identity: &Identity| &readers[usize::from(identity.shard())];
    // As a get does that asks before it searches MemTables, or one of several gets.
    let mut ahead = [hasher.identity(&looks[0]); AHEAD];
    let asked = best(looks.len(), || {
        for (look, key) in looks.iter().enumerate() {
            let (identity, before) = (hasher.identity(key), ahead[look % AHEAD]);
            table_of(&identity).prefetch(&identity);
            assert!(black_box(table_of(&before).get(&before)).is_some());
            ahead[look % AHEAD] = identity;
        }
    });
    let bytes = readers.iter().map(|table| table.memory_bytes()).sum::<u64>() as f64 / keys as f64;
    tell("DRAM tables", look_up, missing, insertion, bytes);
    println!("{:<40} {asked:>8.0}", "  asked for eight keys ahead");
    let overwrite = best(keys, || {
        for (identity, slot) in flushes.iter().flatten() {
            assert!(black_box(tables[usize::from(identity.shard())].insert(*slot)).is_some());
        }
    });
    println!("{:<40} {overwrite:>26.0}", "  an overwrite");
    tables
}

fn builder(number: u32) -> TableBuilder {
    let options = TableOptions { number, uuid: UUID, level: 255, epoch: 1, shards: SHARDS, range: 0..SHARDS };
    TableBuilder::new(options).unwrap()
}

fn pool() -> Arc<Pool<Dram>> {
    let options = PoolOptions { initial_bytes: 0, growth_bytes: 64 << 20, maximum_bytes: 8 << 30, uuid: UUID };
    Arc::new(Pool::anonymous(Dram, &options).unwrap())
}

/// Writes a table of these, and opens it.
fn table(pool: &Arc<Pool<Dram>>, builder: TableBuilder) -> HashTable<PoolBytes<Dram>> {
    let finished = builder.finish().unwrap();
    let extent = finished.write_to_pool(pool, Claim::Privileged).unwrap();
    let number = finished.record().number;
    HashTable::open(PoolBytes::new(Arc::clone(pool), extent, number).unwrap(), number, UUID).unwrap()
}

#[derive(Debug)]
struct MappedFile(Arc<dyn Mapped>);

impl TableBytes for MappedFile {
    fn path(&self) -> &Path {
        Path::new("mapped")
    }

    fn length_bytes(&self) -> u64 {
        self.0.length_bytes()
    }

    fn copy(&self, at: u64, into: &mut [u8]) -> Result<()> {
        while !self.0.read_at(into, at)? {}
        Ok(())
    }
}

fn packed_tables(hasher: &KeyHasher, tables: &[DramWriter], looks: &[Key], others: &[Key]) {
    let pool = pool();
    let whole = || {
        let mut builder = builder(1);
        for (shard, writer) in (0..).zip(tables) {
            builder.begin_part(shard, hasher.load_percent(shard)).unwrap();
            writer.slots().for_each(|slot| builder.add(slot).unwrap());
        }
        builder
    };
    let start = Instant::now();
    let in_pool = table(&pool, whole());
    let keys = in_pool.record().entries as usize;
    let build = nanoseconds(start, keys);
    let bytes = in_pool.record().length_bytes as f64 / keys as f64;
    let (look_up, missing) = looked(looks, others, |key| in_pool.get(&hasher.identity(key)).unwrap().is_some());
    tell("table in the pool", look_up, missing, build, bytes);
    let path = std::env::temp_dir().join(format!("hash-speed-{}", std::process::id()));
    let file = OsEnv::new().open_file(&path, OpenMode::CreateNew).unwrap();
    file.write_at(whole().finish().unwrap().bytes(), 0).unwrap();
    if let Some(mapped) = file.map(in_pool.record().length_bytes) {
        let in_file = HashTable::open(MappedFile(mapped), 1, UUID).unwrap();
        let (look_up, missing) = looked(looks, others, |key| in_file.get(&hasher.identity(key)).unwrap().is_some());
        tell("table in a mapped file", look_up, missing, f64::NAN, bytes);
    }
    std::fs::remove_file(path).unwrap();
    // Four tables of a quarter of the keys each, and one of a twentieth of them that is newer.
    let part = |number: u32, has: &dyn Fn(usize) -> bool| {
        let mut builder = builder(number);
        for (shard, writer) in (0..).zip(tables) {
            builder.begin_part(shard, hasher.load_percent(shard)).unwrap();
            writer
                .slots()
                .enumerate()
                .filter(|(index, _)| has(*index))
                .for_each(|(_, slot)| builder.add(slot).unwrap());
        }
        table(&pool, builder)
    };
    let sources = [part(2, &|index| index % 20 == 0), part(3, &|index| index % 2 == 0), part(4, &|_| true)];
    let slots_in = sources.iter().map(|source| source.record().entries).sum::<u64>() as usize;
    let start = Instant::now();
    let mut builder = builder(7);
    let mut lost = 0;
    for shard in 0..SHARDS as u16 {
        builder.begin_part(shard, hasher.load_percent(shard)).unwrap();
        let sources = sources.iter().map(|source| -> Box<dyn Iterator<Item = _>> { Box::new(source.slots(shard)) });
        let mut merge = Merge::new(sources, Deletes::Dropped).unwrap();
        while let Some(slot) = merge.next(|_| lost += 1).unwrap() {
            builder.add(slot).unwrap();
        }
    }
    let merged = table(&pool, builder);
    println!("{:<40} {:>26.0}", "  a slot of three tables that are merged", nanoseconds(start, slots_in));
    let start = Instant::now();
    assert!(merged.verify().is_empty() && merged.record().entries as usize == keys);
    println!("{:<40} {:>26.0}", "  a slot of a table that is verified", nanoseconds(start, keys));
    let start = Instant::now();
    let mut made_again = Vec::new();
    for shard in 0..SHARDS as u16 {
        let entries = merged.entries_of(shard).unwrap();
        let mut writer = DramWriter::new(hasher.load_percent(shard), entries.into());
        merged.slots(shard).for_each(|slot| {
            black_box(writer.insert(slot.unwrap()));
        });
        made_again.push(writer);
    }
    println!("{:<40} {:>26.0}", "  a slot of a DRAM table made again", nanoseconds(start, keys));
}

fn standard_map(keys: &[Key], looks: &[Key], others: &[Key]) {
    let mut map = HashMap::new();
    let start = Instant::now();
    keys.iter().enumerate().for_each(|(number, key)| assert!(map.insert(*key, number as u64).is_none()));
    let insertion = nanoseconds(start, keys.len());
    let (look_up, missing) = looked(looks, others, |key| map.contains_key(key));
    let buckets = (map.capacity() * 8 / 7).next_power_of_two();
    let bytes = (buckets * (size_of::<(Key, u64)>() + 1)) as f64 / keys.len() as f64;
    tell("standard hash map (keys within)", look_up, missing, insertion, bytes);
}

fn fast_fair(keys: &[Key], looks: &[Key], others: &[Key]) {
    let pool = pool();
    let blocks = Arc::new(Blocks::open(Arc::clone(&pool)).unwrap());
    let tree = Tree::create(Arc::clone(&pool), blocks, 1024, KeyOrder::Bytewise).unwrap();
    let mut sorted = keys.to_vec();
    sorted.sort_unstable();
    let start = Instant::now();
    let entries = sorted.iter().map(|key| SegmentEntry {
        key,
        sequence: 1,
        kind: EntryKind::Put,
        block_offset: 1,
        block_length: 100,
    });
    let segment = write_segment(&pool, 1, entries).unwrap();
    let guard = epoch::pin();
    for (key, record) in sorted.iter().zip(segment.records(&pool, &guard)) {
        tree.insert_or_replace(key, record.unwrap().offset()).unwrap();
    }
    let insertion = nanoseconds(start, keys.len());
    let (look_up, missing) = looked(looks, others, |key| tree.get(key, &guard).unwrap().is_some());
    let bytes = (tree.node_bytes_used().unwrap() + segment.length_bytes()) as f64 / keys.len() as f64;
    tell("FAST and FAIR tree (filled in order)", look_up, missing, insertion, bytes);
}

fn main() {
    let counts: Vec<u64> = std::env::args().skip(1).filter_map(|count| count.parse().ok()).collect();
    for count in if counts.is_empty() { vec![1_000_000, 4_000_000] } else { counts } {
        let keys: Vec<Key> = (0..count).map(|number| key(mixed(number))).collect();
        // Copies, one behind another, so that finding out what to look for costs nothing.
        let looks: Vec<Key> = (0..LOOKS as u64).map(|look| keys[mixed(look) as usize % keys.len()]).collect();
        let others: Vec<Key> = (0..LOOKS as u64).map(|look| key(mixed(count + look))).collect();
        println!("\n{count} keys, ns each {:>26} {:>8} {:>8} {:>8}", "look-up", "missing", "insertion", "bytes");
        let hasher = KeyHasher::new(b"a secret of ours", SHARDS).unwrap();
        let hash = best(looks.len(), || {
            for key in &looks {
                black_box(hasher.identity(black_box(key)));
            }
        });
        println!("{:<40} {hash:>8.0}", "a hash alone");
        let flushes = flushes(&hasher, &keys);
        let tables = dram_tables(&hasher, &flushes, &looks, &others);
        drop(flushes);
        packed_tables(&hasher, &tables, &looks, &others);
        drop(tables);
        standard_map(&keys, &looks, &others);
        fast_fair(&keys, &looks, &others);
    }
}
