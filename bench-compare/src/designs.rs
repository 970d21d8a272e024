//! The designs of slmdb side by side ([`measure`]): what is compared (`works`), what is told of it (`columns`), as a page
//! (`page`), as tables (`tables`) and as JSON.
//!
//! Each work is one run of the command with all stores that do it, so that they take turns whatever they lie on. Multiples are
//! of the first design on the same medium.

mod columns;
mod page;
mod tables;
mod works;

use std::ffi::OsString;

use serde_json::{Map, Value, json};

use self::works::{KEY_BYTES, Store, Work, works};
use crate::arguments::Designs;
use crate::plot::MeasuredPoint;
use crate::turns;

/// What every store is given, whatever the work.
const FLAGS: [&str; 5] = [
    "--compression_type=none",
    "--durability=process",
    "--write_buffer_size=8MiB",
    "--time_limit=20",
    "--seek_nexts=100",
];
const MEMORY_BUDGET_BYTES: u64 = 256 << 20;
/// The smallest memory limit, and what of it is the budget at least.
const MEMORY_LIMIT_BYTES_MIN: u64 = 96 << 20;
const MEMORY_BUDGET_BYTES_MIN: u64 = 8 << 20;
/// A store is at rest when it has done nothing for a second, or for this part of it, with small data for less.
const QUIET_MS: f64 = 1000.0;
const QUIET_MS_MIN: f64 = 50.0;

/// The contents of the three files.
pub struct Report {
    /// Everything, each repeat.
    pub json: Value,
    /// Pictures.
    pub page: String,
    /// Tables.
    pub tables: String,
    /// A store has failed somewhere.
    pub has_failures: bool,
}

/// A work, measured.
struct Measured {
    work: Work,
    stores: Vec<Store>,
    /// With labels of steps as names of benchmarks. No summary if it was skipped.
    point: MeasuredPoint,
    /// Why it was, if it was.
    skipped: Option<String>,
}

/// Measures all of it, or what was asked for. `about` tells command and machine.
pub fn measure(designs: &Designs, about: Map<String, Value>, watch: &mut dyn FnMut(&str)) -> Result<Report, String> {
    let works = works();
    let known: Vec<&str> = works.iter().map(|work| work.name).collect();
    if let Some(other) = designs.only.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(format!("--only={other}: there are {}", known.join(", ")));
    }
    let mut measured = Vec::new();
    for work in works {
        if designs.only.is_empty() || designs.only.iter().any(|name| name == work.name) {
            measured.push(measure_work(designs, work, watch)?);
        }
    }
    let (page, tables) = (page::page(designs, &about, &measured), tables::text(designs, &about, &measured));
    let mut json = Value::Object(about);
    json["scale"] = designs.scale.into();
    json["works"] = measured.iter().map(Measured::json).collect();
    let has_failures = measured.iter().any(|work| work.failures().next().is_some());
    Ok(Report { json, page, tables, has_failures })
}

fn measure_work(designs: &Designs, work: Work, watch: &mut dyn FnMut(&str)) -> Result<Measured, String> {
    let stores = work.stores(designs.scale);
    let raw = arguments(designs, &work, &stores);
    let limit = work.memory.map(|(limit_bytes, _)| limit_bytes);
    let skipped = turns::missing(limit, None);
    let mut point = MeasuredPoint { label: work.name.to_string(), summaries: Vec::new() };
    if skipped.is_none() {
        let mut summary = turns::measured(&raw, &mut |turn| watch(&format!("{}, {turn}", work.name)))?;
        for (phase, step) in summary.phases.iter_mut().zip(&work.steps) {
            phase.benchmark = step.label.to_string();
        }
        point.summaries.push(summary);
    }
    Ok(Measured { work, stores, point, skipped })
}

/// One run of the command.
fn arguments(designs: &Designs, work: &Work, stores: &[Store]) -> Vec<OsString> {
    let scaled = |bytes: u64, least: u64| ((bytes as f64 * designs.scale) as u64).max(least);
    let memory = work
        .memory
        .map(|(limit, budget)| (scaled(limit, MEMORY_LIMIT_BYTES_MIN), scaled(budget, MEMORY_BUDGET_BYTES_MIN)));
    let names: Vec<&str> = stores.iter().map(|store| store.name.as_str()).collect();
    let steps: Vec<String> = work.steps.iter().map(|step| step.argument(designs.scale)).collect();
    let is_ycsb = steps.iter().any(|step| step.starts_with("ycsb"));
    let mut raw: Vec<OsString> = vec!["run".into()];
    raw.extend(FLAGS.map(OsString::from));
    raw.extend(
        [
            format!("--stores={}", names.join(",")),
            format!("--benchmarks={}", steps.join(",")),
            format!("--repeat={}", designs.repeat),
            format!("--num={}", work.keys(designs.scale)),
            format!("--key_size={KEY_BYTES}"),
            format!("--value_size={}", work.value_bytes),
            format!("--record_size={}", work.value_bytes),
            format!("--memory_budget={}", memory.map_or(MEMORY_BUDGET_BYTES, |(_, budget_bytes)| budget_bytes)),
            format!("--threads={}", if is_ycsb { 2 } else { 1 }),
            format!("--quiet_ms={}", (QUIET_MS * designs.scale).clamp(QUIET_MS_MIN, QUIET_MS) as u64),
        ]
        .map(OsString::from),
    );
    raw.extend(memory.map(|(limit_bytes, _)| OsString::from(format!("--memory-limit={limit_bytes}"))));
    raw.extend(designs.places.arguments());
    raw
}

