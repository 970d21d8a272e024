//! What a store does that is overwritten at random for long: for docs/lab/2026-11-compaction.md.
//!
//! `cargo run --release -p slmdb --example overwrite_speed -- DIRECTORY [POOL] [keys=N] [value=BYTES] [rounds=N] [threads=N]
//! [memtable=MIB] [budget=MIB] [pool=MIB] [table_file=MIB] [policy=garbage-first|paper|manual] [compactions=N] [merged=N]
//! [scans=N] [group=DIRECTORY] [rows=FILE]`
//!
//! Fills a new store with 20-byte keys in random order and values that can't be compressed, then overwrites keys at random
//! until as many bytes were put as there are, `rounds` times. Tells rates by tenths, delays, bytes written per byte put and
//! space taken, the overwrites also as a row of a table ([`TABLE_HEAD`]), and writes a row for every quarter of a second
//! (tab-separated) to `rows`, to be plotted. With `group`, the process joins that control group (its `cgroup.procs`) once the store is open,
//! so that a pool made outside counts outside. `scans` ranges of 100 keys are read before and after.

mod support;

use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use slmdb::{CompactionPolicy, Counters, Db, Medium, Options};
use support::key;

const ROW_EVERY: Duration = Duration::from_millis(250);
/// Values are pieces of as many random bytes.
const NOISE_BYTES: usize = 4 << 20;

/// What is in the row at the end.
const TABLE_HEAD: &str = "| value, bytes | bytes put | written to files per byte put | of these by compactions \
    | to the fast tier | compactions | space at most, × live | last tenth ÷ first |";

/// What the command line asks for.
struct Plan {
    keys: u64,
    value_bytes: usize,
    rounds: u64,
    threads: u64,
    scans: u64,
    group: Option<String>,
    rows: Option<String>,
    options: Options,
}

fn plan(arguments: &[String]) -> Result<Plan, Box<dyn std::error::Error>> {
    let options = Options::default();
    let mut compaction = slmdb::CompactionOptions::default();
    let mut plan =
        Plan { keys: 1 << 20, value_bytes: 1024, rounds: 2, threads: 1, scans: 0, group: None, rows: None, options };
    for argument in arguments {
        let (what, value) = argument.split_once('=').ok_or("arguments have the form what=value")?;
        match what {
            "keys" => plan.keys = value.parse()?,
            "value" => plan.value_bytes = value.parse()?,
            "rounds" => plan.rounds = value.parse()?,
            "threads" => plan.threads = value.parse()?,
            "scans" => plan.scans = value.parse()?,
            "memtable" => plan.options = plan.options.memtable_bytes(value.parse::<u64>()? << 20),
            "budget" => plan.options = plan.options.memory_budget_bytes(value.parse::<u64>()? << 20),
            "pool" => plan.options = plan.options.pool_initial_bytes(value.parse::<u64>()? << 20),
            "table_file" => compaction.table_file_bytes = value.parse::<u64>()? << 20,
            "compactions" => compaction.threads = value.parse()?,
            "merged" => compaction.files_merged_max = value.parse()?,
            "policy" => {
                compaction.policy = match value {
                    "garbage-first" => CompactionPolicy::GarbageFirst,
                    "paper" => CompactionPolicy::Paper,
                    _ => CompactionPolicy::Manual,
                }
            }
            "group" => plan.group = Some(value.into()),
            "rows" => plan.rows = Some(value.into()),
            _ => return Err(format!("{what}= is not known").into()),
        }
    }
    plan.options = plan.options.compaction(compaction);
    Ok(plan)
}

/// xorshift64*.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }
}

