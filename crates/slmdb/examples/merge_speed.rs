//! How fast table files are merged, and what of a store is in memory meanwhile: for docs/lab/2026-11-compaction.md.
//!
//! `cargo run --release -p slmdb --example merge_speed -- DIRECTORY [thousand keys] [value bytes] [times]`
//!
//! Fills a new store with 20-byte keys in random order, without compactions, overwrites half of them and compacts all of it,
//! again and again.

mod support;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use slmdb::{CompactionOptions, CompactionPolicy, Options};
use support::{key, processor_seconds};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("a directory is needed")?;
    let mut number = |default: u64| arguments.next().map_or(Ok(default), |argument| argument.parse::<u64>());
    let (keys, value_bytes, times) = (number(500)? * 1000, number(100)? as usize, number(5)?);
    let policy = CompactionPolicy::Manual;
    let compaction = CompactionOptions { policy, table_file_bytes: 4 << 20, ..Default::default() };
    let options = Options::default().compaction(compaction).memtable_bytes(4 << 20);
    let db = options.error_if_exists(true).open(Path::new(&directory))?;
    let value = vec![b'v'; value_bytes];
    for number in 0..keys {
        db.put(key(number), &value)?;
    }
    for _ in 0..times {
        for number in (0..keys).step_by(2) {
            db.put(key(number), &value)?;
        }
        db.flush()?;
        let (files, start, before) = (db.stats().table_files, Instant::now(), processor_seconds());
        let (ended, most_bytes) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    most_bytes.fetch_max(db.stats().memory.background_bytes, Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(5));
                }
            });
            let compacted = db.compact_range::<&[u8]>(..);
            ended.store(true, Ordering::Relaxed);
            compacted
        })?;
        let (took, used) = (start.elapsed(), processor_seconds() - before);
        println!(
            "{files} files of {keys} keys merged in {:.0} ms ({used:.2} s of processors, {:.0} ns a key); at most {:.1} MiB in \
             memory for it",
            took.as_secs_f64() * 1e3,
            used * 1e9 / (keys + keys / 2) as f64,
            most_bytes.into_inner() as f64 / f64::from(1 << 20),
        );
    }
    db.close()?;
    Ok(())
}