impl Measured {
    /// The stores that have failed, and why.
    fn failures(&self) -> impl Iterator<Item = (&Store, &str)> {
        let failures = self.point.summaries.iter().flat_map(|summary| &summary.failures);
        self.stores.iter().zip(failures).filter_map(|(store, failure)| Some((store, failure.as_deref()?)))
    }

    /// Of these places in the list the stores of a medium are.
    fn on(&self, medium: usize) -> Vec<usize> {
        let stores = self.stores.iter().enumerate();
        stores.filter(|(_, store)| store.medium == medium).map(|(at, _)| at).collect()
    }

    fn json(&self) -> Value {
        let stores = self.stores.iter().map(
            |store| json!({ "design": store.label, "medium": works::MEDIA[store.medium].name, "store": store.name }),
        );
        let mut object =
            json!({ "work": self.work.name, "about": self.work.about, "designs": stores.collect::<Vec<_>>() });
        if let Some(why) = &self.skipped {
            object["skipped"] = why.as_str().into();
        }
        if let Some(summary) = self.point.summaries.first() {
            object["run"] = summary.json(Map::new());
        }
        object
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::arguments::{Command, Verb};
    use crate::summary::Summary;
    use crate::turns::Turn;

    /// A work of all stores, the second of which has failed after its first step. Each has half the rate of the one before.
    fn measured() -> Measured {
        let work = works().remove(3);
        let stores = work.stores(1.0);
        let turn = |store: usize| {
            let rate = 1024.0 / (1 << store) as f64;
            let numbers = json!({ "ops_per_second": rate, "operations": 100, "cpu_seconds": 0.5 });
            let result = |label: &str| {
                let mut result = numbers.clone();
                result["benchmark"] = label.into();
                result
            };
            let done = if store == 1 { 1 } else { work.steps.len() };
            let results = work.steps[..done].iter().map(|step| result(step.label)).collect();
            Turn { store, setup: String::new(), results, failure: (store == 1).then(|| "no <space> left".to_string()) }
        };
        let turns: Vec<Turn> = (0..stores.len()).map(turn).collect();
        let summary = Summary::of(stores.iter().map(|store| store.name.clone()).collect(), &turns);
        let point = MeasuredPoint { label: String::new(), summaries: vec![summary] };
        Measured { work, stores, point, skipped: None }
    }

    #[test]
    fn a_store_that_has_failed_is_a_row_that_says_so() {
        let command = Command::try_parse_from(["slmdb-compare", "designs", "--only=skew"]).unwrap();
        let Verb::Designs(designs) = command.verb else { panic!("it is no `designs`") };
        let measured = [measured()];
        assert_eq!(measured[0].failures().count(), 1);
        let mut about = Map::new();
        about.insert("command".to_string(), json!(["designs"]));
        about.insert("machine".to_string(), json!({}));
        let tables = tables::text(&designs, &about, &measured);
        for line in [
            "| slm, plain memory | 1,024 | 1,024 | 1,024 | 1,024 | 1,024 |",
            "| lab (failed), plain memory | 512 | – | – | – | – |",
            "lab (failed), plain memory has failed: no <space> left",
            "| slm, a pool | 1 | 1 | 1 | 1 | 1 | 1 |",
            "| lab, a pool | far worse (0.50 ×) | far worse (0.50 ×) | – | – | – | – |",
        ] {
            assert!(tables.lines().any(|other| other == line), "{line}: {tables}");
        }
        assert!(!tables.contains(" 0 |"), "what can't be had is a dash");
        let page = page::page(&designs, &about, &measured);
        assert!(page.contains("<b>lab on plain memory has failed in skew</b>: no &lt;space&gt; left"), "{page}");
        // Rates and processor time, on each medium.
        assert_eq!(page.matches("<svg ").count(), 2 * 4);
        assert!(page.contains("<title>tlsm: 0.25</title>"));
        assert_eq!(measured[0].json()["run"]["stores"][1]["failed"], "no <space> left");
    }
}