/// Runs a phase of so many puts. Returns how long each tenth took, and how long each put.
fn put_all(
    db: &Db,
    plan: &Plan,
    noise: &[u8],
    puts: u64,
    done: &AtomicU64,
    which: impl Fn(u64, &mut Random) -> u64 + Sync,
) -> slmdb::Result<(Vec<Duration>, Vec<u64>)> {
    let next = AtomicU64::new(0);
    let began = Instant::now();
    let tenths: Vec<AtomicU64> = (0..10).map(|_| AtomicU64::new(0)).collect();
    let times = std::thread::scope(|scope| {
        let write = |thread: u64| {
            let (next, tenths, which) = (&next, &tenths, &which);
            move || -> slmdb::Result<Vec<u64>> {
                let mut random = Random(0x9e37_79b9 + thread);
                let mut times_ns = Vec::new();
                loop {
                    let turn = next.fetch_add(1, Ordering::Relaxed);
                    if turn >= puts {
                        return Ok(times_ns);
                    }
                    let key = key(which(turn, &mut random));
                    let from = random.below((noise.len() - plan.value_bytes) as u64) as usize;
                    let start = Instant::now();
                    db.put(key, &noise[from..from + plan.value_bytes])?;
                    times_ns.push(start.elapsed().as_nanos() as u64);
                    done.fetch_add(1, Ordering::Relaxed);
                    if (turn + 1) * 10 / puts > turn * 10 / puts {
                        tenths[(turn * 10 / puts) as usize].store(began.elapsed().as_nanos() as u64, Ordering::Relaxed);
                    }
                }
            }
        };
        let writers: Vec<_> = (0..plan.threads).map(|thread| scope.spawn(write(thread))).collect();
        writers.into_iter().map(|writer| writer.join().expect("no writer panics")).collect::<slmdb::Result<Vec<_>>>()
    })?;
    let ends: Vec<u64> = std::iter::once(0).chain(tenths.iter().map(|end| end.load(Ordering::Relaxed))).collect();
    let tenths = ends.windows(2).map(|two| Duration::from_nanos(two[1].saturating_sub(two[0]))).collect();
    let mut times = times.concat();
    times.sort_unstable();
    Ok((tenths, times))
}

fn tell(db: &Db, phase: &str, puts: u64, ended: &(Vec<Duration>, Vec<u64>), before: &slmdb::Stats) {
    let (tenths, times_ns) = ended;
    let rate = |took: &Duration, puts: f64| puts / took.as_secs_f64() / 1e3;
    let whole: Duration = tenths.iter().sum();
    let rates: Vec<String> = tenths.iter().map(|took| format!("{:.0}", rate(took, puts as f64 / 10.0))).collect();
    let quantile = |part: f64| times_ns[((times_ns.len() - 1) as f64 * part) as usize] as f64 / 1e3;
    let stats = db.stats();
    let (now, then) = (&stats.since_open, &before.since_open);
    let put = (now.user_bytes_put - then.user_bytes_put) as f64;
    println!(
        "{phase}: {:.1}k puts/s; by tenths {} k/s; median {:.1}, 99 % {:.1}, 99.9 % {:.0}, longest {:.0} us",
        rate(&whole, puts as f64),
        rates.join(" "),
        quantile(0.5),
        quantile(0.99),
        quantile(0.999),
        quantile(1.0)
    );
    println!(
        "{phase}: {:.3} bytes written to files per byte put, {:.3} of them by {} compactions; {:.3} x live, {} files",
        (now.file_bytes_written - then.file_bytes_written) as f64 / put,
        (now.compaction_bytes_written - then.compaction_bytes_written) as f64 / put,
        now.compactions - then.compactions,
        stats.space_amplification(),
        stats.table_files,
    );
    println!("{phase}: waits {:?}", stats.stalls);
}

/// What the overwrites have done, for a table.
struct Row {
    put_bytes: u64,
    file_bytes: u64,
    compaction_bytes: u64,
    fast_tier_bytes: u64,
    compactions: u64,
    last_tenth_over_first: f64,
}

impl Row {
    fn of(now: &Counters, before: &Counters, tenths: &[Duration]) -> Row {
        Row {
            put_bytes: now.user_bytes_put - before.user_bytes_put,
            file_bytes: now.file_bytes_written - before.file_bytes_written,
            compaction_bytes: now.compaction_bytes_written - before.compaction_bytes_written,
            fast_tier_bytes: now.media_bytes - before.media_bytes,
            compactions: now.compactions - before.compactions,
            last_tenth_over_first: tenths[0].as_secs_f64() / tenths[9].as_secs_f64(),
        }
    }

    fn tell(&self, plan: &Plan, most: f64) {
        let per_byte_put = |bytes| bytes as f64 / self.put_bytes as f64;
        println!("{TABLE_HEAD}");
        println!(
            "| {} | {} MiB | {:.2} | {:.2} | {:.2} | {} | {most:.2} | {:.2} |",
            plan.value_bytes,
            self.put_bytes >> 20,
            per_byte_put(self.file_bytes),
            per_byte_put(self.compaction_bytes),
            per_byte_put(self.fast_tier_bytes),
            self.compactions,
            self.last_tenth_over_first
        );
    }
}

