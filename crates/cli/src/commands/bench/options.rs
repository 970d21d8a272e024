//! What `bench` takes: db_bench's flags, by their names, and the store's own.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use slmdb::{CompactionOptions, CompactionPolicy, LinkPolicy, Options};
use slmdb_bench::{BENCHMARKS, Benchmark, Settings, benchmark};

use crate::arguments::HowCompressed;
use crate::failure::{Failure, Result};
use crate::pm::FastTier;
use crate::units::parse_size;

const AFTER_HELP: &str = "\
Flags are db_bench's where it has them: underscores, --flag=value or --flag value, switches as --flag, --flag=1 or
--flag=true. Each line of results is as db_bench prints it; what was measured beside the rate follows in lines that
begin with spaces. docs/performance.md tells what each number means, and how to measure well.

Examples:
  slmdb bench
  slmdb bench --benchmarks=fillrandom,readrandom --num=10000000 --value_size=1024 --histogram
  slmdb bench --db /data/bench --pm emulated:/dev/shm/bench.pool,latency=300 --benchmarks=fillrandom,overwrite
  slmdb bench --db /data/bench --use_existing_db --benchmarks=readrandom --reads=100000 --threads=2
  slmdb bench --benchmarks=ycsbload,ycsba,ycsbb,ycsbc,ycsbf,ycsbd --num=1000000 --json";

