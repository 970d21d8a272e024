//! What the command takes.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand};
use slmdb_bench::Settings;
use slmdb_bench::flags::{WorkFlags, benchmarks_help};
use slmdb_cli::units::parse_size;

use crate::footing::{Compression, Durability, Footing};
use crate::spec::{self, StoreSpec};
use crate::step::Step;

/// What is measured if nothing is said.
const BENCHMARKS: &str = "filluniquerandom,flush,waitforcompaction,readrandom,readmissing,seekrandom,readseq,overwrite,flush,waitforcompaction";

/// Which stores.
const STORES: &str = "slmdb,rocksdb,leveldb,lmdb,redb,fjall";

/// The whole command line.
#[derive(Parser, Debug)]
#[command(name = "slmdb-compare", about = "slmdb beside the stores people use: the same work, in turns")]
pub struct Command {
    /// What is to be done.
    #[command(subcommand)]
    pub verb: Verb,
}

/// What can be done.
#[derive(Subcommand, Debug)]
pub enum Verb {
    /// Measure stores, each in a process of its own, in turns
    Run(Box<Run>),
    /// A paper's evaluation: a page with pictures, and JSON
    Paper(Paper),
    /// All designs of slmdb side by side: a page, JSON and tables
    Designs(Designs),
    /// The rates of runs as one picture, in SVG
    Picture {
        /// What `run --json` has printed: filluniquerandom, readrandom, overwrite and seekrandom; what several have is of the first
        #[arg(required = true, value_name = "FILE")]
        runs: Vec<PathBuf>,
    },
}

/// What `paper` takes.
#[derive(Args, Debug)]
pub struct Paper {
    /// Whose paper
    #[arg(long, value_enum, value_name = "DESIGN", default_value = "slm")]
    pub paper: Design,
    /// The part of the paper's data (slm: 8 GB, lab: 90 GB, tlsm: 8 to 12 GB) that each store is filled with [default: 0.016 of
    /// slm's, 0.003 of lab's, 0.125 of tlsm's]
    #[arg(long, value_name = "PART", value_parser = parse_scale)]
    pub scale: Option<f64>,
    /// Which stores, as for `run`; ratios are to the first [default: the paper's, as far as they can be had, and ours]
    #[arg(long, value_name = "NAMES", value_parser = parse_stores)]
    pub stores: Option<Stores>,
    /// What is measured, with commas between; a wrong name is answered with all of them [default: all of it]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub only: Vec<String>,
    /// So often each store is measured, in turns
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: u32,
    /// Where paper.html and paper.json are written
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub out: PathBuf,
    /// Where stores are.
    #[command(flatten)]
    pub places: PlaceFlags,
    /// As for `run`; the paper has half of what a store is filled with
    #[arg(long = "memory-limit", alias = "memory_limit", value_name = "SIZE", value_parser = parse_size)]
    pub memory_limit: Option<u64>,
}

/// What `designs` takes.
#[derive(Args, Debug)]
pub struct Designs {
    /// Which works, with commas between; a wrong name is answered with all of them [default: all of them]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub only: Vec<String>,
    /// The part of the keys that each work has
    #[arg(long, value_name = "PART", value_parser = parse_scale, default_value = "1")]
    pub scale: f64,
    /// So often each store is measured, in turns
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: u32,
    /// Where designs.html, designs.json and designs.md are written
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub out: PathBuf,
    /// Where stores are.
    #[command(flatten)]
    pub places: PlaceFlags,
}

/// Where stores are.
#[derive(Args, Debug, Clone, Default)]
pub struct PlaceFlags {
    /// Where stores are made, one at a time, and removed: an empty directory, on the device that is to be measured [default: a
    /// temporary one]
    #[arg(long, value_name = "DIR")]
    pub db: Option<PathBuf>,
    /// Where pools that emulate persistent memory are made [default: /dev/shm, if there is one]
    #[arg(long, value_name = "DIR")]
    pub pools: Option<PathBuf>,
    /// Measure on a file system of the run's own, of so much, on a loop device within --db: it takes root, and more than the
    /// largest store takes while it is compacted
    #[arg(long = "loop-device", alias = "loop_device", value_name = "SIZE", value_parser = parse_size)]
    pub loop_device: Option<u64>,
}

impl PlaceFlags {
    /// The same as arguments.
    pub fn arguments(&self) -> Vec<OsString> {
        let directories = [("--db", &self.db), ("--pools", &self.pools)].into_iter();
        let directories =
            directories.filter_map(|(flag, directory)| Some([flag.into(), directory.clone()?.into_os_string()]));
        let device = self.loop_device.map(|bytes| OsString::from(format!("--loop-device={bytes}")));
        directories.flatten().chain(device).collect()
    }
}

/// A design whose paper's evaluation can be done again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Design {
    /// SLM-DB (FAST '19), section 6
    Slm,
    /// LAB-DB (TOS 20(1), 2024), section 4
    Lab,
    /// TLSM (IEEE Access 8, 2020), section V
    Tlsm,
}

impl Design {
    /// All there are.
    pub const ALL: [Design; 3] = [Design::Slm, Design::Lab, Design::Tlsm];
}

fn parse_scale(text: &str) -> Result<f64, String> {
    let scale = text.parse::<f64>().ok().filter(|scale| *scale > 0.0 && *scale <= 100.0);
    scale.ok_or_else(|| "give a number above 0, like 0.01".to_string())
}

/// A list of stores, which is one argument.
#[derive(Debug, Clone)]
pub struct Stores(pub Vec<StoreSpec>);

