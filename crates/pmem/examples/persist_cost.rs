//! What a persist costs on each medium, in nanoseconds: one flush and one fence of so many bytes, at changing places of
//! 16 MiB of memory.
//!
//! ```text
//! cargo run --release -p slmdb-pmem --example persist_cost [-- DIRECTORY]
//! ```
//!
//! The pool lies in plain memory or, if a directory is named, in a file there, which tells what its file system's pages
//! cost. Each figure is the median of several short runs.
#![allow(clippy::unwrap_used, reason = "an example stops where something fails")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use slmdb_env::{Env, OsEnv};
use slmdb_pmem::{Dram, Emulation, ExtentKind, LatencyModel, Medium, Persistent, Pool, PoolOptions};

const AREA_BYTES: u64 = 16 << 20;
/// Many and short, so that the median is of runs that nobody interrupted.
const RUNS: usize = 151;
const RUN: Duration = Duration::from_micros(100);
const SIZES_BYTES: [usize; 8] = [8, 64, 256, 512, 1024, 4096, 16_384, 65_536];

fn main() {
    let directory = std::env::args_os().nth(1).map(PathBuf::from);
    println!("{:<40}{}", "ns per persist of", SIZES_BYTES.map(|bytes| format!("{bytes:>8} B")).join(""));
    print("dram", &pool(Dram, &directory));
    print("undelayed", &pool(Persistent::new(), &directory));
    for (latency_ns, model) in [(300, LatencyModel::Line), (500, LatencyModel::Line), (900, LatencyModel::Line)] {
        let emulation = Emulation { latency_ns, model, ..Emulation::default() };
        print(&format!("line, {latency_ns} ns"), &pool(Persistent::emulating(&emulation), &directory));
    }
    for (latency_ns, bandwidth) in [(300, None), (500, None), (900, None), (500, Some(2000))] {
        let emulation =
            Emulation { latency_ns, model: LatencyModel::Persist, bandwidth_megabytes_per_second: bandwidth };
        let bandwidth = bandwidth.map_or(String::new(), |megabytes| format!(", {megabytes} MB/s"));
        print(&format!("persist, {latency_ns} ns{bandwidth}"), &pool(Persistent::emulating(&emulation), &directory));
    }
}

fn pool<M: Medium>(medium: M, directory: &Option<PathBuf>) -> Pool<M> {
    let options =
        PoolOptions { initial_bytes: 2 * AREA_BYTES, growth_bytes: 0, maximum_bytes: 4 * AREA_BYTES, uuid: [7; 16] };
    match directory {
        None => Pool::anonymous(medium, &options).unwrap(),
        Some(directory) => {
            let path = directory.join(format!("persist_cost-{}.pool", std::process::id()));
            let pool = Pool::create(&OsEnv::new(), &path, medium, &options).unwrap();
            // The mapping keeps the file alive.
            OsEnv::new().remove_file(&path).unwrap();
            pool
        }
    }
}

fn print<M: Medium>(name: &str, pool: &Pool<M>) {
    let area = pool.allocate_extent(ExtentKind::Arena, AREA_BYTES, 1).unwrap();
    for (way, durably) in [("", false), (", in one call", true)] {
        let figures = SIZES_BYTES.map(|bytes| format!("{:>10.1}", median_ns(pool, area.offset, bytes, durably)));
        println!("{:<40}{}", format!("{name}{way}"), figures.join(""));
    }
}

/// One persist of so many bytes: copied and then flushed, or in one call of [`Pool::write_durably`].
fn median_ns<M: Medium>(pool: &Pool<M>, area: u64, bytes: usize, durably: bool) -> f64 {
    let source = vec![0x5a; bytes];
    let stride = (bytes as u64 + 64).next_multiple_of(64);
    let mut at = 0;
    let mut one = || {
        at = if at + stride + bytes as u64 > AREA_BYTES { 0 } else { at + stride };
        // SAFETY: the extent is ours alone.
        unsafe {
            if durably {
                pool.write_durably(area + at, &source).unwrap();
            } else {
                pool.write(area + at, &source).unwrap();
                pool.flush(area + at, bytes as u64);
            }
        }
        pool.fence();
    };
    // Every page is there, and the processor awake.
    (0..AREA_BYTES / stride + 1000).for_each(|_| one());
    let mut figures: Vec<f64> = (0..RUNS)
        .map(|_| {
            let (start, mut count) = (Instant::now(), 0);
            while start.elapsed() < RUN {
                (0..4).for_each(|_| one());
                count += 4;
            }
            start.elapsed().as_nanos() as f64 / f64::from(count)
        })
        .collect();
    figures.sort_by(f64::total_cmp);
    figures[RUNS / 2]
}
