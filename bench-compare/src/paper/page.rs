//! The page: each figure with what the paper says of it.

use serde_json::{Map, Value};

use super::evaluation::{Evaluation, Figure, First, Lines, Measure, Plot};
use super::measured::Measured;
use crate::about::in_words;
use crate::chart::{Curves, escaped, legend, page, table};
use crate::plot::{MeasuredPoint, Shown, bars};

pub(super) fn page_of(
    evaluation: &Evaluation,
    scale: f64,
    about: &Map<String, Value>,
    measured: &[Measured],
) -> String {
    let (command, machine) = in_words(about);
    let mut body = format!(
        "<p><code>{}</code><br>{}</p>\n<p>Bars are multiples of the first store's, which stands above each group, unless the \
         title says a unit. Scale {scale}: that part of what the paper has, which is {}; write buffers are scaled alike.</p>\n",
        escaped(&command),
        escaped(&machine),
        escaped(evaluation.size_there),
    );
    let sweep = |name: &str| measured.iter().find(|sweep| sweep.name == name);
    body += &setups(measured);
    for figure in evaluation.figures {
        let Some(sweep) = sweep(figure.sweep) else { continue };
        body += &figure_of(figure, sweep);
    }
    page(&format!("slmdb: {}'s evaluation again", evaluation.design), &body)
}

/// How each store was set up, once for all.
fn setups(measured: &[Measured]) -> String {
    let mut told: Vec<&str> = Vec::new();
    let mut lines = String::new();
    for summary in measured.iter().flat_map(|sweep| &sweep.points).flat_map(|point| &point.summaries) {
        for ((store, setup), failure) in summary.stores.iter().zip(&summary.setups).zip(&summary.failures) {
            if let Some(failure) = failure {
                lines += &format!("<p><b>{} failed</b>: {}</p>\n", escaped(store), escaped(failure));
            }
            if !told.contains(&store.as_str()) {
                told.push(store);
                lines += &format!("<p><b>{}</b>: {}</p>\n", escaped(store), escaped(setup));
            }
        }
    }
    format!("<details><summary>How the stores were set up (sizes of the first load)</summary>\n{lines}</details>\n")
}

fn figure_of(figure: &Figure, sweep: &Measured) -> String {
    let mut text = format!("<h2>{}</h2>\n{}", escaped(figure.title), legend(&sweep.stores));
    text += &match figure.first {
        First::Nothing => String::new(),
        First::Lines(lines) => format!("<h3>{}</h3>\n{}", escaped(lines.title), table(&rows_of(lines, sweep))),
        First::Workloads { all, in_one_store } => workloads(all, in_one_store, sweep),
        First::OverTime(benchmark) => sweep.points.iter().map(|point| over_time(benchmark, point, sweep)).collect(),
    };
    let groups: Vec<String> = sweep.points.iter().map(|point| point.label.clone()).collect();
    for plot in figure.plots {
        let numbers: Vec<Vec<Option<f64>>> = (0..sweep.stores.len())
            .map(|store| sweep.points.iter().map(|point| plot.number(point, store)).collect())
            .collect();
        let title = match plot.measure.unit() {
            "" => plot.title.to_string(),
            unit if plot.measure.is_ratio() => format!("{} ({unit} above, multiples of it below)", plot.title),
            unit => format!("{}, {unit}", plot.title),
        };
        text += &bars(&title, &sweep.stores, &groups, &numbers, shown(plot.measure));
    }
    text + &format!("<p>{}</p>\n", escaped(figure.said))
}

/// Multiples of the first store's number, where that is meant.
fn shown(measure: Measure) -> Shown {
    if measure.is_ratio() { Shown::Multiples } else { Shown::Numbers }
}

/// Rows of a table: for each store, and what the paper has.
fn rows_of(lines: &Lines, sweep: &Measured) -> Vec<Vec<String>> {
    let titles = ["".to_string(), "store".to_string()];
    let labels = sweep.points.iter().map(|point| point.label.clone());
    let mut rows = vec![titles.into_iter().chain(labels).collect::<Vec<_>>()];
    for (plot, in_paper) in lines.rows {
        for (store, name) in sweep.stores.iter().enumerate() {
            let numbers = sweep.points.iter().map(|point| plot.number(point, store));
            let cells = numbers.map(|number| number.map_or_else(|| "-".to_string(), in_table));
            let title = if store == 0 { plot.title } else { "" };
            rows.push([title.to_string(), name.clone()].into_iter().chain(cells).collect());
        }
        for (name, numbers) in *in_paper {
            let missing = std::iter::repeat_n("-".to_string(), lines.unmeasured_points);
            let cells = missing.chain(numbers.iter().copied().map(in_table));
            rows.push([String::new(), (*name).to_string()].into_iter().chain(cells).collect());
        }
    }
    rows
}

/// A number in a table; the paper has none at some points.
fn in_table(number: f64) -> String {
    match number {
        number if number.is_nan() => "-".to_string(),
        number if number >= 1000.0 => slmdb_cli::units::count(number as u64),
        number => format!("{number:.2}"),
    }
}

/// How fast each store was from one moment to the next.
fn over_time(benchmark: &str, point: &MeasuredPoint, sweep: &Measured) -> String {
    let curve = |store| -> Option<Vec<(f64, f64)>> {
        let row = point.row(benchmark, store)?;
        Some(row.over_time("seconds")?.into_iter().zip(row.over_time("ops_per_second")?).collect())
    };
    let curves: Vec<Vec<(f64, f64)>> = (0..sweep.stores.len()).map(|store| curve(store).unwrap_or_default()).collect();
    let title = format!("{benchmark}, {}: op/s, by the seconds since it began", point.label);
    Curves { title: &title, curves: &curves }.svg()
}

/// For each size of records a picture of rates, of latencies and of bytes written, each with a group for a workload.
fn workloads(all: &'static [&'static str], in_one_store: &'static [&'static str], sweep: &Measured) -> String {
    let pictures = |what: &str,
                    groups: &[&'static str],
                    measure: Measure,
                    number: &dyn Fn(&MeasuredPoint, usize, usize) -> Option<f64>| {
        let names: Vec<String> = groups.iter().map(|name| name.to_string()).collect();
        let of_point = |point: &MeasuredPoint| {
            let of_store = |store| (0..groups.len()).map(|group| number(point, store, group)).collect();
            let numbers: Vec<Vec<Option<f64>>> = (0..sweep.stores.len()).map(of_store).collect();
            let title = format!("{what}, records of {} ({} above, multiples of it below)", point.label, measure.unit());
            bars(&title, &sweep.stores, &names, &numbers, shown(measure))
        };
        sweep.points.iter().map(of_point).collect::<String>()
    };
    let row_of = |benchmarks: &'static [&'static str], measure| {
        move |point: &MeasuredPoint, store, group: usize| {
            Plot { title: "", benchmarks: &benchmarks[group..=group], measure }.number(point, store)
        }
    };
    let latency = Measure::LatencyUs { keys: 1 };
    let written = Measure::BytesPerBytePut("device_written_bytes");
    let written_until = |point: &MeasuredPoint, store, group: usize| {
        Plot { title: "", benchmarks: &in_one_store[..=group], measure: written }.number(point, store)
    };
    pictures("(a) Throughput", all, Measure::Rate, &row_of(all, Measure::Rate))
        + &pictures("(b) Mean latency", all, latency, &row_of(all, latency))
        + &pictures("(c) Written to the device by the end of each", in_one_store, written, &written_until)
}
