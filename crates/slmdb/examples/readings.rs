//! Readings of sensors, in order of time: ranges in both directions, and old readings that go together with their space.
//!
//! `cargo run -p slmdb --example readings -- DIRECTORY`

use std::error::Error;

use slmdb::{Db, WriteBatch};

const SENSORS: [&str; 2] = ["cellar", "roof"];
const MINUTES: u64 = 10_000;

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args().nth(1).ok_or("usage: readings DIRECTORY")?;
    let db = Db::open(directory)?;
    for minute in 0..MINUTES {
        let mut batch = WriteBatch::new();
        for sensor in SENSORS {
            let degrees = 8.0 + (minute % 1440) as f64 / 144.0;
            batch.put(key(sensor, minute), format!("{degrees:.1}"))?;
        }
        db.write(&batch)?;
    }

    println!("the newest of the roof:");
    for entry in db.prefix("roof/")?.rev().take(3) {
        print(entry?);
    }
    println!("an hour of the cellar, every quarter:");
    for entry in db.range(key("cellar", 600)..key("cellar", 660))?.step_by(15) {
        print(entry?);
    }

    let oldest_kept = MINUTES - 1440;
    for sensor in SENSORS {
        let mut batch = WriteBatch::new();
        for entry in db.range(key(sensor, 0)..key(sensor, oldest_kept))? {
            batch.delete(&entry?.0)?;
        }
        db.write(&batch)?;
        // Gives the space back now. Without it compaction does, in time.
        db.compact_range(key(sensor, 0)..key(sensor, oldest_kept))?;
    }
    println!("{} readings are left, in {} bytes of table files", db.iter()?.count(), db.stats().table_bytes);
    db.close()?;
    Ok(())
}

/// Readings of one sensor stand in the order of their times: numbers of equal length are in order as text, too.
fn key(sensor: &str, minute: u64) -> String {
    format!("{sensor}/{minute:010}")
}

fn print((key, value): (impl AsRef<[u8]>, impl AsRef<[u8]>)) {
    println!("  {} {}", String::from_utf8_lossy(key.as_ref()), String::from_utf8_lossy(value.as_ref()));
}
