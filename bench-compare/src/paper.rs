//! The paper's evaluation again, as far as it is here: Figure 6 with Table 2 (db_bench's work over value sizes) and Figure 7 (YCSB).
//!
//! Section 6.1: a random write workload makes a store of 8 GB (`--scale` takes a part of that), 20-byte keys, N writes; each of the other
//! workloads does 0.2 × N operations, on what has been flushed. Ratios are to LevelDB, as there. What is other than there: nothing
//! waits for compactions to end, and memory is limited only by the flag for it (there: 4 GB for 8 GB of data).

use std::ffi::OsString;

use clap::Parser;
use serde_json::{Map, Value, json};

use crate::arguments::{Command, Paper, Verb};
use crate::chart::{Chart, escaped, legend, page, table};
use crate::summary::{Row, Summary};
use crate::turns;

/// What the paper fills a store with, in bytes.
const DATA_BYTES: f64 = 8.0 * (1_u64 << 30) as f64;
/// Of values. Those of 128 bytes are in its section 6.5, and not with YCSB.
const VALUE_BYTES: [u64; 5] = [128, 1 << 10, 4 << 10, 16 << 10, 64 << 10];

/// Figure 6: what it calls a workload, what db_bench does, and Table 2's microseconds for values of 1, 4, 16 and 64 KB.
const MICRO: [(&str, &str, [f64; 4]); 4] = [
    ("Random write", "fillrandom", [25.14, 77.44, 262.41, 1065.68]),
    ("Random read", "readrandom", [323.56, 338.25, 406.94, 851.98]),
    ("Range query (100 keys), for each key", "seekrandom", [14.68, 25.15, 54.41, 307.71]),
    ("Sequential read", "readseq", [4.74, 19.35, 80.74, 182.28]),
];
const MICRO_BENCHMARKS: &str = "fillrandom,flush,readrandom,seekrandom,readseq";
const RANGE_KEYS: u64 = 100;

/// Figure 7: one store does A, B, C, F and D; another does E.
const YCSB: [&str; 2] = ["ycsbload,ycsba,ycsbb,ycsbc,ycsbf,ycsbd", "ycsbload,ycsbe"];
const WORKLOADS: [&str; 7] = ["ycsbload", "ycsba", "ycsbb", "ycsbc", "ycsbd", "ycsbe", "ycsbf"];

/// What was measured with values of one size.
struct Measured {
    value_bytes: u64,
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

/// Measures all of it. `about` tells command and machine.
pub fn measure(paper: &Paper, about: Map<String, Value>, watch: &mut dyn FnMut(&str)) -> Result<Report, String> {
    let mut micro = Vec::new();
    let mut ycsb = Vec::new();
    for value_bytes in VALUE_BYTES {
        let writes = ((DATA_BYTES * paper.scale / value_bytes as f64) as u64).max(100);
        let operations = (writes / 5).max(20);
        let mut run = |what: &str, benchmarks: &str| {
            let flags = [
                format!("--benchmarks={benchmarks}"),
                format!("--num={writes}"),
                format!("--reads={}", if benchmarks == MICRO_BENCHMARKS { operations } else { writes }),
                format!("--operations={operations}"),
                format!("--value_size={value_bytes}"),
                format!("--record_size={value_bytes}"),
                format!("--seek_nexts={RANGE_KEYS}"),
                "--key_size=20".to_string(),
            ];
            summary_of(paper, &flags, &mut |turn| watch(&format!("{what}, {value_bytes} bytes, {turn}")))
        };
        micro.push(Measured { value_bytes, summaries: vec![run("Figure 6", MICRO_BENCHMARKS)?] });
        if value_bytes >= 1 << 10 {
            let summaries = YCSB.map(|benchmarks| run("Figure 7", benchmarks));
            ycsb.push(Measured { value_bytes, summaries: summaries.into_iter().collect::<Result<_, _>>()? });
        }
    }
    let has_failures = micro.iter().chain(&ycsb).flat_map(|measured| &measured.summaries).any(Summary::has_failures);
    let page = page_of(paper, &about, &micro, &ycsb);
    let mut json = Value::Object(about);
    json["scale"] = paper.scale.into();
    json["figure_6"] = json_of(&micro);
    json["figure_7"] = json_of(&ycsb);
    Ok(Report { json, page, has_failures })
}

/// One run of the command, as `run` would have it.
fn summary_of(paper: &Paper, flags: &[String], watch: &mut dyn FnMut(&str)) -> Result<Summary, String> {
    let mut raw: Vec<OsString> = vec!["run".into()];
    let names: Vec<&str> = paper.stores.0.iter().map(|store| store.name.as_str()).collect();
    raw.push(format!("--stores={}", names.join(",")).into());
    raw.push(format!("--repeat={}", paper.repeat).into());
    raw.extend(flags.iter().map(OsString::from));
    for (flag, directory) in [("--db", &paper.db), ("--pools", &paper.pools)] {
        raw.extend(directory.iter().flat_map(|directory| [flag.into(), directory.clone().into_os_string()]));
    }
    if let Some(bytes) = paper.memory_limit {
        raw.push(format!("--memory-limit={bytes}").into());
    }
    let program = [OsString::from("slmdb-compare")];
    let parsed = Command::try_parse_from(program.iter().chain(&raw)).map_err(|error| error.to_string())?;
    let Verb::Run(run) = parsed.verb else { return Err("`run` was not read as `run`".to_string()) };
    let turns = turns::take(&run, &raw, watch)?;
    Ok(Summary::of(names.into_iter().map(str::to_string).collect(), &turns))
}

impl Measured {
    fn json(&self) -> Value {
        let runs: Vec<Value> = self.summaries.iter().map(|summary| summary.json(Map::new())).collect();
        json!({ "value_bytes": self.value_bytes, "runs": runs })
    }

