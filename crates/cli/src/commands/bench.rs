//! `bench`: db_bench's and YCSB's work on this store, and what is measured beside it. The work itself is the crate
//! `slmdb-bench`; here are its flags and what is printed.

mod options;

use std::path::PathBuf;

use slmdb::Options;
use slmdb_bench::{Bench, Benchmark, EmptyOpener, Opener, Outcome, Settings, SlmOpener};
use tempfile::TempDir;

use crate::failure::{Exit, Failure, Result};
use crate::output::Output;
use crate::progress::Progress;

pub use options::Arguments;

/// Measures.
pub fn run(arguments: &Arguments) -> Result<Exit> {
    let settings = arguments.settings();
    settings.check()?;
    if arguments.empty {
        return measure(arguments, settings, Box::new(EmptyOpener));
    }
    let place = Place::of(arguments)?;
    let opener = SlmOpener::new("slmdb", &place.directory, place.options.clone());
    let measured = measure(arguments, settings, Box::new(opener));
    let cleared = place.clear();
    measured.and_then(|exit| cleared.map(|()| exit))
}

/// Where the store is.
struct Place {
    directory: PathBuf,
    options: Options,
    /// Nobody has named a directory.
    temporary: Option<TempDir>,
}

impl Place {
    fn of(arguments: &Arguments) -> Result<Place> {
        let options = arguments.options()?;
        if let Some(directory) = &arguments.db {
            return Ok(Place { directory: directory.clone(), options, temporary: None });
        }
        let temporary = tempfile::Builder::new().prefix("slmdb-bench-").tempdir();
        let temporary = temporary.map_err(|error| Failure::io("create", std::env::temp_dir(), error))?;
        Ok(Place { directory: temporary.path().join("db"), options, temporary: Some(temporary) })
    }

    /// Removes what nobody has asked to be kept, the pool included.
    fn clear(self) -> Result<()> {
        let Some(temporary) = self.temporary else { return Ok(()) };
        if self.directory.exists() {
            slmdb::destroy(&self.directory, &self.options)?;
        }
        let path = temporary.path().to_path_buf();
        temporary.close().map_err(|error| Failure::io("remove", path, error))
    }
}

fn measure(arguments: &Arguments, settings: Settings, opener: Box<dyn Opener>) -> Result<Exit> {
    let mut output = Output::standard();
    if !arguments.json {
        header(arguments, &settings).iter().try_for_each(|line| output.line(line))?;
        output.flush()?;
    }
    let mut bench = Bench::new(opener, settings)?;
    for benchmark in &arguments.benchmarks {
        let outcome = watched(&mut bench, *benchmark)?;
        if arguments.json {
            output.line(&outcome.json(*benchmark, bench.name()).to_string())?;
        } else {
            for line in lines_of(arguments, *benchmark, &outcome) {
                output.line(&line)?;
            }
        }
        output.flush()?;
    }
    bench.close()?;
    Ok(Exit::Done)
}

/// One benchmark, with a bar on a terminal.
fn watched(bench: &mut Bench, benchmark: Benchmark) -> Result<Outcome> {
    let mut bar = None;
    let outcome = bench.run(benchmark, &mut |progress| {
        let bar = bar.get_or_insert_with(|| Progress::of_operations(benchmark.name, progress.of));
        bar.at(progress.done);
    })?;
    Ok(outcome)
}

/// What db_bench prints first.
fn header(arguments: &Arguments, settings: &Settings) -> Vec<String> {
    let Settings { num, key_bytes, value_bytes, compression_ratio, threads, seed, .. } = settings;
    let megabytes = |value_bytes: f64| (*key_bytes as f64 + value_bytes) * *num as f64 / 1_048_576.0;
    let compressed_bytes = *value_bytes as f64 * compression_ratio;
    vec![
        format!("slmdb:      version {}", env!("CARGO_PKG_VERSION")),
        format!("Medium:     {}", if arguments.empty { "none: a store that does nothing" } else { arguments.medium() }),
        format!("Keys:       {key_bytes} bytes each"),
        format!("Values:     {value_bytes} bytes each ({compressed_bytes:.0} bytes after compression)"),
        format!("Entries:    {num}"),
        format!("RawSize:    {:.1} MB (estimated)", megabytes(*value_bytes as f64)),
        format!("FileSize:   {:.1} MB (estimated, if compressed)", megabytes(compressed_bytes)),
        format!("Compression: {}", arguments.compression()),
        format!("Threads:    {threads}; seed {seed}{}", if settings.sync { "; every write synced" } else { "" }),
        "-".repeat(48),
    ]
}

fn lines_of(arguments: &Arguments, benchmark: Benchmark, outcome: &Outcome) -> Vec<String> {
    let mut lines = Vec::new();
    match outcome {
        Outcome::Measured(phase) => {
            lines.push(phase.line());
            lines.extend(phase.lines_beside());
            if arguments.histogram {
                lines.push(phase.histograms());
            }
        }
        Outcome::Skipped(why) => lines.push(format!("{:<12} : skipped ({why})", benchmark.name)),
        Outcome::Described(text) => lines.push(format!("\n{}", text.as_deref().unwrap_or("(the store says nothing)"))),
    }
    lines
}
