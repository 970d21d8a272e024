//! The paper's evaluation again: what it measured ([`evaluation`]), measured here ([`measure`]), as a page ([`page`]) and JSON.
//!
//! Section 6.1: a random write workload makes a store of 8 GB (`--scale` takes a part of that), 20-byte keys, N writes; each of the other
//! workloads does 0.2 × N operations, on what has been flushed, when the compactions after that have ended (section 6.3); but YCSB's, which go on from their
//! load. What is other than
//! there: write buffers are scaled with the data (so that there are as many flushes as there), and memory is limited only by the flag for
//! it (there: 4 GB for 8 GB of data).

mod evaluation;
mod page;

use std::ffi::OsString;

use clap::Parser;
use serde_json::{Map, Value, json};

use crate::arguments::{Command, Paper, Verb};
use crate::summary::{Row, Summary};
use crate::turns;

/// What the paper fills a store with, in bytes.
const DATA_BYTES: f64 = 8.0 * (1_u64 << 30) as f64;
/// Its write buffers, and the smallest here.
const WRITE_BUFFER_BYTES: f64 = (64 << 20) as f64;
const WRITE_BUFFER_BYTES_MIN: f64 = (1 << 20) as f64;

/// Measurements that belong together: the same stores at several points.
pub struct Sweep {
    /// Its name, in `--only` and in JSON.
    pub name: &'static str,
    /// Which stores; none: those of the command line.
    stores: Option<&'static str>,
    points: Vec<Point>,
}

/// A point: a group of bars.
struct Point {
    label: String,
    /// Each of these is done in a store of its own.
    loads: Vec<Load>,
}

/// What is done in one store.
struct Load {
    benchmarks: &'static str,
    value_bytes: u64,
    /// Of the paper's 8 GB.
    part: f64,
    range_keys: u64,
}

/// A sweep, measured.
struct Measured {
    name: &'static str,
    stores: Vec<String>,
    points: Vec<MeasuredPoint>,
}

struct MeasuredPoint {
    label: String,
    summaries: Vec<Summary>,
}

/// Both files' contents: JSON, and the page.
pub struct Report {
    /// Everything that was measured.
    pub json: Value,
    /// The pictures.
    pub page: String,
    /// A store has failed somewhere.
    pub has_failures: bool,
}

/// The names that `--only` takes.
pub fn sweep_names() -> Vec<&'static str> {
    evaluation::sweeps().into_iter().map(|sweep| sweep.name).collect()
}

/// Measures all of it, or what was asked for. `about` tells command and machine.
pub fn measure(paper: &Paper, about: Map<String, Value>, watch: &mut dyn FnMut(&str)) -> Result<Report, String> {
    let wanted = |sweep: &Sweep| paper.only.is_empty() || paper.only.iter().any(|name| name == sweep.name);
    let mut measured = Vec::new();
    for sweep in evaluation::sweeps().into_iter().filter(wanted) {
        measured.push(sweep.measure(paper, watch)?);
    }
    let all = || measured.iter().flat_map(|sweep| &sweep.points).flat_map(|point| &point.summaries);
    let page = page::page_of(paper.scale, &about, &measured);
    let mut json = Value::Object(about);
    json["scale"] = paper.scale.into();
    for sweep in &measured {
        let points = sweep.points.iter().map(|point| {
            let runs: Vec<Value> = point.summaries.iter().map(|summary| summary.json(Map::new())).collect();
            json!({ "point": point.label, "runs": runs })
        });
        json[sweep.name] = points.collect();
    }
    Ok(Report { page, has_failures: all().any(Summary::has_failures), json })
}

impl Sweep {
    fn measure(self, paper: &Paper, watch: &mut dyn FnMut(&str)) -> Result<Measured, String> {
        let own = self.stores.map(str::to_string);
        let stores =
            own.unwrap_or_else(|| paper.stores.0.iter().map(|store| store.name.as_str()).collect::<Vec<_>>().join(","));
        let mut points = Vec::new();
        for point in self.points {
            let summaries = point.loads.iter().map(|load| {
                load.measure(paper, &stores, &mut |turn| watch(&format!("{}, {}, {turn}", self.name, point.label)))
            });
            points.push(MeasuredPoint { summaries: summaries.collect::<Result<_, _>>()?, label: point.label });
        }
        let stores = points.iter().flat_map(|point| &point.summaries).map(|summary| summary.stores.clone()).next();
        Ok(Measured { name: self.name, stores: stores.unwrap_or_default(), points })
    }
}

impl Load {
    /// One run of the command, as `run` would have it.
    fn measure(&self, paper: &Paper, stores: &str, watch: &mut dyn FnMut(&str)) -> Result<Summary, String> {
        let writes = ((DATA_BYTES * self.part * paper.scale / self.value_bytes as f64) as u64).max(100);
        let operations = (writes / 5).max(20);
        let buffer_bytes = (WRITE_BUFFER_BYTES * paper.scale).clamp(WRITE_BUFFER_BYTES_MIN, WRITE_BUFFER_BYTES);
        // Of YCSB each load is of all records.
        let is_ycsb = self.benchmarks.starts_with("ycsb");
        let mut raw: Vec<OsString> = vec!["run".into()];
        raw.extend(
            [
                format!("--stores={stores}"),
                format!("--repeat={}", paper.repeat),
                format!("--benchmarks={}", self.benchmarks),
                format!("--num={writes}"),
                format!("--reads={}", if is_ycsb { writes } else { operations }),
                format!("--operations={operations}"),
                format!("--value_size={}", self.value_bytes),
                format!("--record_size={}", self.value_bytes),
                format!("--seek_nexts={}", self.range_keys),
                format!("--write_buffer_size={}", buffer_bytes as u64),
                "--key_size=20".to_string(),
            ]
            .map(OsString::from),
        );
        for (flag, directory) in [("--db", &paper.db), ("--pools", &paper.pools)] {
            raw.extend(directory.iter().flat_map(|directory| [flag.into(), directory.clone().into_os_string()]));
        }
        raw.extend(paper.loop_device.map(|bytes| OsString::from(format!("--loop-device={bytes}"))));
        raw.extend(paper.memory_limit.map(|bytes| OsString::from(format!("--memory-limit={bytes}"))));
        let program = [OsString::from("slmdb-compare")];
        let parsed = Command::try_parse_from(program.iter().chain(&raw)).map_err(|error| error.to_string())?;
        let Verb::Run(run) = parsed.verb else { return Err("`run` was not read as `run`".to_string()) };
        let names = run.stores.0.iter().map(|store| store.name.clone()).collect();
        Ok(Summary::of(names, &turns::take(&run, &raw, watch)?))
    }
}

impl MeasuredPoint {
    /// What one store did in a benchmark. Of two loads the first that has it counts.
    fn row(&self, benchmark: &str, store: usize) -> Option<&Row> {
        let mut phases = self.summaries.iter().flat_map(|summary| &summary.phases);
        phases.find(|phase| phase.benchmark == benchmark)?.rows.get(store)?.as_ref()
    }
}
