//! Deletes a range of a million keys, and tells how long the call takes, a scan before and after the flush, and the flush.
//!
//!   cargo run --release -p slmdb --example range_deletes [-- KEYS [ENGINE]]

use std::time::{Duration, Instant};

use slmdb::{Db, Options, Result, WriteBatch};

const BATCH: u64 = 1000;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let keys: u64 = arguments.next().map_or(1_000_000, |number| number.parse().expect("a number of keys"));
    let options = match arguments.next() {
        Some(engine) => Options::default().engine(engine.parse()?),
        None => Options::default(),
    };
    let directory = std::env::temp_dir().join(format!("slmdb-ranges-{}", std::process::id()));
    let db = options.open(&directory)?;
    let measured = measure(&db, keys);
    let closed = db.close();
    let _ = std::fs::remove_dir_all(&directory);
    measured.and(closed)
}

fn measure(db: &Db, keys: u64) -> Result<()> {
    fill(db, keys)?;
    println!("{keys} keys of 16 bytes with values of 100:");
    let scan = || db.range::<&[u8]>(..).map(|all| all.keys_only().count());
    tell("a scan of all keys", keys, || scan().map(drop))?;
    tell("delete_range of all but the first and the last", 1, || db.delete_range(key(1)..key(keys - 1)))?;
    tell("a scan over what is hidden", keys, || scan().map(|found| assert_eq!(found, 2)))?;
    tell("a second one", keys, || scan().map(|found| assert_eq!(found, 2)))?;
    let before = db.stats().since_open;
    tell("the flush", keys, || db.flush())?;
    let after = db.stats().since_open;
    println!(
        "  {} flushes, {} bytes written",
        after.flushes - before.flushes,
        after.file_bytes_written - before.file_bytes_written
    );
    tell("a scan after that", keys, || scan().map(|found| assert_eq!(found, 2)))?;
    fill(db, keys)?;
    tell("single deletes, in batches of 1,000", keys, || {
        for from in (1..keys - 1).step_by(BATCH as usize) {
            let mut batch = WriteBatch::new();
            (from..(from + BATCH).min(keys - 1)).try_for_each(|number| batch.delete(key(number)))?;
            db.write(&batch)?;
        }
        Ok(())
    })?;
    tell("their flush", keys, || db.flush())
}

fn fill(db: &Db, keys: u64) -> Result<()> {
    for from in (0..keys).step_by(BATCH as usize) {
        let mut batch = WriteBatch::new();
        (from..(from + BATCH).min(keys)).try_for_each(|number| batch.put(key(number), [7; 100]))?;
        db.write(&batch)?;
    }
    db.flush()
}

fn key(number: u64) -> String {
    format!("key {number:012}")
}

fn tell(what: &str, times: u64, work: impl FnOnce() -> Result<()>) -> Result<()> {
    let began = Instant::now();
    work()?;
    let took: Duration = began.elapsed();
    println!(
        "  {what:<48} {:>10.3} ms, {:>8.0} ns each",
        took.as_secs_f64() * 1e3,
        took.as_secs_f64() * 1e9 / times as f64
    );
    Ok(())
}
