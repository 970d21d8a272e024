//! [`Summary`]: what all turns together say: for each benchmark and store the median over the repeats, the spread, and the
//! ratio to the first store.

use serde_json::{Map, Value, json};

use crate::turns::Turn;

/// What is told beside the rate: the name in a benchmark's object, and whether the worst of all repeats is told instead of the
/// median.
pub const BESIDE: [(&str, bool); 17] = [
    ("p50_ns", false),
    ("p99_ns", false),
    ("p99_9_ns", false),
    ("p99_99_ns", false),
    ("max_ns", true),
    ("file_written_bytes_asked_per_byte_put", false),
    ("device_written_bytes_per_byte_put", false),
    ("device_read_bytes", false),
    ("space_bytes", false),
    ("resident_bytes", false),
    ("resident_anonymous_bytes", false),
    ("fast_tier_bytes_asked", false),
    ("fast_tier_bytes_flushed", false),
    ("fast_tier_media_bytes", false),
    ("fast_tier_bytes", false),
    ("fast_tier_index_bytes_per_key", false),
    ("cpu_seconds", false),
];

/// All of a run.
#[derive(Debug)]
pub struct Summary {
    /// The stores' names, the one first that ratios are to.
    pub stores: Vec<String>,
    /// How each was set up.
    pub setups: Vec<String>,
    /// Why a store failed, if it did.
    pub failures: Vec<Option<String>>,
    /// One a benchmark, in their order.
    pub phases: Vec<PhaseSummary>,
}

/// One benchmark.
#[derive(Debug)]
pub struct PhaseSummary {
    /// Its name.
    pub benchmark: String,
    /// One a store, in their order; none if it was never measured.
    pub rows: Vec<Option<Row>>,
    /// What each store has said of itself the last time it was asked to (`stats`), which is no number.
    pub texts: Vec<Option<String>>,
}

/// One store in one benchmark.
#[derive(Debug)]
pub struct Row {
    /// Operations a second.
    pub rate: Spread,
    /// The median rate to that of the first store.
    pub ratio: Option<f64>,
    /// [`BESIDE`], in that order; none where it could not be had.
    pub beside: [Option<f64>; BESIDE.len()],
    /// Every repeat's object.
    pub runs: Vec<Value>,
}

/// A number over the repeats.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Half are above, half below.
    pub median: f64,
    /// The smallest.
    pub minimum: f64,
    /// The largest.
    pub maximum: f64,
}

impl Spread {
    /// Of these; none of none.
    pub fn of(numbers: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut numbers: Vec<f64> = numbers.into_iter().collect();
        numbers.sort_by(f64::total_cmp);
        let (minimum, maximum) = (*numbers.first()?, *numbers.last()?);
        let (half, count) = (numbers.len() / 2, numbers.len());
        let median = if count % 2 == 1 { numbers[half] } else { (numbers[half - 1] + numbers[half]) / 2.0 };
        Some(Spread { median, minimum, maximum })
    }

    fn json(self) -> Value {
        json!({ "median": self.median, "min": self.minimum, "max": self.maximum })
    }
}

/// A benchmark's number by its name, wherever in the object it is.
fn number(object: &Value, name: &str) -> Option<f64> {
    object.get(name).or_else(|| object.get("latency")?.get(name))?.as_f64()
}

impl Row {
    fn of(runs: Vec<Value>) -> Option<Row> {
        let all = |name: &str| Spread::of(runs.iter().filter_map(|run| number(run, name)));
        let rate = all("ops_per_second")?;
        let beside = BESIDE.map(|(name, worst)| all(name).map(|of| if worst { of.maximum } else { of.median }));
        Some(Row { rate, ratio: None, beside, runs })
    }

    /// One of [`BESIDE`], by its name.
    pub fn beside(&self, name: &str) -> Option<f64> {
        BESIDE.iter().zip(self.beside).find_map(|((own, _), number)| number.filter(|_| *own == name))
    }

    /// The median over the repeats of another number, by its name.
    pub fn median(&self, name: &str) -> Option<f64> {
        self.spread(name).map(|spread| spread.median)
    }

    /// The largest over the repeats, by its name.
    pub fn worst(&self, name: &str) -> Option<f64> {
        self.spread(name).map(|spread| spread.maximum)
    }

    fn spread(&self, name: &str) -> Option<Spread> {
        Spread::of(self.runs.iter().filter_map(|run| number(run, name)))
    }

    /// A list of what was seen over time, in the first repeat, by its name; none if nothing was.
    pub fn over_time(&self, name: &str) -> Option<Vec<f64>> {
        let numbers = self.runs.first()?.get("over_time")?.get(name)?.as_array()?;
        numbers.iter().map(Value::as_f64).collect()
    }

    fn json(&self, store: &str) -> Value {
        let mut object = json!({ "store": store, "ops_per_second": self.rate.json() });
        if let Some(ratio) = self.ratio {
            object["ratio"] = ratio.into();
        }
        for ((name, _), number) in BESIDE.iter().zip(self.beside) {
            if let Some(number) = number {
                object[*name] = number.into();
            }
        }
        object["runs"] = Value::Array(self.runs.clone());
        object
    }
}