fn parse_stores(text: &str) -> Result<Stores, String> {
    StoreSpec::parse_list(text).map(Stores)
}

fn after_help() -> String {
    format!("{}\n\n{}", spec::HELP, benchmarks_help())
}

/// What `run` takes.
#[derive(Args, Debug)]
#[command(after_long_help = after_help())]
pub struct Run {
    /// Which stores, with commas between; --help tells their names. Ratios are to the first
    #[arg(long, value_name = "NAMES", value_parser = parse_stores, default_value = STORES)]
    pub stores: Stores,
    /// What each store does, one after the other; --help lists them. What one does otherwise stands behind it, with colons:
    /// ycsba:zipf=0.7:operations=N
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = Step::parse, default_value = BENCHMARKS)]
    pub benchmarks: Vec<Step>,
    /// So often each store is measured, in turns
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: u32,
    /// Where stores are.
    #[command(flatten)]
    pub places: PlaceFlags,
    /// One JSON object with everything, instead of tables
    #[arg(long)]
    pub json: bool,

    /// What a write that returned outlives, for all stores alike
    #[arg(long, value_enum, value_name = "WHAT", default_value = "process", help_heading = "All stores alike")]
    pub durability: Durability,
    /// Memory of a store's own: caches and write buffers together
    #[arg(long = "memory_budget", alias = "memory-budget", value_name = "SIZE", value_parser = parse_size, default_value = "256MiB", help_heading = "All stores alike")]
    pub memory_budget: u64,
    /// Size of a write buffer (MemTable)
    #[arg(long = "write_buffer_size", alias = "write-buffer-size", value_name = "SIZE", value_parser = parse_size, default_value = "64MiB", help_heading = "All stores alike")]
    pub write_buffer_size: u64,
    /// How blocks are compressed, in stores that can
    #[arg(
        long = "compression_type",
        alias = "compression-type",
        value_enum,
        value_name = "HOW",
        default_value = "none",
        help_heading = "All stores alike"
    )]
    pub compression_type: Compression,
    /// Confine each store's process, page cache included, to so much memory, by a cgroup; pools do not count
    #[arg(long = "memory-limit", alias = "memory_limit", value_name = "SIZE", value_parser = parse_size, help_heading = "All stores alike")]
    pub memory_limit: Option<u64>,

    #[command(flatten)]
    work: WorkFlags,
    #[command(flatten)]
    pub(crate) one: One,
}

/// What a process is told that measures one store: the command starts itself with these.
#[derive(Args, Debug, Default)]
pub(crate) struct One {
    #[arg(long, hide = true, requires_all = ["one_directory", "one_pool"], value_parser = StoreSpec::parse)]
    pub one_store: Option<StoreSpec>,
    #[arg(long, hide = true)]
    pub one_directory: Option<PathBuf>,
    #[arg(long, hide = true)]
    pub one_pool: Option<PathBuf>,
    #[arg(long, hide = true)]
    pub one_group: Option<PathBuf>,
    /// It writes into the store that is there and then kills itself.
    #[arg(long, hide = true)]
    pub one_is_killed: bool,
}

impl Run {
    /// Which one store this process is to measure, where its files are, and its pool; none if it is to start others.
    pub fn one(&self) -> Option<(&StoreSpec, &Path, &Path)> {
        let one = &self.one;
        Some((one.one_store.as_ref()?, one.one_directory.as_ref()?, one.one_pool.as_ref()?))
    }

    /// How much of what is done.
    pub fn settings(&self) -> Settings {
        Settings { sync: self.durability == Durability::Sync, ..self.work.settings() }
    }

    /// Whether this can be done.
    pub fn check(&self) -> Result<(), String> {
        let settings = self.settings();
        settings.check().map_err(|error| error.to_string())?;
        let mut steps = self.benchmarks.iter();
        steps.try_for_each(|step| step.settings(&settings).check().map_err(|error| error.to_string()))
    }

    /// What every store is given.
    pub fn footing(&self) -> Footing {
        let settings = self.settings();
        // db_bench's values and YCSB's records have sizes of their own: what counts is what is done.
        let does = |ycsb: bool| self.benchmarks.iter().any(|step| step.benchmark.name.starts_with("ycsb") == ycsb);
        let value_bytes = if does(false) { settings.value_bytes } else { 0 };
        let record_bytes = if does(true) { settings.record_bytes } else { 0 };
        let entry_bytes = settings.key_bytes + value_bytes.max(record_bytes);
        Footing {
            memory_budget_bytes: self.memory_budget,
            write_buffer_bytes: self.write_buffer_size,
            data_bytes: settings.num.saturating_mul(entry_bytes as u64),
            keys: settings.num,
            compression: self.compression_type,
            memory_limit_bytes: self.memory_limit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data_bytes(arguments: &str) -> u64 {
        let words = ["slmdb-compare", "run", "--num=10", "--key_size=20"].into_iter().chain(arguments.split(' '));
        match Command::try_parse_from(words).unwrap().verb {
            Verb::Run(run) => run.footing().data_bytes,
            _ => unreachable!(),
        }
    }

    /// (A map of LMDB was given no `WRITEMAP`, as if small values were YCSB's records.)
    #[test]
    fn the_data_are_as_large_as_what_is_put() {
        assert_eq!(data_bytes("--value_size=100 --benchmarks=fillrandom,readrandom"), 10 * 120);
        assert_eq!(data_bytes("--value_size=5000 --record_size=300 --benchmarks=ycsbload,ycsba"), 10 * 320);
        assert_eq!(data_bytes("--value_size=5000 --record_size=300 --benchmarks=fillseq,ycsba"), 10 * 5020);
    }
}