/// What `bench` takes.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER_HELP, after_long_help = long_after_help())]
pub struct Arguments {
    /// What is measured, one after the other: names with commas between; --help lists them
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = parse_benchmark, default_value = benchmark::DEFAULT, hide_default_value = true)]
    pub benchmarks: Vec<Benchmark>,

    /// Where the store is made: an empty directory, or one of an earlier bench, whose store is removed [default: a temporary one]
    #[arg(long, value_name = "DIR")]
    pub db: Option<PathBuf>,
    /// Measure the store that is in --db, and keep it; benchmarks that need a new one are skipped
    #[arg(long = "use_existing_db", alias = "use-existing-db", requires = "db", value_name = "0|1", value_parser = parse_switch, num_args = 0..=1, default_missing_value = "1", default_value = "0", hide_default_value = true)]
    pub use_existing_db: bool,

    /// Keys there are, and operations of each thread (YCSB: of all together)
    #[arg(long, value_name = "N", default_value_t = Settings::default().num, help_heading = "How much")]
    num: u64,
    /// Reads and seeks of each thread [default: --num]
    #[arg(long, value_name = "N", value_parser = parse_or_usual, allow_hyphen_values = true, help_heading = "How much")]
    reads: Option<OrUsual>,
    /// Writes of each thread, but in order [default: --num]
    #[arg(long, value_name = "N", value_parser = parse_or_usual, allow_hyphen_values = true, help_heading = "How much")]
    writes: Option<OrUsual>,
    /// Operations of a YCSB workload, of all threads together [default: --num]
    #[arg(long, value_name = "N", help_heading = "How much")]
    operations: Option<u64>,
    /// Go on for so many seconds instead (what goes in order: for at most so long); 0: not
    #[arg(long, value_name = "SECONDS", default_value_t = 0, hide_default_value = true, help_heading = "How much")]
    duration: u64,
    /// Threads; readwhilewriting has one more
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "How much")]
    threads: u64,
    /// Another seed, other random numbers
    #[arg(long, value_name = "N", default_value_t = Settings::default().seed, help_heading = "How much")]
    seed: u64,

    /// Bytes of a key: decimal digits, zeros in front
    #[arg(long = "key_size", alias = "key-size", value_name = "BYTES", default_value_t = Settings::default().key_bytes, help_heading = "Of what")]
    key_size: usize,
    /// Bytes of a value
    #[arg(long = "value_size", alias = "value-size", value_name = "BYTES", default_value_t = Settings::default().value_bytes, help_heading = "Of what")]
    value_size: usize,
    /// Bytes of a YCSB record
    #[arg(long = "record_size", alias = "record-size", value_name = "BYTES", default_value_t = Settings::default().record_bytes, help_heading = "Of what")]
    record_size: usize,
    /// What values can be compressed to
    #[arg(long = "compression_ratio", alias = "compression-ratio", value_name = "RATIO", default_value_t = Settings::default().compression_ratio, help_heading = "Of what")]
    compression_ratio: f64,
    /// Puts or deletes that are written at once
    #[arg(long = "batch_size", alias = "batch-size", value_name = "N", default_value_t = 1, help_heading = "Of what")]
    batch_size: u64,
    /// Entries that are read after each seek
    #[arg(long = "seek_nexts", alias = "seek-nexts", value_name = "N", default_value_t = 0, help_heading = "Of what")]
    seek_nexts: u64,
    /// What of readrandomwriterandom's operations are reads, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = Settings::default().read_percent, help_heading = "Of what")]
    readwritepercent: u64,
    /// Records that YCSB's longest range has
    #[arg(long = "scan_length", alias = "scan-length", value_name = "N", default_value_t = Settings::default().scan_records_max, help_heading = "Of what")]
    scan_length: u64,
    /// YCSB's zipfian constant, between 0 and 1
    #[arg(long, value_name = "THETA", default_value_t = Settings::default().zipf, help_heading = "Of what")]
    zipf: f64,

    /// Print the distribution of latencies, as db_bench does
    #[arg(long, value_name = "0|1", value_parser = parse_switch, num_args = 0..=1, default_missing_value = "1", default_value = "0", hide_default_value = true, help_heading = "Output")]
    pub histogram: bool,
    /// Print one JSON object a benchmark, and nothing else
    #[arg(long, help_heading = "Output")]
    pub json: bool,

    /// Every write waits until it would outlive a power cut
    #[arg(long, value_name = "0|1", value_parser = parse_switch, num_args = 0..=1, default_missing_value = "1", default_value = "0", hide_default_value = true, help_heading = "The store")]
    sync: bool,
    /// Where the fast tier is, as `slmdb put --help` tells: [emulated:]PATH[,latency=NS]... [default: plain memory]
    #[arg(long, value_name = "[emulated:]PATH", value_parser = FastTier::parser(), help_heading = "The store")]
    pm: Option<FastTier>,
    /// Memory for all that the store keeps there [default: 256MiB]
    #[arg(long = "memory_budget", alias = "memory-budget", value_name = "SIZE", value_parser = parse_size, help_heading = "The store")]
    memory_budget: Option<u64>,
    /// Size of a MemTable [default: 64MiB]
    #[arg(long = "write_buffer_size", aliases = ["write-buffer-size", "memtable"], value_name = "SIZE", value_parser = parse_size, help_heading = "The store")]
    write_buffer_size: Option<u64>,
    /// What becomes of a MemTable's links: the paper's way is persisted [default: rebuilt]
    #[arg(long = "memtable_links", alias = "memtable-links", value_name = "HOW", value_parser = named(&["rebuilt", "persisted"]), help_heading = "The store")]
    memtable_links: Option<String>,
    /// How table files are chosen for compaction [default: gain]
    #[arg(long, value_name = "HOW", value_parser = named(&["gain", "paper", "manual"]), help_heading = "The store")]
    policy: Option<String>,
    /// Compactions at once [default: 1]
    #[arg(long = "compaction_threads", alias = "compaction-threads", value_name = "N", value_parser = clap::value_parser!(u8).range(1..=4), help_heading = "The store")]
    compaction_threads: Option<u8>,
    /// How blocks are compressed [default: lz4]
    #[arg(long = "compression_type", aliases = ["compression-type", "compression"], value_enum, value_name = "HOW", help_heading = "The store")]
    compression_type: Option<HowCompressed>,
    /// Size of a block [default: 4096]
    #[arg(long = "block_size", alias = "block-size", value_name = "SIZE", value_parser = parse_size, help_heading = "The store")]
    block_size: Option<u64>,
    /// Table files held open at once [default: 500]
    #[arg(long = "open_files", alias = "open-files", value_name = "N", help_heading = "The store")]
    open_files: Option<usize>,
    /// Measure the bench itself instead: a store that does nothing
    #[arg(long, conflicts_with_all = ["db", "pm"], help_heading = "The store")]
    pub empty: bool,
}

