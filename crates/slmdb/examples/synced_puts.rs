//! What synced puts take: for docs/lab/2026-11-synced-puts.md.
//!
//! `cargo run --release -p slmdb --example synced_puts -- DIRECTORY [puts=N] [value=BYTES] [writers=N] [every=N] [opened=synced|unsynced]
//! [rounds=N] [memtable=MIB]`
//!
//! Fills a new store with 20-byte keys in random order and values that can't be compressed. Each writer syncs every `every`th of its
//! puts; the others are not synced. `opened=synced` opens the store with `Options::sync`, which tells it beforehand. For each round it
//! tells the rate, how long puts took, and what went to the device for each byte put: of the whole device, by the kernel's count, from
//! the sync of the file system before to the one after.

mod support;

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Instant;

use slmdb::{CompactionPolicy, Db, Options, WriteOptions};
use support::{key, processor_seconds};

/// Values are pieces of as many bytes.
const NOISE_BYTES: usize = 4 << 20;
/// The kernel counts a device's traffic in these.
const SECTOR_BYTES: u64 = 512;
const KEY_BYTES: u64 = 20;

/// What the command line asks for.
struct Plan {
    puts: u64,
    value_bytes: usize,
    writers: u64,
    every: u64,
    rounds: u64,
    opened_synced: bool,
    options: Options,
}

fn plan(arguments: &[String]) -> Result<Plan, Box<dyn std::error::Error>> {
    let compaction = slmdb::CompactionOptions { policy: CompactionPolicy::Manual, ..Default::default() };
    let options = Options::default().compaction(compaction).compression(slmdb::Compression::None);
    let mut plan =
        Plan { puts: 20_000, value_bytes: 1024, writers: 1, every: 1, rounds: 1, opened_synced: true, options };
    for argument in arguments {
        let (what, value) = argument.split_once('=').ok_or("arguments have the form what=value")?;
        match what {
            "puts" => plan.puts = value.parse()?,
            "value" => plan.value_bytes = value.parse()?,
            "writers" => plan.writers = value.parse()?,
            "every" => plan.every = value.parse()?,
            "rounds" => plan.rounds = value.parse()?,
            "opened" => plan.opened_synced = value == "synced",
            "memtable" => plan.options = plan.options.memtable_bytes(value.parse::<u64>()? << 20),
            _ => return Err(format!("{what}= is not known").into()),
        }
    }
    Ok(plan)
}

/// What the whole device below a path has had written to it so far, and how many flushes it was asked for.
fn device_written(path: &Path) -> std::io::Result<(u64, u64)> {
    rustix::fs::syncfs(std::fs::File::open(path)?)?;
    let device = std::fs::metadata(path)?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let stat = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat"))?;
    let numbers: Vec<u64> = stat.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    Ok((numbers[6] * SECTOR_BYTES, numbers.get(15).copied().unwrap_or_default()))
}

/// A line of /proc/self/io.
fn process_written_bytes() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let number = |name: &str| io.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    number("write_bytes:").unwrap_or_default() - number("cancelled_write_bytes:").unwrap_or_default()
}

/// All puts of one writer; returns how long each took, first the synced ones.
fn write(db: &Db, plan: &Plan, noise: &[u8], numbers: std::ops::Range<u64>) -> slmdb::Result<[Vec<u64>; 2]> {
    let mut times_ns = [Vec::new(), Vec::new()];
    for number in numbers {
        let is_synced = number % plan.every == 0;
        let from = (number as usize * 1031) % (noise.len() - plan.value_bytes);
        let start = Instant::now();
        db.put_with(key(number), &noise[from..from + plan.value_bytes], WriteOptions::new().sync(is_synced))?;
        times_ns[usize::from(!is_synced)].push(start.elapsed().as_nanos() as u64);
    }
    Ok(times_ns)
}

fn microseconds(mut times_ns: Vec<u64>) -> String {
    times_ns.sort_unstable();
    let at = |part: f64| times_ns.get((times_ns.len() as f64 * part) as usize).map_or(0.0, |&ns| ns as f64 / 1e3);
    format!("p50 {:.1} p99 {:.1} us ({})", at(0.5), at(0.99), times_ns.len())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (directory, rest) = arguments.split_first().ok_or("give a directory")?;
    let plan = plan(rest)?;
    let store = Path::new(directory).join("synced_puts");
    let _ = std::fs::remove_dir_all(&store);
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        seed ^= seed >> 12;
        seed ^= seed << 25;
        seed ^= seed >> 27;
        (seed >> 32) as u8
    })
    .take(NOISE_BYTES)
    .collect();

    let begin_written = device_written(Path::new(directory))?;
    let begin_process = process_written_bytes();
    let db = plan.options.clone().sync(plan.opened_synced).open(&store)?;
    let put_bytes = plan.puts as f64 * (KEY_BYTES + plan.value_bytes as u64) as f64;
    for round in 0..plan.rounds {
        let before = device_written(Path::new(directory))?;
        let (before_process, before_processor) = (process_written_bytes(), processor_seconds());
        let began = Instant::now();
        let each = plan.puts / plan.writers;
        let times = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..plan.writers)
                .map(|writer| {
                    let begin = round * plan.puts + writer * each;
                    let (db, plan, noise) = (&db, &plan, &noise);
                    scope.spawn(move || write(db, plan, noise, begin..begin + each))
                })
                .collect();
            writers.into_iter().map(|writer| writer.join().expect("a writer")).collect::<slmdb::Result<Vec<_>>>()
        })?;
        let seconds = began.elapsed().as_secs_f64();
        let (process, processor) = (process_written_bytes() - before_process, processor_seconds() - before_processor);
        let after = device_written(Path::new(directory))?;
        let [mut synced, mut others] = [Vec::new(), Vec::new()];
        for [more_synced, more_others] in times {
            synced.extend(more_synced);
            others.extend(more_others);
        }
        println!(
            "{:.0} puts/s, device {:.2} and process {:.2} bytes per byte put, {:.2} flushes of the device per synced put, \
             {processor:.2} s of processors; synced {}; others {}",
            plan.puts as f64 / seconds,
            (after.0 - before.0) as f64 / put_bytes,
            process as f64 / put_bytes,
            (after.1 - before.1) as f64 / synced.len().max(1) as f64,
            microseconds(synced),
            microseconds(others),
        );
    }
    db.close()?;
    let all_bytes = put_bytes * plan.rounds as f64;
    println!(
        "opened and closed, too: device {:.2} and process {:.2} bytes per byte put",
        (device_written(Path::new(directory))?.0 - begin_written.0) as f64 / all_bytes,
        (process_written_bytes() - begin_process) as f64 / all_bytes,
    );
    std::fs::remove_dir_all(&store)?;
    Ok(())
}
