//! What `bench` takes: db_bench's flags, by their names, and the store's own.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use slmdb::{CompactionPolicy, EngineName, LinkPolicy, MapTables, Options};
use slmdb_bench::flags::{self, WorkFlags, parse_benchmark, parse_switch};
use slmdb_bench::{Benchmark, Settings, benchmark};

use crate::arguments::{HowCompressed, parse_engine};
use crate::failure::{Failure, Result};
use crate::pm::FastTier;
use crate::units::parse_size;

const AFTER_HELP: &str = "\
Flags are db_bench's where it has them: underscores, --flag=value or --flag value, switches as --flag, --flag=1 or
--flag=true. Each line of results is as db_bench prints it; what was measured beside the rate follows in lines that
begin with spaces. docs/bench.md says what each number means, docs/performance.md how to measure well.

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

    #[command(flatten)]
    pub work: WorkFlags,

    /// Print the distribution of latencies, as db_bench does
    #[arg(long, value_name = "0|1", value_parser = parse_switch, num_args = 0..=1, default_missing_value = "1", default_value = "0", hide_default_value = true, help_heading = "Output")]
    pub histogram: bool,
    /// Print one JSON object a benchmark, and nothing else
    #[arg(long, help_heading = "Output")]
    pub json: bool,

    /// Every write waits until it would outlive a power cut
    #[arg(long, value_name = "0|1", value_parser = parse_switch, num_args = 0..=1, default_missing_value = "1", default_value = "0", hide_default_value = true, help_heading = "The store")]
    sync: bool,
    /// The design of the store, as `slmdb put --help` tells [default: slm]
    #[arg(long, value_name = "NAME", value_parser = parse_engine, help_heading = "The store")]
    engine: Option<EngineName>,
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
    /// How table files are chosen for compaction [default: garbage-first]
    #[arg(long, value_name = "HOW", value_parser = named(&["garbage-first", "paper", "manual"]), help_heading = "The store")]
    policy: Option<String>,
    /// Compactions at once [default: as many as processors, from 2 to 4]
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
    /// Whether table files are mapped for reading [default: auto, where they fit in memory]
    #[arg(long = "map_tables", alias = "map-tables", value_name = "WHEN", value_parser = named(&["auto", "never"]), help_heading = "The store")]
    map_tables: Option<String>,
    /// Measure the bench itself instead: a store that does nothing
    #[arg(long, conflicts_with_all = ["db", "pm"], help_heading = "The store")]
    pub empty: bool,
}

fn named(names: &'static [&'static str]) -> impl TypedValueParser<Value = String> {
    PossibleValuesParser::new(names)
}

/// The benchmarks with what they do; for `--help`, not for `-h`.
fn long_after_help() -> String {
    format!("{}\n{AFTER_HELP}", flags::benchmarks_help())
}

impl Arguments {
    /// How much of what is done.
    pub fn settings(&self) -> Settings {
        Settings { sync: self.sync, use_existing: self.use_existing_db, ..self.work.settings() }
    }

    /// The options of the store.
    pub fn options(&self) -> Result<Options> {
        let mut options = self.pm.as_ref().map_or_else(Options::default, |tier| tier.apply(Options::default()));
        if let Some(engine) = self.engine {
            options = options.engine(engine);
        }
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
        if self.map_tables.as_deref() == Some("never") {
            options = options.advanced(|advanced| advanced.map_tables(MapTables::Never));
        }
        if self.memtable_links.as_deref() == Some("persisted") {
            options = options.advanced(|advanced| advanced.memtable_links(LinkPolicy::Persisted));
        }
        let policy = match self.policy.as_deref() {
            Some("paper") => CompactionPolicy::Paper,
            Some("manual") => CompactionPolicy::Manual,
            _ => CompactionPolicy::GarbageFirst,
        };
        options = options.compaction_policy(policy);
        if let Some(threads) = self.compaction_threads {
            options = options.compaction_threads(usize::from(threads));
        }
        Ok(options)
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
