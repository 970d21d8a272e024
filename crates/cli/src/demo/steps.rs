//! What is shown on one store: writing, reading, a range, deletes, closing and opening again.

use std::time::Instant;

use slmdb::{Db, Slice};

use super::media::Stage;
use super::report::{Report, wrong};
use super::workload::{KEY_BYTES, VALUE_BYTES, fill_value, in_key_order, key, shuffled};
use crate::failure::Result;
use crate::units::{bytes, count};

/// Runs all of them on a new store with `keys` keys.
pub fn run(report: &mut Report, stage: &Stage, keys: u64) -> Result<()> {
    let db = stage.options().open(stage.directory())?;
    write(report, &db, keys)?;
    read(report, &db, keys)?;
    let ordered = in_key_order(keys);
    let (first, last) = (ordered.len() / 3, ordered.len() / 3 + ordered.len().div_ceil(300));
    range(report, &db, &ordered, first, last)?;
    delete(report, &db, &ordered[first..last])?;
    let left: Vec<u64> = [&ordered[..first], &ordered[last..]].concat();
    reopen(report, db, stage, &left)
}

/// Puts every key by itself, then has the rest of the MemTables written, so that costs are complete.
fn write(report: &mut Report, db: &Db, keys: u64) -> Result<()> {
    let mut value = Vec::new();
    let started = Instant::now();
    for number in 0..keys {
        fill_value(&mut value, number);
        db.put(key(number), &value)?;
    }
    let elapsed = started.elapsed();
    let user_bytes = keys * (KEY_BYTES + VALUE_BYTES) as u64;
    let megabytes = crate::units::megabytes_per_second(user_bytes, elapsed);
    let what = format!("{} puts, one by one, in no order ({megabytes:.0} MB/s)", count(keys));
    report.timed("write", &what, Some(keys), elapsed)?;

    let started = Instant::now();
    db.flush()?;
    let stats = db.stats();
    let what =
        format!("the rest of it into table files: now {}, {}", count(stats.table_files), bytes(stats.table_bytes));
    report.timed("flush", &what, None, started.elapsed())?;
    if stats.index_keys != keys {
        return Err(wrong(format!("the index holds {} keys instead of {keys}", stats.index_keys)));
    }
    let per_byte = stats.since_open.file_bytes_written as f64 / stats.since_open.user_bytes_put.max(1) as f64;
    let per_key = stats.fast_tier_index_bytes_per_key;
    report
        .step("costs", &format!("{per_byte:.2} bytes written to files per byte put; {per_key:.1} index bytes per key"))
}

/// Gets every key in another order than it was put, and compares.
fn read(report: &mut Report, db: &Db, keys: u64) -> Result<()> {
    let mut value = Vec::new();
    let started = Instant::now();
    for number in shuffled(keys) {
        fill_value(&mut value, number);
        match db.get(key(number))? {
            Some(found) if *found == *value => {}
            Some(_) => return Err(wrong(format!("get of {} gave another value than was put", key(number)))),
            None => return Err(wrong(format!("get of {} found nothing", key(number)))),
        }
    }
    report.timed(
        "read",
        &format!("{} gets, in another order; every value right", count(keys)),
        Some(keys),
        started.elapsed(),
    )
}

/// Reads a range both ways, and compares.
fn range(report: &mut Report, db: &Db, ordered: &[u64], first: usize, last: usize) -> Result<()> {
    let (from, to) = (key(ordered[first]), key(ordered[last]));
    let started = Instant::now();
    compare(db.range(from.as_bytes()..to.as_bytes())?, ordered[first..last].iter())?;
    compare(db.range(from.as_bytes()..to.as_bytes())?.rev(), ordered[first..last].iter().rev())?;
    let elapsed = started.elapsed();
    let keys = (last - first) as u64;
    let what = format!("{} keys from the middle, forwards and backwards; all right", count(keys));
    report.timed("range", &what, Some(2 * keys), elapsed)
}

/// Deletes some keys and looks for them.
fn delete(report: &mut Report, db: &Db, numbers: &[u64]) -> Result<()> {
    let started = Instant::now();
    for &number in numbers {
        db.delete(key(number))?;
    }
    let elapsed = started.elapsed();
    for &number in numbers {
        if db.get(key(number))?.is_some() {
            return Err(wrong(format!("{} was deleted and is still there", key(number))));
        }
    }
    let deleted = numbers.len() as u64;
    report.timed(
        "delete",
        &format!("{} of those keys deleted; none is found any more", count(deleted)),
        Some(deleted),
        elapsed,
    )
}

/// Closes, opens again, and goes through everything that must be left.
fn reopen(report: &mut Report, db: Db, stage: &Stage, left: &[u64]) -> Result<()> {
    let started = Instant::now();
    db.close()?;
    let db = stage.options().open(stage.directory())?;
    let reopened = started.elapsed();
    let started = Instant::now();
    compare(db.range::<&[u8]>(..)?, left.iter())?;
    let keys = left.len() as u64;
    let what =
        format!("closed and opened in {:.2} s; scan of the {} left: all right", reopened.as_secs_f64(), count(keys));
    report.timed("reopen", &what, Some(keys), started.elapsed())?;
    db.close()?;
    Ok(())
}

/// Compares what a store gives with the numbers it should be made of, to the end of both.
pub fn compare<'n>(
    found: impl Iterator<Item = slmdb::Result<(Slice, Slice)>>,
    expected: impl Iterator<Item = &'n u64>,
) -> Result<()> {
    let mut value = Vec::new();
    let mut expected = expected.copied();
    for pair in found {
        let (found_key, found_value) = pair?;
        let shown = || crate::bytes::escape(&found_key);
        let Some(number) = expected.next() else {
            return Err(wrong(format!("the key {} is there, and should not be", shown())));
        };
        if *found_key != *key(number).as_bytes() {
            return Err(wrong(format!("the key {} is where {} should be", shown(), key(number))));
        }
        fill_value(&mut value, number);
        if *found_value != *value {
            return Err(wrong(format!("{} has another value than was put", shown())));
        }
    }
    match expected.next() {
        None => Ok(()),
        Some(number) => Err(wrong(format!("{} is missing, and all after it", key(number)))),
    }
}
