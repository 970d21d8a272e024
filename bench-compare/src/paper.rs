//! A paper's evaluation again: what it measured (`slm_db`, `lab_db`, `tlsm`), measured here ([`measure`]), as a page (`page`) and JSON.
//!
//! SLM-DB, section 6.1: a random write workload makes a store of 8 GB, 20-byte keys, N writes; each of the other workloads does 0.2 × N
//! operations, on what has been flushed, when the compactions after that have ended (section 6.3); but YCSB's, which go on from their load.
//! LAB-DB, section 4.1: 90 M keys of 8 bytes with values of 1 KiB; YCSB's workloads go on for an hour each there, and for half as many
//! operations as there are records here.
//!
//! TLSM, sections V-A and V-B: random writes of up to 12 GB, 16-byte keys, then random reads, without a rest in between.
//!
//! `--scale` takes a part of that. What is other than there: write buffers and levels are scaled with the data (so that there are as many
//! flushes and compactions as there), and memory is limited only by the flag for it (there: 4 GB for 8 GB of data, 16 GB for 90).

mod evaluation;
mod lab_db;
mod measured;
mod page;
mod slm_db;
mod tlsm;

use std::ffi::OsString;

use serde_json::{Map, Value, json};

use crate::arguments::{Design, Paper, Stores};
use crate::paper::evaluation::{Evaluation, Load, Sweep};
use crate::paper::measured::Measured;
use crate::plot::MeasuredPoint;
use crate::summary::Summary;
use crate::turns;

/// The write buffers of the papers, and the smallest here. Loads have multiples of them.
const WRITE_BUFFER_BYTES: f64 = (64 << 20) as f64;
const WRITE_BUFFER_BYTES_MIN: f64 = (1 << 20) as f64;

/// What the paper of a design measured.
fn evaluation_of(design: Design) -> Evaluation {
    match design {
        Design::Slm => slm_db::evaluation(),
        Design::Lab => lab_db::evaluation(),
        Design::Tlsm => tlsm::evaluation(),
    }
}

/// What `--only` takes.
fn sweep_names(evaluation: &Evaluation) -> Vec<&'static str> {
    evaluation.sweeps.iter().map(|sweep| sweep.name).collect()
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

/// What is the same for all that is measured.
struct Setup<'p> {
    paper: &'p Paper,
    evaluation: &'p Evaluation,
    scale: f64,
    /// Of the command line, or the evaluation's own.
    stores: String,
}

/// Measures all of it, or what was asked for. `about` tells command and machine.
pub fn measure(paper: &Paper, about: Map<String, Value>, watch: &mut dyn FnMut(&str)) -> Result<Report, String> {
    let evaluation = &evaluation_of(paper.paper);
    let known = sweep_names(evaluation);
    if let Some(other) = paper.only.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(format!("--only={other}: there are {}", known.join(", ")));
    }
    let scale = paper.scale.unwrap_or(evaluation.scale);
    let named = |stores: &Stores| stores.0.iter().map(|store| store.name.as_str()).collect::<Vec<_>>().join(",");
    let stores = paper.stores.as_ref().map_or_else(|| evaluation.sized(evaluation.stores, scale), named);
    let setup = Setup { paper, evaluation, scale, stores };
    let mut measured = Vec::new();
    for sweep in &evaluation.sweeps {
        if paper.only.is_empty() || paper.only.iter().any(|name| name == sweep.name) {
            measured.push(setup.measure_sweep(sweep, watch)?);
        }
    }
    let all = || measured.iter().flat_map(|sweep| &sweep.points).flat_map(|point| &point.summaries);
    let page = page::page_of(evaluation, scale, &about, &measured);
    let mut json = Value::Object(about);
    json["paper"] = evaluation.design.into();
    json["scale"] = scale.into();
    for sweep in &measured {
        let points = sweep.points.iter().map(|point| {
            let runs: Vec<Value> = point.summaries.iter().map(|summary| summary.json(Map::new())).collect();
            json!({ "point": point.label, "runs": runs })
        });
        json[sweep.name] = points.collect();
    }
    Ok(Report { page, has_failures: all().any(Summary::has_failures), json })
}

impl Setup<'_> {
    fn measure_sweep(&self, sweep: &Sweep, watch: &mut dyn FnMut(&str)) -> Result<Measured, String> {
        let stores = sweep.stores.map_or_else(|| self.stores.clone(), |own| self.evaluation.sized(own, self.scale));
        let mut points = Vec::new();
        for point in &sweep.points {
            let summaries = point.loads.iter().map(|load| {
                self.measure_load(load, &stores, &mut |turn| watch(&format!("{}, {}, {turn}", sweep.name, point.label)))
            });
            points.push(MeasuredPoint { summaries: summaries.collect::<Result<_, _>>()?, label: point.label.clone() });
        }
        let stores = points.iter().flat_map(|point| &point.summaries).map(|summary| summary.stores.clone()).next();
        Ok(Measured { name: sweep.name, stores: stores.unwrap_or_default(), points })
    }

    /// One run of the command, as `run` would have it.
    fn measure_load(&self, load: &Load, stores: &str, watch: &mut dyn FnMut(&str)) -> Result<Summary, String> {
        let paper = self.paper;
        let writes = ((load.keys * self.scale) as u64).max(100);
        let operations = ((writes as f64 * load.operations_part) as u64).max(20);
        let buffer_bytes = WRITE_BUFFER_BYTES * load.write_buffers;
        let buffer_bytes = (buffer_bytes * self.scale).clamp(WRITE_BUFFER_BYTES_MIN * load.write_buffers, buffer_bytes);
        // Of YCSB each load is of all records.
        let is_ycsb = load.benchmarks.starts_with("ycsb");
        let mut raw: Vec<OsString> = vec!["run".into()];
        raw.extend(
            [
                format!("--stores={stores}"),
                format!("--repeat={}", paper.repeat),
                format!("--benchmarks={}", load.benchmarks.replace("{five times}", &(5 * writes).to_string())),
                format!("--num={writes}"),
                format!("--reads={}", if is_ycsb { writes } else { operations }),
                format!("--operations={operations}"),
                format!("--value_size={}", load.value_bytes),
                format!("--record_size={}", load.value_bytes),
                format!("--seek_nexts={}", load.range_keys),
                format!("--write_buffer_size={}", buffer_bytes as u64),
                format!("--key_size={}", self.evaluation.key_bytes),
                format!("--threads={}", load.threads),
            ]
            .map(OsString::from),
        );
        raw.extend(load.flags.iter().map(OsString::from));
        raw.extend(paper.places.arguments());
        raw.extend(paper.memory_limit.map(|bytes| OsString::from(format!("--memory-limit={bytes}"))));
        turns::measured(&raw, watch)
    }
}
