//! Opens many stores in one process, and tells what they take: threads, memory, disk space, time to open.
//!
//!   cargo run --release -p slmdb --example many_stores [-- STORES [ENGINE]]
//!
//! First each store has its own of everything, then all share.

use std::path::Path;
use std::time::{Duration, Instant};

use slmdb::{Db, Options, Result, Shared, SharedOptions};

/// Memory for all stores together, in bytes.
const BUDGET_BYTES: u64 = 64 << 20;
/// A store that was not written to for so long has given back what was made ahead: after 20 s, and if it shares, has flushed first.
const REST: Duration = Duration::from_secs(43);

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let stores = arguments.next().map_or(300, |number| number.parse().expect("a number of stores"));
    let options = match arguments.next() {
        Some(engine) => Options::default().engine(engine.parse()?),
        None => Options::default(),
    };
    let options = options.memtable_bytes(4 << 20);
    println!("each of {stores} stores by itself:");
    measure(stores, &options.clone().memory_budget_bytes(BUDGET_BYTES / stores as u64))?;
    println!("sharing {} MiB and 2 threads for compactions:", BUDGET_BYTES >> 20);
    let shared = Shared::new(SharedOptions { memory_budget_bytes: BUDGET_BYTES, threads: 2, ..Default::default() })?;
    measure(stores, &options.shared(&shared))
}

fn measure(stores: usize, options: &Options) -> Result<()> {
    let directory = std::env::temp_dir().join(format!("slmdb-many-{}", std::process::id()));
    let result = measure_in(&directory, stores, options);
    let _ = std::fs::remove_dir_all(&directory);
    result
}

fn measure_in(directory: &Path, stores: usize, options: &Options) -> Result<()> {
    let before_bytes = memory_bytes();
    let tell = |what: &str, took: Duration| {
        let each_ms = took.as_secs_f64() * 1e3 / stores as f64;
        let each_kib = (memory_bytes().saturating_sub(before_bytes)) / 1024 / stores as u64;
        let disk_kib = disk_bytes(directory) / 1024 / stores as u64;
        let threads = threads();
        println!(
            "  {what:<24} {each_ms:>7.2} ms, {each_kib:>6} KiB of memory, {disk_kib:>6} KiB of disk each; {threads} threads"
        );
    };
    let open_all =
        || (0..stores).map(|n| options.clone().open(directory.join(n.to_string()))).collect::<Result<Vec<Db>>>();
    let timed = |what: &str, work: &mut dyn FnMut() -> Result<()>| {
        let began = Instant::now();
        work()?;
        tell(what, began.elapsed());
        Ok::<(), slmdb::Error>(())
    };
    let mut open = Vec::new();
    timed("made", &mut || open_all().map(|all| open = all))?;
    timed("closed", &mut || open.drain(..).try_for_each(Db::close))?;
    timed("opened again, empty", &mut || open_all().map(|all| open = all))?;
    std::thread::sleep(REST);
    tell("at rest", Duration::ZERO);
    timed("10,000 × 100 bytes put", &mut || {
        for number in 0..10_000_u64 {
            for db in &open {
                db.put(number.to_be_bytes(), [7; 100])?;
            }
        }
        Ok(())
    })?;
    std::thread::sleep(REST);
    tell("at rest", Duration::ZERO);
    timed("closed", &mut || open.drain(..).try_for_each(Db::close))?;
    timed("opened again", &mut || open_all().map(|all| open = all))?;
    timed("closed", &mut || open.drain(..).try_for_each(Db::close))
}

/// Memory of the process that is resident, in bytes.
fn memory_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("0");
        line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0)
    };
    of("VmRSS:") * 1024
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

/// What the files below a directory take, in bytes.
fn disk_bytes(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
    let of_entry = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => disk_bytes(&entry.path()),
        Ok(metadata) => metadata.blocks() * 512,
        Err(_) => 0,
    };
    entries.flatten().map(of_entry).sum()
}
