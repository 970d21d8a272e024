//! [`svg`]: one picture of the rates that runs have measured. It stands alone, so README can show it.

use clap::Parser;
use serde_json::Value;
use slmdb_bench::Settings;
use slmdb_cli::units::count;

use crate::arguments::{Command, Verb};
use crate::chart::{Chart, HEIGHT, LEFT, SVG_STYLE, WIDTH, escaped, legend_svg};

const TITLE: &str = "Thousands of operations a second";
/// The legend's columns, and the space to the right of the last chart.
const COLUMNS: usize = 4;
const RIGHT: f64 = 16.0;
/// Where the charts begin, and the legend.
const CHARTS: f64 = 54.0;
const LEGEND: f64 = CHARTS + HEIGHT - 10.0;

/// The ground is the picture's own: a page may be dark where the system is not.
const STYLE: &str = "\
svg .whole { font-size: 16px; font-weight: 600 } .ground { fill: #fff }
@media (prefers-color-scheme: dark) {
  .ground { fill: #0d1117 } svg text { fill: #e6edf3 } svg .note { fill: #9198a1 } svg .grid { stroke: #30363d }
}
";

/// Draws what `run --json` has printed: a chart for each of four benchmarks. If several runs have a rate, the first one's counts.
pub fn svg(runs: &[Value]) -> Result<String, String> {
    let settings: Vec<Settings> = runs.iter().map(settings_of).collect::<Result<_, _>>()?;
    let range_keys = settings.iter().map(|settings| settings.seek_nexts).max().unwrap_or(0);
    let groups = [
        ("filluniquerandom", "fill".to_string()),
        ("readrandom", "read".to_string()),
        ("overwrite", "overwrite".to_string()),
        ("seekrandom", format!("range of {range_keys}")),
    ];
    let (mut stores, mut labels) = (Vec::new(), Vec::new());
    for store in runs.iter().flat_map(|run| list(&run["stores"])) {
        if !stores.contains(&&store["name"]) {
            stores.push(&store["name"]);
            labels.push(label(store));
        }
    }
    let width = (WIDTH - RIGHT) / groups.len() as f64;
    let mut charts = String::new();
    for (at, (benchmark, title)) in groups.iter().enumerate() {
        let series: Vec<Vec<Option<f64>>> = stores.iter().map(|store| vec![rate(runs, benchmark, store)]).collect();
        if series.iter().flatten().flatten().next().is_none() {
            return Err(format!("no run has a rate of {benchmark}"));
        }
        let chart = Chart {
            title,
            width,
            names: &labels,
            groups: &[String::new()],
            notes: &[],
            series: &series,
            has_line_at_one: false,
            labels: &labels_of(&series),
        };
        charts += &format!("<g transform=\"translate({} {CHARTS})\">\n{}</g>\n", width * at as f64, chart.svg());
    }
    let height = LEGEND + 18.0 * labels.len().div_ceil(COLUMNS) as f64 + 8.0;
    let about = settings.first().map_or_else(String::new, |settings| {
        format!(
            "{} keys of {} bytes, values of {} bytes; higher is faster; each group has a scale of its own",
            count(settings.num),
            settings.key_bytes,
            count(settings.value_bytes as u64)
        )
    });
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         role=\"figure\" aria-label=\"{TITLE}\" font-family=\"system-ui, sans-serif\">\n<style>\n{SVG_STYLE}{STYLE}</style>\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" rx=\"6\" class=\"ground\"/>\n\
         <text x=\"{LEFT}\" y=\"24\" class=\"whole\">{TITLE}</text><text x=\"{LEFT}\" y=\"43\">{}</text>\n\
         {charts}<g transform=\"translate(0 {LEGEND})\">\n{}</g>\n</svg>\n",
        escaped(&about),
        legend_svg(&labels, COLUMNS, width),
    ))
}

/// How much a run was told to do, and of what.
fn settings_of(run: &Value) -> Result<Settings, String> {
    let words = list(&run["command"]).filter_map(Value::as_str);
    match Command::try_parse_from(["slmdb-compare"].into_iter().chain(words)).map(|command| command.verb) {
        Ok(Verb::Run(run)) => Ok(run.settings()),
        Ok(_) => Err("this is of another command than `run`".to_string()),
        Err(error) => Err(format!("the command of a run: {error}")),
    }
}

