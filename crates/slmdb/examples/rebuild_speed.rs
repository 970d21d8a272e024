//! How fast a `Dram` store is opened: for docs/lab/2026-11-recovery.md.
//!
//! `cargo run --release -p slmdb --example rebuild_speed -- DIRECTORY [million keys]`
//!
//! Fills a new store with 20-byte keys and 8-byte values in random order, overwrites a tenth of them, and opens it again some
//! times: without a checkpoint, from the key sections of all table files; and from one that a clean close has taken.

mod support;

use std::path::Path;
use std::time::Instant;

use slmdb::Options;
use support::{key, processor_seconds};

/// Opens, and tells how long that took; ends with a clean close.
fn open(what: &str, options: &Options, directory: &Path) -> slmdb::Result<()> {
    let (start, before) = (Instant::now(), processor_seconds());
    let db = options.clone().open(directory)?;
    let (took, used) = (start.elapsed(), processor_seconds() - before);
    let stats = db.stats();
    println!(
        "{what}: {} keys in {} files, opened in {:.0} ms ({:.2} s of processors), {:.2} million keys/s, {:.1} fast-tier bytes a key",
        stats.index_keys,
        stats.table_files,
        took.as_secs_f64() * 1e3,
        used,
        stats.index_keys as f64 / took.as_secs_f64() / 1e6,
        stats.fast_tier_index_bytes_per_key
    );
    db.close()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("a directory is needed")?;
    let directory = Path::new(&directory);
    let keys: u64 = arguments.next().map_or(Ok(10), |millions| millions.parse())? * 1_000_000;
    let without = Options::default().advanced(|advanced| advanced.checkpoint_entries(u64::MAX));
    let db = without.clone().open(directory)?;
    for number in (0..keys).chain((0..keys).step_by(10)) {
        db.put(key(number), number.to_be_bytes())?;
    }
    db.flush()?;
    db.close()?;
    for _ in 0..3 {
        open("key sections", &without, directory)?;
    }
    // Its close takes a checkpoint.
    open("key sections", &Options::default().advanced(|advanced| advanced.checkpoint_entries(1 << 20)), directory)?;
    for _ in 0..3 {
        open("checkpoint", &without, directory)?;
    }
    Ok(())
}