impl Summary {
    /// Of all turns of these stores.
    pub fn of(stores: Vec<String>, turns: &[Turn]) -> Summary {
        let of_store = |store: usize| turns.iter().filter(move |turn| turn.store == store);
        let setups = (0..stores.len()).map(|store| of_store(store).map(|turn| turn.setup.clone()).next());
        let setups: Vec<String> = setups.map(Option::unwrap_or_default).collect();
        let failures = (0..stores.len()).map(|store| of_store(store).find_map(|turn| turn.failure.clone())).collect();
        let benchmarks = turns.iter().map(|turn| turn.results.len()).max().unwrap_or(0);
        let phases = (0..benchmarks).map(|at| {
            let result = |turn: &Turn| turn.results.get(at).cloned();
            let benchmark = turns.iter().find_map(|turn| Some(result(turn)?["benchmark"].as_str()?.to_string()));
            let rows = (0..stores.len()).map(|store| Row::of(of_store(store).filter_map(result).collect()));
            let mut rows: Vec<Option<Row>> = rows.collect();
            let first = rows.first().and_then(|row| Some(row.as_ref()?.rate.median));
            for row in rows.iter_mut().flatten() {
                row.ratio = first.filter(|first| *first > 0.0).map(|first| row.rate.median / first);
            }
            let text = |store| {
                of_store(store).filter_map(|turn| Some(result(turn)?["text"].as_str()?.to_string())).next_back()
            };
            let texts = (0..stores.len()).map(text).collect();
            PhaseSummary { benchmark: benchmark.unwrap_or_default(), rows, texts }
        });
        let phases = phases.collect();
        Summary { stores, setups, failures, phases }
    }

    /// Whether a store failed.
    pub fn has_failures(&self) -> bool {
        self.failures.iter().any(Option::is_some)
    }

    /// Everything, as one object; `about` tells how it was measured.
    pub fn json(&self, about: Map<String, Value>) -> Value {
        let stores = self.stores.iter().zip(&self.setups).zip(&self.failures).map(|((name, setup), failure)| {
            let mut object = json!({ "name": name, "setup": setup });
            if let Some(failure) = failure {
                object["failed"] = failure.as_str().into();
            }
            object
        });
        let phases = self.phases.iter().map(|phase| {
            let rows = self.stores.iter().zip(&phase.rows);
            let rows: Vec<Value> = rows.filter_map(|(store, row)| Some(row.as_ref()?.json(store))).collect();
            let mut object = json!({ "benchmark": phase.benchmark, "stores": rows });
            let texts = self.stores.iter().zip(&phase.texts);
            let texts: Map<String, Value> =
                texts.filter_map(|(store, text)| Some((store.clone(), text.clone()?.into()))).collect();
            if !texts.is_empty() {
                object["texts"] = texts.into();
            }
            object
        });
        let mut object = Value::Object(about);
        object["stores"] = stores.collect();
        object["benchmarks"] = phases.collect();
        object
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        let spread = |median, minimum, maximum| Some(Spread { median, minimum, maximum });
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([3.0]), spread(3.0, 3.0, 3.0));
        assert_eq!(Spread::of([9.0, 1.0, 2.0]), spread(2.0, 1.0, 9.0));
        assert_eq!(Spread::of([9.0, 1.0, 2.0, 4.0]), spread(3.0, 1.0, 9.0));
    }

    fn turn(store: usize, rates: &[f64], failure: Option<&str>) -> Turn {
        let result = |rate: &f64| {
            json!({ "benchmark": "fillseq", "ops_per_second": rate, "space_bytes": 7,
                    "latency": { "p99_9_ns": 10.0 * rate, "max_ns": rate } })
        };
        Turn {
            store,
            setup: format!("setup {store}"),
            results: rates.iter().map(result).collect(),
            failure: failure.map(str::to_string),
        }
    }

    #[test]
    fn a_row_has_the_median_and_the_longest_pause_of_all() {
        let turns = [turn(0, &[100.0], None), turn(1, &[30.0], None), turn(1, &[50.0], None), turn(0, &[200.0], None)];
        let summary = Summary::of(vec!["a".to_string(), "b".to_string()], &turns);
        assert!(!summary.has_failures());
        let phase = &summary.phases[0];
        let [Some(a), Some(b)] = &phase.rows[..] else { panic!("{phase:?}") };
        assert_eq!((a.rate.median, a.ratio), (150.0, Some(1.0)));
        assert_eq!((b.rate.median, b.rate.minimum, b.rate.maximum), (40.0, 30.0, 50.0));
        assert!((b.ratio.unwrap() - 40.0 / 150.0).abs() < 1e-9);
        assert_eq!(b.beside("p99_9_ns"), Some(400.0));
        assert_eq!(b.beside("max_ns"), Some(50.0));
        assert_eq!(b.beside("space_bytes"), Some(7.0));
        assert_eq!(b.beside("resident_bytes"), None);
        let json = summary.json(Map::new());
        assert_eq!(json["benchmarks"][0]["stores"][1]["runs"].as_array().unwrap().len(), 2);
        assert_eq!(json["stores"][1]["setup"], "setup 1");
    }

    #[test]
    fn a_failed_store_has_no_row_and_spares_the_others() {
        let turns = [turn(0, &[100.0, 10.0], None), turn(1, &[50.0], Some("out of memory"))];
        let summary = Summary::of(vec!["a".to_string(), "b".to_string()], &turns);
        assert!(summary.has_failures());
        assert_eq!(summary.phases.len(), 2);
        assert!(summary.phases[0].rows[1].is_some() && summary.phases[1].rows[1].is_none());
        assert_eq!(summary.json(Map::new())["stores"][1]["failed"], "out of memory");
    }
}
