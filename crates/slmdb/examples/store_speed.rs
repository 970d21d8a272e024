//! How fast a store fills and reads: for docs/lab/2026-11-media-and-arenas.md. (Comparisons with other stores are not here.)
//!
//! `cargo run --release -p slmdb --example store_speed -- DIRECTORY [POOL] [keys=N] [value=BYTES] [threads=N] [latency=NS]
//! [model=line|persist] [links=rebuilt|persisted] [keep]`
//!
//! Fills a new store with 20-byte keys in random order, each once, flushes it, reads keys at random, and tells rates, the
//! longest pauses and what `stats` says of the fast tier. With `keep` it ends without closing the store, as a kill would, and a
//! second process opens it.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use slmdb::{Db, Emulation, LatencyModel, LinkPolicy, Medium, Options};

/// What the command line asks for.
struct Plan {
    keys: u64,
    value_bytes: usize,
    threads: u64,
    options: Options,
}

fn plan(arguments: &[String]) -> Result<Plan, Box<dyn std::error::Error>> {
    let mut plan = Plan { keys: 1_000_000, value_bytes: 1024, threads: 1, options: Options::default() };
    let mut emulation = Emulation::default();
    for argument in arguments {
        match argument.split_once('=') {
            Some(("keys", count)) => plan.keys = count.parse()?,
            Some(("value", bytes)) => plan.value_bytes = bytes.parse()?,
            Some(("threads", count)) => plan.threads = count.parse()?,
            Some(("latency", ns)) => emulation.latency_ns = ns.parse()?,
            Some(("model", "persist")) => emulation.model = LatencyModel::Persist,
            Some(("model", _)) => emulation.model = LatencyModel::Line,
            Some(("links", "persisted")) => {
                plan.options = plan.options.advanced(|advanced| advanced.memtable_links(LinkPolicy::Persisted))
            }
            Some(("links", _)) | None => {}
            Some((what, _)) => return Err(format!("{what}= is not known").into()),
        }
    }
    plan.options = plan.options.advanced(|advanced| advanced.emulation(emulation));
    Ok(plan)
}

/// Each number below `count` once, in an order that looks random.
fn scattered(number: u64, count: u64) -> u64 {
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15 | 1) >> 20) % count.max(1)
}

fn key(number: u64) -> [u8; 20] {
    let mut key = [b'k'; 20];
    key[..16].copy_from_slice(format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).as_bytes());
    key
}

fn fill(db: &Db, plan: &Plan) -> slmdb::Result<Vec<u64>> {
    let value: Vec<u8> = (0..plan.value_bytes as u64).map(|at| scattered(at, 251) as u8).collect();
    let next = AtomicU64::new(0);
    let times = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..plan.threads)
            .map(|_| {
                scope.spawn(|| -> slmdb::Result<Vec<u64>> {
                    let mut times_ns = Vec::new();
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= plan.keys {
                            return Ok(times_ns);
                        }
                        let start = Instant::now();
                        db.put(key(number), &value)?;
                        times_ns.push(start.elapsed().as_nanos() as u64);
                    }
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().expect("no writer panics")).collect::<slmdb::Result<Vec<_>>>()
    })?;
    let mut times = times.concat();
    times.sort_unstable();
    Ok(times)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let directory = arguments.first().ok_or("name a directory for the store")?;
    let pool = arguments.get(1).filter(|argument| !argument.contains('=') && *argument != "keep");
    let mut plan = plan(&arguments[1 + usize::from(pool.is_some())..])?;
    if let Some(path) = pool {
        plan.options = plan.options.medium(Medium::Emulated { path: path.into() });
    }
    if Path::new(directory).join("MANIFEST").exists() {
        let start = Instant::now();
        let db = plan.options.open(directory)?;
        let stats = db.stats();
        let keys = stats.index_keys + stats.memtable_entries;
        println!("open: {keys} keys in {:.0} ms", start.elapsed().as_secs_f64() * 1e3);
        return Ok(());
    }
    let db = plan.options.open(directory)?;

    let start = Instant::now();
    let times_ns = fill(&db, &plan)?;
    let seconds = start.elapsed().as_secs_f64();
    let quantile = |part: f64| times_ns[((times_ns.len() - 1) as f64 * part) as usize] as f64 / 1e3;
    println!(
        "fill: {:.0} puts/s; median {:.1}, 99 % {:.1}, 99.9 % {:.1}, longest {:.0} us",
        plan.keys as f64 / seconds,
        quantile(0.5),
        quantile(0.99),
        quantile(0.999),
        quantile(1.0)
    );
    println!("waits: {:?}", db.stats().stalls);
    let start = Instant::now();
    db.flush()?;
    println!("flush: {:.2} s", start.elapsed().as_secs_f64());

    let reads = plan.keys.min(500_000);
    for round in ["first", "second"] {
        let start = Instant::now();
        for number in 0..reads {
            let found = db.get(key(scattered(number, plan.keys)))?;
            assert_eq!(found.map(|value| value.len()), Some(plan.value_bytes));
        }
        println!("read ({round}): {:.0} gets/s", reads as f64 / start.elapsed().as_secs_f64());
    }
    let stats = db.stats();
    println!(
        "fast tier: {:.1} bytes of index a key (nodes {:.1}, key segments {:.1}); {:.2} persists, {:.1} lines, {:.0} media \
         bytes a put; {:.3} bytes written to files per byte put",
        stats.fast_tier_index_bytes_per_key,
        stats.fast_tier_node_bytes as f64 / plan.keys as f64,
        stats.fast_tier_key_segment_bytes as f64 / plan.keys as f64,
        stats.since_open.persists as f64 / plan.keys as f64,
        stats.since_open.lines_flushed as f64 / plan.keys as f64,
        stats.since_open.media_bytes as f64 / plan.keys as f64,
        stats.since_open.file_bytes_written as f64 / stats.since_open.user_bytes_put as f64,
    );
    if arguments.iter().any(|argument| argument == "keep") {
        std::process::abort();
    }
    db.close()?;
    Ok(())
}