/// Thousands a second: a benchmark's first median of a store.
fn rate(runs: &[Value], benchmark: &str, store: &Value) -> Option<f64> {
    let of_run = |run: &Value| {
        let phase = list(&run["benchmarks"]).find(|phase| phase["benchmark"] == benchmark)?;
        let row = list(&phase["stores"]).find(|row| row["store"] == *store)?;
        Some(row["ops_per_second"]["median"].as_f64()? / 1e3)
    };
    runs.iter().find_map(of_run)
}

/// The numbers of bars, to stand above them.
fn labels_of(series: &[Vec<Option<f64>>]) -> Vec<Vec<String>> {
    let text = |number: &Option<f64>| {
        number.map_or_else(String::new, |number| format!("{number:.*}", usize::from(number < 10.0)))
    };
    series.iter().map(|numbers| numbers.iter().map(text).collect()).collect()
}

/// A store's name for people: a peer with its version, which its setup begins with, and the options.
fn label(store: &Value) -> String {
    let name = store["name"].as_str().unwrap_or("?");
    let (kind, options) = name.split_once(':').unwrap_or((name, ""));
    let setup = store["setup"].as_str().and_then(|setup| setup.split([':', '(']).next()).unwrap_or("").trim();
    let kind = if kind == "slmdb" || setup.is_empty() { kind } else { setup };
    let options = options.split(',').filter(|option| !option.is_empty());
    std::iter::once(kind.to_string())
        .chain(options.map(|option| option.replace('=', " ")))
        .collect::<Vec<_>>()
        .join(", ")
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A run of two stores, with these rates of the first; the second is ten times slower.
    fn run(arguments: &[&str], rates: &[(&str, f64)]) -> Value {
        let command: Vec<&&str> = ["run", "--json"].iter().chain(arguments).collect();
        let benchmarks = rates.iter().map(|(benchmark, rate)| {
            json!({ "benchmark": benchmark, "stores": [
                { "store": "slmdb:engine=lab", "ops_per_second": { "median": rate } },
                { "store": "rocksdb", "ops_per_second": { "median": rate / 10.0 } },
            ] })
        });
        json!({
            "command": command,
            "stores": [
                { "name": "slmdb:engine=lab", "setup": "memory budget 1 MiB" },
                { "name": "rocksdb", "setup": "RocksDB <7.8>: block cache 1 MiB" },
            ],
            "benchmarks": benchmarks.collect::<Vec<_>>(),
        })
    }

    #[test]
    fn each_store_has_a_bar_for_each_benchmark() {
        let runs = [
            run(&["--num=5000"], &[("filluniquerandom", 6e5), ("readrandom", 5e5), ("readrandom", 1.0)]),
            run(&["--seek_nexts=100"], &[("readrandom", 2.0), ("overwrite", 4e5), ("seekrandom", 3e4)]),
        ];
        let svg = svg(&runs).unwrap();
        let document = roxmltree::Document::parse(&svg).unwrap();
        let root = document.root_element();
        assert_eq!((root.tag_name().name(), root.tag_name().namespace()), ("svg", Some("http://www.w3.org/2000/svg")));
        let charts = root.descendants().filter(|node| *node != root && node.has_tag_name(root.tag_name()));
        let told: Vec<(&str, Vec<&str>)> = charts
            .map(|chart| {
                let titles = chart.descendants().filter(|node| node.tag_name().name() == "title");
                (chart.attribute("aria-label").unwrap(), titles.filter_map(|title| title.text()).collect())
            })
            .collect();
        let expected = [
            ("fill", vec!["slmdb, engine lab: 600.00", "RocksDB <7.8>: 60.00"]),
            ("read", vec!["slmdb, engine lab: 500.00", "RocksDB <7.8>: 50.00"]),
            ("overwrite", vec!["slmdb, engine lab: 400.00", "RocksDB <7.8>: 40.00"]),
            ("range of 100", vec!["slmdb, engine lab: 30.00", "RocksDB <7.8>: 3.00"]),
        ];
        assert_eq!(told, expected);
        assert!(svg.contains(">5,000 keys of 16 bytes, values of 100 bytes;"), "{svg}");
        assert!(!svg.contains("<script") && svg.contains("prefers-color-scheme: dark"));
    }

    #[test]
    fn what_is_missing_is_told() {
        let error = svg(&[run(&[], &[("filluniquerandom", 1.0)])]).unwrap_err();
        assert_eq!(error, "no run has a rate of readrandom");
        assert!(svg(&[json!({ "command": ["paper"] })]).unwrap_err().contains("another command"));
    }
}
