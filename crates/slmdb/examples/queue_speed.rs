//! How fast a store is as a queue and as a stack, when much was deleted before.
//!
//! `cargo run --release -p slmdb --example queue_speed -- DIRECTORY [slm|lab] [deletes]`
//!
//! Makes a store in DIRECTORY for each, puts keys in order, and deletes all but ten at the end from which entries are
//! taken. Then it times how long the first entry takes, three times, and for 2 s how many entries are put and taken. It does
//! the same with a second thread that puts keys elsewhere.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use slmdb::{Db, Options};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const LEFT: u64 = 10;

fn key(number: u64) -> String {
    format!("q{number:010}")
}

/// Puts and takes entries for 2 s; returns how many a second.
fn put_and_take(db: &Db, is_queue: bool, from: u64, to: u64) -> Result<f64, Failure> {
    let (mut from, mut to, start, mut taken) = (from, to, Instant::now(), 0);
    while start.elapsed() < Duration::from_secs(2) {
        db.put(key(to), [7; 100])?;
        to += 1;
        let mut range = db.range(key(0)..key(u64::MAX))?.keys_only();
        let found = if is_queue { range.next() } else { range.next_back() }.ok_or("no entry")??;
        let wanted = if is_queue { from } else { to - 1 };
        assert_eq!(&found[..], key(wanted).as_bytes());
        db.delete(&found)?;
        if is_queue {
            from += 1
        } else {
            to -= 1
        }
        taken += 1;
    }
    Ok(f64::from(taken) / start.elapsed().as_secs_f64())
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let directory = Path::new(arguments.first().ok_or("name a directory for the stores")?);
    let engine = arguments.get(1).map_or("slm", String::as_str);
    let deletes: u64 = arguments.get(2).map_or(Ok(300_000), |number| number.parse())?;
    for (is_queue, is_flushed) in [(true, false), (true, true), (false, false), (false, true)] {
        let name = format!(
            "{engine}, {}{}",
            if is_queue { "queue" } else { "stack" },
            if is_flushed { ", flushed" } else { "" }
        );
        let db = Options::default().engine(engine.parse()?).open(directory.join(&name))?;
        (0..deletes + LEFT).try_for_each(|number| db.put(key(number), [7; 100]))?;
        let (deleted, from, to) =
            if is_queue { (0..deletes, deletes, deletes + LEFT) } else { (LEFT..deletes + LEFT, 0, LEFT) };
        deleted.into_iter().try_for_each(|number| db.delete(key(number)))?;
        if is_flushed {
            db.flush()?;
        }
        let mut firsts = Vec::new();
        for _ in 0..3 {
            let (start, mut range) = (Instant::now(), db.range::<&str>(..)?.keys_only());
            let first = if is_queue { range.next() } else { range.next_back() };
            assert!(first.is_some());
            firsts.push(format!("{:.3} ms", start.elapsed().as_secs_f64() * 1e3));
        }
        let alone = put_and_take(&db, is_queue, from, to)?;
        let to = db.range::<&str>(..)?.keys_only().next_back().ok_or("no entry")??;
        let from = db.range::<&str>(..)?.keys_only().next().ok_or("no entry")??;
        let number = |key: &[u8]| String::from_utf8_lossy(&key[1..]).parse::<u64>();
        let (from, to, is_done) = (number(&from)?, number(&to)? + 1, AtomicBool::new(false));
        let beside = std::thread::scope(|scope| {
            scope.spawn(|| {
                (0..).take_while(|_| !is_done.load(Ordering::Relaxed)).try_for_each(|number: u64| {
                    std::thread::sleep(Duration::from_micros(100));
                    db.put(format!("other{number}"), [7; 100])
                })
            });
            let beside = put_and_take(&db, is_queue, from, to);
            is_done.store(true, Ordering::Relaxed);
            beside
        })?;
        println!(
            "{name}: first {}; put and taken a second: {alone:.0}, beside a writer {beside:.0}",
            firsts.join(", ")
        );
    }
    Ok(())
}