    /// One benchmark's rows, one a store. Of two loads the first counts.
    fn rows(&self, benchmark: &str) -> Option<&[Option<Row>]> {
        let mut phases = self.summaries.iter().flat_map(|summary| &summary.phases);
        phases.find(|phase| phase.benchmark == benchmark).map(|phase| phase.rows.as_slice())
    }

    fn row(&self, benchmark: &str, store: usize) -> Option<&Row> {
        self.rows(benchmark)?.get(store)?.as_ref()
    }

    fn size(&self) -> String {
        slmdb_cli::units::bytes(self.value_bytes)
    }

    /// The first store's rate, which ratios are to.
    fn note(&self, benchmark: &str) -> String {
        let rate = self.row(benchmark, 0).map(|row| row.rate.median);
        rate.map_or_else(String::new, |rate| format!("{:.1} kop/s", rate / 1e3))
    }
}

fn json_of(all: &[Measured]) -> Value {
    all.iter().map(Measured::json).collect()
}

fn page_of(paper: &Paper, about: &Map<String, Value>, micro: &[Measured], ycsb: &[Measured]) -> String {
    let stores: Vec<String> = paper.stores.0.iter().map(|store| store.name.clone()).collect();
    let ratios = |measured: &Measured, benchmark: &str, store| measured.row(benchmark, store).and_then(|row| row.ratio);
    let words: Vec<&str> = about["command"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut body = format!(
        "<p><code>slmdb-compare {}</code><br>{}</p>\n<p>Bars are rates, as multiples of the first store's, which stands above each \
         group. Scale {}: {:.0} MB of values in each store, where the paper has 8 GB.</p>\n",
        escaped(&words.join(" ")),
        escaped(&about["machine"].to_string()),
        paper.scale,
        DATA_BYTES * paper.scale / 1_048_576.0,
    );
    for setup in micro.first().into_iter().flat_map(|measured| &measured.summaries) {
        let lines = setup.stores.iter().zip(&setup.setups);
        body += &lines
            .map(|(store, setup)| format!("<p><b>{}</b>: {}</p>\n", escaped(store), escaped(setup)))
            .collect::<String>();
    }

    body += "<h2>Figure 6: db_bench's work over value sizes</h2>\n";
    body += &legend(&stores);
    let sizes: Vec<String> = micro.iter().map(Measured::size).collect();
    for (title, benchmark, _) in MICRO {
        let series: Vec<Vec<Option<f64>>> = (0..stores.len())
            .map(|store| micro.iter().map(|measured| ratios(measured, benchmark, store)).collect())
            .collect();
        let notes: Vec<String> = micro.iter().map(|measured| measured.note(benchmark)).collect();
        body += &Chart { title, groups: &sizes, notes: &notes, series: &series }.svg();
    }
    body += "<p>The paper has SLM-DB at 1.56 to 2.22 times LevelDB's random writes from 1 KB up, 0.64 times at 128 B; at 1.07 to 1.96 \
             times its random reads.</p>\n";

    body += "<h2>Table 2: microseconds an operation</h2>\n";
    body += &table(&latencies(&stores, &sizes, micro));

    body += "<h2>Figure 7: YCSB</h2>\n";
    body += &legend(&stores);
    let workloads = WORKLOADS.map(str::to_string);
    for measured in ycsb {
        let series: Vec<Vec<Option<f64>>> = (0..stores.len())
            .map(|store| WORKLOADS.iter().map(|workload| ratios(measured, workload, store)).collect())
            .collect();
        let notes: Vec<String> = WORKLOADS.iter().map(|workload| measured.note(workload)).collect();
        let title = format!("Records of {}", measured.size());
        body += &Chart { title: &title, groups: &workloads, notes: &notes, series: &series }.svg();
    }
    page("slmdb: the paper's Figure 6, Table 2 and Figure 7", &body)
}

/// Lines of Table 2: each workload for each store, and what the paper has for SLM-DB.
fn latencies(stores: &[String], sizes: &[String], micro: &[Measured]) -> Vec<Vec<String>> {
    let titles = ["".to_string(), "store".to_string()];
    let mut lines = vec![titles.into_iter().chain(sizes.iter().cloned()).collect::<Vec<_>>()];
    for (title, benchmark, in_paper) in MICRO {
        // A range is one operation here, and there 100.
        let keys = if benchmark == "seekrandom" { RANGE_KEYS as f64 } else { 1.0 };
        for (store, name) in stores.iter().enumerate() {
            let cells = micro.iter().map(|measured| {
                let mean_ns = measured.row(benchmark, store).and_then(|row| row.median("mean_ns"));
                mean_ns.map_or_else(|| "-".to_string(), |ns| format!("{:.2}", ns / 1e3 / keys))
            });
            lines.push([title.to_string(), name.clone()].into_iter().chain(cells).collect());
        }
        let there = in_paper.iter().map(|us| format!("{us:.2}"));
        let line = [title.to_string(), "SLM-DB in the paper".to_string(), "-".to_string()];
        lines.push(line.into_iter().chain(there).collect());
    }
    lines
}
