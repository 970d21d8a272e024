//! How long a store takes to open whose MemTables are full of tiny records: for docs/lab/2026-11-recovery.md.
//!
//! `cargo run --release -p slmdb --example open_speed -- DIRECTORY [POOL] [entries a batch [open]]`
//!
//! Writes into a new store of default options until it has nearly three full MemTables, ends the process without
//! closing it, and opens it again in a second process. With `open`, only that: of a store that was filled and not closed.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use slmdb::{Medium, Options, WriteBatch};

const ARENA_BYTES: u64 = 64 << 20;
/// A MemTable takes so many entries at most, however small they are.
const ENTRIES_MAX: u64 = ARENA_BYTES / 256;

fn options(pool: &str) -> Options {
    match pool {
        "" => Options::default(),
        path => Options::default().medium(Medium::Emulated { path: path.into() }),
    }
}

/// Writes faster than it is flushed, until there are three full MemTables, or nearly; ends without a goodbye.
fn fill(directory: &Path, pool: &str, batch_entries: u64) -> slmdb::Result<()> {
    let db = options(pool).immutable_memtables_max(20).open(directory)?;
    let mut batch = WriteBatch::new();
    for number in 0..8 * ENTRIES_MAX / batch_entries {
        batch.clear();
        for number in (0..batch_entries).map(|entry| number * batch_entries + entry) {
            let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
            batch.put(if batch_entries == 1 { &key[..] } else { &key[..4] }, "")?;
        }
        db.write(&batch)?;
        if number * batch_entries % (1 << 14) < batch_entries {
            let stats = db.stats();
            let is_full = stats.memtable_bytes > 3 * ARENA_BYTES - (1 << 20);
            if is_full || stats.memtable_entries + (1 << 17) > 3 * ENTRIES_MAX {
                break;
            }
        }
    }
    let stats = db.stats();
    println!("{} entries in {} MemTables at the end", stats.memtable_entries, stats.immutable_memtables + 1);
    std::process::abort();
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let argument = |at: usize| arguments.get(at).map_or("", String::as_str);
    let (directory, pool) = (Path::new(argument(1)), argument(2));
    let batch_entries = argument(3).parse().unwrap_or(1);
    if argument(4) == "fill" {
        return Ok(fill(directory, pool, batch_entries)?);
    }
    if argument(4) != "open" {
        let program = std::env::current_exe()?;
        let ended = Command::new(program).args([argument(1), pool, &batch_entries.to_string(), "fill"]).status()?;
        assert!(ended.code().is_none(), "the writer ended by itself: {ended}");
    }
    let start = Instant::now();
    let db = options(pool).open(directory)?;
    let took = start.elapsed();
    let stats = db.stats();
    let (entries, keys) = (stats.memtable_entries, stats.index_keys);
    println!("{entries} entries in MemTables, {keys} keys in the index, opened in {:.0} ms", took.as_secs_f64() * 1e3);
    Ok(())
}
