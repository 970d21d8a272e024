//! How long a get of a value of 100 bytes takes in Rust. `GetTime` among Java's tests measures the same through Java: the
//! difference is what crossing costs.
//!
//!     cargo run --release -p slmdb-java --example get -- DIRECTORY

use std::hint::black_box;
use std::time::Instant;

const KEYS: u32 = 1000;
const GETS: u32 = 2_000_000;
const TURNS: u32 = 7;

fn main() -> slmdb::Result<()> {
    let directory = std::env::args_os().nth(1).unwrap_or_else(|| {
        eprintln!("usage: get DIRECTORY");
        std::process::exit(2)
    });
    let db = slmdb::Db::open(directory)?;
    let keys: Vec<[u8; 16]> = (0..KEYS).map(|number| u128::from(number).to_be_bytes()).collect();
    for key in &keys {
        db.put(key, [7; 100])?;
    }
    let mut best = f64::INFINITY;
    for _ in 0..TURNS {
        let start = Instant::now();
        for number in 0..GETS {
            black_box(db.get(black_box(&keys[(number % KEYS) as usize]))?);
        }
        best = best.min(start.elapsed().as_nanos() as f64 / f64::from(GETS));
    }
    println!("a get of 100 bytes in Rust: {best:.0} ns, the best of {TURNS} turns");
    db.close()
}
