//! What it costs range queries to be watched for their degree of sequentiality: for docs/internals/compaction.md.
//!
//! `cargo run --release -p slmdb --example range_speed -- DIRECTORY [keys of a query]`
//!
//! Fills a store in DIRECTORY with 200,000 keys in random order, in several files, all of which fit in the cache; then times
//! range queries with watching on and off, by turns. Nothing is compacted meanwhile.

use std::time::Instant;

use slmdb::{CompactionOptions, CompactionPolicy, Options};

const KEYS: u64 = 200_000;
const QUERIES: u64 = 20_000;

fn key(number: u64) -> [u8; 20] {
    let mut key = [b'k'; 20];
    key[12..].copy_from_slice(&number.to_be_bytes());
    key
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let directory = arguments.first().ok_or("name a directory for the store")?;
    let length: usize = arguments.get(1).map_or(Ok(30), |number| number.parse())?;
    let open = |range_queries| {
        let compaction = CompactionOptions {
            policy: CompactionPolicy::Paper,
            range_queries,
            // Watched, but merging nothing.
            files_merged_max: 1,
            live_key_ratio: false,
            leaf_node_scans: false,
            ..CompactionOptions::default()
        };
        Options::default().memtable_bytes(4 << 20).compaction(compaction).open(directory)
    };
    let db = open(false)?;
    for number in 0..KEYS {
        db.put(key(number.wrapping_mul(77_773) % KEYS), [7; 100])?;
    }
    db.flush()?;
    drop(db);
    for range_queries in [true, false, true, false, true, false] {
        let db = open(range_queries)?;
        let query = |from: u64| db.range(key(from)..).map(|range| range.take(length).filter_map(Result::ok).count());
        (0..KEYS).step_by(length).try_for_each(|from| query(from).map(drop))?;
        let start = Instant::now();
        for number in 0..QUERIES {
            query(number.wrapping_mul(7919) % KEYS)?;
        }
        let each_ns = start.elapsed().as_nanos() as f64 / QUERIES as f64;
        let stats = db.stats();
        let (files, candidates) = (stats.table_files, stats.choices.candidates);
        println!(
            "watched: {range_queries:5}; {each_ns:.0} ns a query of {length}; {files} files, {candidates} candidates"
        );
    }
    Ok(())
}