/// A number of operations, or the usual one, which db_bench's scripts ask for with -1.
#[derive(Debug, Clone, Copy)]
struct OrUsual(Option<u64>);

fn parse_or_usual(text: &str) -> Result<OrUsual, String> {
    match text {
        "-1" => Ok(OrUsual(None)),
        _ => text.parse().map(|number| OrUsual(Some(number))).map_err(|_| "give a whole number".to_string()),
    }
}

fn parse_benchmark(name: &str) -> Result<Benchmark, String> {
    Benchmark::by_name(name.trim()).ok_or_else(|| {
        let names: Vec<&str> = BENCHMARKS.iter().map(|benchmark| benchmark.name).collect();
        format!("there are {}", names.join(" "))
    })
}

/// A switch as db_bench's users write it.
fn parse_switch(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "t" | "yes" | "y" => Ok(true),
        "0" | "false" | "f" | "no" | "n" => Ok(false),
        _ => Err("give 0 or 1".to_string()),
    }
}

fn named(names: &'static [&'static str]) -> impl TypedValueParser<Value = String> {
    PossibleValuesParser::new(names)
}

/// The benchmarks with what they do; for `--help`, not for `-h`.
fn long_after_help() -> String {
    let lines = BENCHMARKS.iter().map(|benchmark| format!("  {:<22} {}\n", benchmark.name, benchmark.about));
    format!("Benchmarks:\n{}\n{AFTER_HELP}", lines.collect::<String>())
}

impl Arguments {
    /// How much of what is done.
    pub fn settings(&self) -> Settings {
        Settings {
            num: self.num,
            writes: self.writes.and_then(|writes| writes.0),
            reads: self.reads.and_then(|reads| reads.0),
            operations: self.operations,
            duration: (self.duration > 0).then(|| Duration::from_secs(self.duration)),
            key_bytes: self.key_size,
            value_bytes: self.value_size,
            record_bytes: self.record_size,
            compression_ratio: self.compression_ratio,
            threads: self.threads,
            batch_size: self.batch_size,
            seek_nexts: self.seek_nexts,
            read_percent: self.readwritepercent,
            scan_records_max: self.scan_length,
            zipf: self.zipf,
            sync: self.sync,
            use_existing: self.use_existing_db,
            seed: self.seed,
        }
    }

    /// The options of the store.
    pub fn options(&self) -> Result<Options> {
        let mut options = self.pm.as_ref().map_or_else(Options::default, |tier| tier.apply(Options::default()));
        if let Some(bytes) = self.memory_budget {
            options = options.memory_budget_bytes(bytes);
        }
        if let Some(bytes) = self.write_buffer_size {
            options = options.memtable_bytes(bytes);
        }
        if let Some(how) = self.compression_type {
            options = options.compression(how.into());
        }
        if let Some(bytes) = self.block_size {
            let bytes = usize::try_from(bytes).map_err(|_| Failure::usage("--block_size is too large; give less"))?;
            options = options.block_bytes(bytes);
        }
        if let Some(count) = self.open_files {
            options = options.open_tables_max(count);
        }
        if self.memtable_links.as_deref() == Some("persisted") {
            options = options.memtable_links(LinkPolicy::Persisted);
        }
        let policy = match self.policy.as_deref() {
            Some("paper") => CompactionPolicy::Paper,
            Some("manual") => CompactionPolicy::Manual,
            _ => CompactionPolicy::Gain,
        };
        let mut compaction = CompactionOptions { policy, ..CompactionOptions::default() };
        if let Some(threads) = self.compaction_threads {
            compaction.threads = usize::from(threads);
        }
        Ok(options.compaction(compaction))
    }

    /// What the lines of the header say of the fast tier.
    pub fn medium(&self) -> &'static str {
        match self.pm {
            None if self.use_existing_db => "the store's own",
            None => "dram",
            Some(FastTier::Emulated { .. }) => "emulated",
            Some(FastTier::Dax(_)) => "dax",
        }
    }

    /// What the lines of the header say of compression.
    pub fn compression(&self) -> &'static str {
        match self.compression_type {
            None | Some(HowCompressed::Lz4) => "lz4",
            Some(HowCompressed::None) => "none",
            Some(HowCompressed::Zstd) => "zstd",
        }
    }
}