fn scan(db: &Db, plan: &Plan, when: &str) -> slmdb::Result<()> {
    if plan.scans == 0 {
        return Ok(());
    }
    let mut random = Random(77);
    let (began, mut found) = (Instant::now(), 0);
    for _ in 0..plan.scans {
        for entry in db.range(key(random.below(plan.keys)).as_slice()..)?.take(100) {
            entry?;
            found += 1;
        }
    }
    let rate = plan.scans as f64 / began.elapsed().as_secs_f64();
    println!("ranges {when}: {rate:.0} a second, {:.1} keys each", found as f64 / plan.scans as f64);
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let directory = arguments.first().ok_or("name a directory for the store")?;
    let pool = arguments.get(1).filter(|argument| !argument.contains('='));
    let mut plan = plan(&arguments[1 + usize::from(pool.is_some())..])?;
    if let Some(path) = pool {
        plan.options = plan.options.medium(Medium::Emulated { path: path.into() });
    }
    let db = plan.options.clone().error_if_exists(true).open(directory)?;
    if let Some(group) = &plan.group {
        std::fs::write(Path::new(group).join("cgroup.procs"), std::process::id().to_string())?;
    }
    let mut random = Random(1);
    let noise: Vec<u8> = (0..NOISE_BYTES / 8).flat_map(|_| random.next().to_le_bytes()).collect();

    let (done, ended) = (AtomicU64::new(0), AtomicBool::new(false));
    let (row, most) = std::thread::scope(|scope| -> Result<_, Box<dyn std::error::Error>> {
        let rows = scope.spawn(|| rows(&db, &plan, &done, &ended));
        let run = || -> slmdb::Result<Row> {
            let before = db.stats();
            let filled = put_all(&db, &plan, &noise, plan.keys, &done, |turn, _| turn)?;
            db.flush()?;
            tell(&db, "fill", plan.keys, &filled, &before);
            scan(&db, &plan, "after the fill")?;
            let (before, puts) = (db.stats(), plan.keys * plan.rounds);
            let overwritten = put_all(&db, &plan, &noise, puts, &done, |_, random| random.below(plan.keys))?;
            tell(&db, "overwrite", puts, &overwritten, &before);
            db.flush()?;
            let row = Row::of(&db.stats().since_open, &before.since_open, &overwritten.0);
            scan(&db, &plan, "after the overwrites")?;
            Ok(row)
        };
        let row = run();
        ended.store(true, Ordering::Relaxed);
        let most = rows.join().expect("it does not panic")?;
        Ok((row?, most))
    })?;
    println!("space: {most:.3} x live at most, as seen every {} ms", ROW_EVERY.as_millis());
    row.tell(&plan, most);
    db.close()?;
    Ok(())
}

/// Writes the rows; returns the largest space amplification.
fn rows(db: &Db, plan: &Plan, done: &AtomicU64, ended: &AtomicBool) -> std::io::Result<f64> {
    let mut file = plan.rows.as_ref().map(std::fs::File::create).transpose()?;
    if let Some(file) = &mut file {
        writeln!(file, "seconds\tputs\tputs_per_second\tspace\twritten_per_byte_put\tfiles\twaited_ms")?;
    }
    let (began, mut last, mut most) = (Instant::now(), (0.0, 0), 0.0_f64);
    while !ended.load(Ordering::Relaxed) {
        std::thread::sleep(ROW_EVERY);
        let (seconds, puts, stats) = (began.elapsed().as_secs_f64(), done.load(Ordering::Relaxed), db.stats());
        most = most.max(stats.space_amplification());
        if let Some(file) = &mut file {
            writeln!(
                file,
                "{seconds:.2}\t{puts}\t{:.0}\t{:.3}\t{:.3}\t{}\t{}",
                (puts - last.1) as f64 / (seconds - last.0),
                stats.space_amplification(),
                stats.write_amplification_since_open().files,
                stats.table_files,
                stats.since_open.stall_us / 1000,
            )?;
        }
        last = (seconds, puts);
    }
    Ok(most)
}
