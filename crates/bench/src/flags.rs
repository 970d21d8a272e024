//! db_bench's flags, by their names, as clap reads them: how much is done, and of what. Which benchmarks, where, and with what
//! store is for the program to ask.

use std::time::Duration;

use crate::benchmark::{BENCHMARKS, Benchmark};
use crate::distributions::Distribution;
use crate::settings::Settings;

/// How much is done, and of what.
#[derive(clap::Args, Debug, Clone)]
pub struct WorkFlags {
    /// Keys there are, and operations of each thread (YCSB: of all together)
    #[arg(long, value_name = "N", default_value_t = Settings::default().num, help_heading = "How much")]
    pub num: u64,
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
    /// Go on for at most so many seconds, but for what begins with a new store; 0: for as long as it takes
    #[arg(
        long = "time_limit",
        alias = "time-limit",
        value_name = "SECONDS",
        default_value_t = 0,
        hide_default_value = true,
        help_heading = "How much"
    )]
    time_limit: u64,
    /// waitforcompaction ends when the store has done nothing for so many milliseconds
    #[arg(
        long = "quiet_ms",
        alias = "quiet-ms",
        value_name = "MS",
        default_value_t = Settings::default().quiet.as_millis() as u64,
        help_heading = "How much"
    )]
    quiet_ms: u64,
    /// Tell in JSON how fast it was in each so many milliseconds; 0: not
    #[arg(
        long = "report_interval_ms",
        alias = "report-interval-ms",
        value_name = "MS",
        default_value_t = 0,
        hide_default_value = true,
        help_heading = "How much"
    )]
    report_interval_ms: u64,
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
    /// Puts that are written at once
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
    /// Look at values that were read, a byte of each 4 KiB; db_bench does not
    #[arg(long = "look_at_values", alias = "look-at-values", value_name = "0|1", default_value = "1", num_args = 0..=1, default_missing_value = "1", value_parser = parse_switch, action = clap::ArgAction::Set, help_heading = "Of what")]
    look_at_values: bool,
    /// How YCSB chooses records: zipfian (scrambled), latest or uniform [default: as each workload has it]
    #[arg(long = "request_distribution", aliases = ["request-distribution", "requestdistribution"], value_name = "NAME", value_parser = Distribution::by_name, help_heading = "Of what")]
    request_distribution: Option<Distribution>,
    /// YCSB's zipfian constant, between 0 and 1
    #[arg(long, value_name = "THETA", default_value_t = Settings::default().zipf, help_heading = "Of what")]
    zipf: f64,
}

impl WorkFlags {
    /// The same as settings; what is of the store (`sync`, `use_existing`) is as usual.
    pub fn settings(&self) -> Settings {
        Settings {
            num: self.num,
            writes: self.writes.and_then(|writes| writes.0),
            reads: self.reads.and_then(|reads| reads.0),
            operations: self.operations,
            duration: (self.duration > 0).then(|| Duration::from_secs(self.duration)),
            time_limit: (self.time_limit > 0).then(|| Duration::from_secs(self.time_limit)),
            quiet: Duration::from_millis(self.quiet_ms),
            report_interval: (self.report_interval_ms > 0).then(|| Duration::from_millis(self.report_interval_ms)),
            key_bytes: self.key_size,
            value_bytes: self.value_size,
            look_at_values: self.look_at_values,
            record_bytes: self.record_size,
            compression_ratio: self.compression_ratio,
            threads: self.threads,
            batch_size: self.batch_size,
            seek_nexts: self.seek_nexts,
            read_percent: self.readwritepercent,
            scan_records_max: self.scan_length,
            request_distribution: self.request_distribution,
            zipf: self.zipf,
            seed: self.seed,
            ..Settings::default()
        }
    }
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

/// A benchmark by its name.
pub fn parse_benchmark(name: &str) -> Result<Benchmark, String> {
    Benchmark::by_name(name.trim()).ok_or_else(|| {
        let names: Vec<&str> = BENCHMARKS.iter().map(|benchmark| benchmark.name).collect();
        format!("there are {}", names.join(" "))
    })
}

/// A switch as db_bench's users write it.
pub fn parse_switch(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "t" | "yes" | "y" => Ok(true),
        "0" | "false" | "f" | "no" | "n" => Ok(false),
        _ => Err("give 0 or 1".to_string()),
    }
}

/// The benchmarks with what they do, for `--help`.
pub fn benchmarks_help() -> String {
    let lines = BENCHMARKS.iter().map(|benchmark| format!("  {:<22} {}\n", benchmark.name, benchmark.about));
    format!("Benchmarks:\n{}", lines.collect::<String>())
}
