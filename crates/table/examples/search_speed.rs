//! How large files are that are searched by key, and how fast they are searched on this machine:
//! `cargo run --release --example search_speed -p slmdb-table`.
//!
//! One thread's processor time, files in memory, chunks and blocks kept once they were read. Values are half compressible.

use std::cell::RefCell;
use std::collections::HashMap;
use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use slmdb_env::Env;
use slmdb_env::memory::MemoryEnv;
use slmdb_table::{
    Block, Compression, EntryKind, IndexChunk, Place, TableBuilder, TableCursor, TableForm, TableOptions, TableParts,
    TableReader,
};

const UUID: [u8; 16] = *b"0123456789abcdef";
const RAW_BYTES: usize = 64 << 20;
const LOOKS: usize = 1_000_000;

/// The thread's time on a processor, in seconds: other work on the machine is not in it. Linux tells it.
fn processor_s() -> Result<f64, Box<dyn Error>> {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let ns: f64 = told.split_whitespace().next().ok_or("no time is told")?.parse()?;
    Ok(ns / 1e9)
}

/// Every second number is a key.
fn key(number: usize) -> [u8; 20] {
    let mut key = *b"user0000000000000000";
    let mut digits = number;
    for digit in key[4..].iter_mut().rev() {
        *digit = b'0' + (digits % 10) as u8;
        digits /= 10;
    }
    key
}

fn half_compressible(length: usize) -> Vec<u8> {
    let mut bytes = vec![b'v'; length];
    let mut noise = vec![0; length];
    MemoryEnv::new().random_bytes(&mut noise);
    for (some, noise) in bytes.chunks_mut(16).zip(noise.chunks(16)).step_by(2) {
        some.copy_from_slice(noise);
    }
    bytes
}

/// What was read once stays.
struct Kept<'a> {
    table: &'a TableReader,
    chunks: RefCell<HashMap<u32, IndexChunk>>,
    blocks: RefCell<HashMap<u32, Block>>,
}

impl TableParts for &Kept<'_> {
    fn chunk(&self, place: Place) -> slmdb_env::Result<IndexChunk> {
        if let Some(chunk) = self.chunks.borrow().get(&place.offset) {
            return Ok(chunk.clone());
        }
        let chunk = self.table.read_index_chunk(place)?;
        self.chunks.borrow_mut().insert(place.offset, chunk.clone());
        Ok(chunk)
    }

    fn block(&self, place: Place) -> slmdb_env::Result<Block> {
        if let Some(block) = self.blocks.borrow().get(&place.offset) {
            return Ok(block.clone());
        }
        let block = self.table.read_block(place)?;
        self.blocks.borrow_mut().insert(place.offset, block.clone());
        Ok(block)
    }
}

fn build(
    env: &MemoryEnv,
    path: &str,
    entries: usize,
    pool: &[u8],
    value_bytes: usize,
    options: TableOptions,
) -> slmdb_env::Result<u64> {
    let mut builder = TableBuilder::new(env, Path::new(path), 1, UUID, options)?;
    for number in 0..entries {
        let sequence = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let at = number * 977 % (pool.len() - value_bytes);
        builder.add(&key(2 * number), sequence, EntryKind::Put, &pool[at..at + value_bytes])?;
    }
    Ok(builder.finish()?.length_bytes)
}

/// The best of three rounds, in nanoseconds a look; the first one reads everything.
fn look_ns(table: &TableReader, kept: &Kept<'_>, entries: usize, odd: usize) -> Result<f64, Box<dyn Error>> {
    let mut ns = f64::INFINITY;
    for _ in 0..3 {
        let start = processor_s()?;
        for look in 0..LOOKS {
            let number = look.wrapping_mul(0x9e37_79b9_7f4a_7c15) % entries;
            black_box(table.find(&key(2 * number + odd), u64::MAX, &kept)?);
        }
        ns = f64::min(ns, (processor_s()? - start) * 1e9 / LOOKS as f64);
    }
    Ok(ns)
}

fn main() -> Result<(), Box<dyn Error>> {
    let pool = half_compressible(4 << 20);
    println!(
        "value  compression  by place MB  by key MB  index %  build MB/s  hit ns  miss ns  cursor ns  scan ns  reader B"
    );
    for value_bytes in [100, 1024] {
        for compression in [Compression::None, Compression::Lz4] {
            let env = MemoryEnv::new();
            let entries = RAW_BYTES / (20 + value_bytes);
            let by_place = TableOptions { compression, ..TableOptions::default() };
            let by_key = TableOptions { form: TableForm::LEVELS, ..by_place };
            let place_bytes = build(&env, "/place", entries, &pool, value_bytes, by_place)?;
            let start = processor_s()?;
            let key_bytes = build(&env, "/key", entries, &pool, value_bytes, by_key)?;
            let build_s = processor_s()? - start;
            let table = Arc::new(TableReader::open(&env, Path::new("/key"), 1, UUID)?);
            let kept = Kept { table: &table, chunks: RefCell::default(), blocks: RefCell::default() };
            let hit_ns = look_ns(&table, &kept, entries, 0)?;
            let miss_ns = look_ns(&table, &kept, entries, 1)?;
            let start = processor_s()?;
            let mut cursor = TableCursor::new(&table, &kept)?;
            cursor.seek_first()?;
            while cursor.valid() {
                black_box(cursor.value().len());
                cursor.next()?;
            }
            let cursor_ns = (processor_s()? - start) * 1e9 / entries as f64;
            let start = processor_s()?;
            let mut scan = table.scan(512 << 10)?;
            while scan.advance()? {
                black_box(scan.value().len());
            }
            let scan_ns = (processor_s()? - start) * 1e9 / entries as f64;
            let (mb, properties) = (|bytes: u64| bytes as f64 / 1e6, table.properties());
            println!(
                "{value_bytes:5}  {:11}  {:11.2}  {:9.2}  {:7.2}  {:10.0}  {hit_ns:6.0}  {miss_ns:7.0}  {cursor_ns:9.0}  {scan_ns:7.0}  {:8}",
                format!("{compression:?}"),
                mb(place_bytes),
                mb(key_bytes),
                100.0 * (key_bytes - properties.data_bytes) as f64 / key_bytes as f64,
                mb(RAW_BYTES as u64) / build_s,
                table.memory_bytes(),
            );
        }
    }
    Ok(())
}
