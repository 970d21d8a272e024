//! [`Plot`]: which number of the stores is shown, and [`bars`], which shows it; of a paper's evaluation, and of the designs.

use crate::chart::{Chart, WIDTH};
use crate::summary::{Row, Summary};

/// What was measured at one point: a group of bars, or a work.
pub(crate) struct MeasuredPoint {
    pub label: String,
    pub summaries: Vec<Summary>,
}

impl MeasuredPoint {
    /// What one store did in a benchmark. Of two loads the first that has it counts.
    pub fn row(&self, benchmark: &str, store: usize) -> Option<&Row> {
        let mut phases = self.summaries.iter().flat_map(|summary| &summary.phases);
        phases.find(|phase| phase.benchmark == benchmark)?.rows.get(store)?.as_ref()
    }

    /// Whether the benchmark was to be done here.
    pub fn has(&self, benchmark: &str) -> bool {
        self.summaries.iter().flat_map(|summary| &summary.phases).any(|phase| phase.benchmark == benchmark)
    }
}

/// Groups of bars, or lines of a table.
pub(crate) struct Plot {
    pub title: &'static str,
    /// What is added up, as far as it was to be done.
    pub benchmarks: &'static [&'static str],
    pub measure: Measure,
}

/// A number of a row.
#[derive(Clone, Copy)]
pub(crate) enum Measure {
    /// Operations a second.
    Rate,
    /// Of one operation, by so many keys.
    LatencyUs { keys: u64 },
    /// The mean latency of the first benchmark to that of the second.
    PartOf(&'static str),
    /// The mean latency of one operation to that of the first store.
    ToFirst,
    /// Bytes written to files and to the fast tier, as asked for, for each byte put.
    WrittenPerBytePut,
    /// Bytes, by their name, at the end of the first benchmark, to what this one has put.
    ToBytesPutBy(&'static str, &'static str),
    /// Something counted, by its name: bytes for each byte put ...
    BytesPerBytePut(&'static str),
    /// ... for each operation of the first benchmark, times this, and what that is then ...
    PerOperation(&'static str, f64, &'static str),
    /// ... or as it is, divided by this, and what that is then.
    Number(&'static str, f64, &'static str),
    /// Of all repeats the largest, divided by this, and what that is then.
    Worst(&'static str, f64, &'static str),
    /// Of the numbers that were seen over time, the mean, divided by this, and what that is then.
    MeanOverTime(&'static str, f64, &'static str),
}

impl Plot {
    /// Of a benchmark.
    pub const fn of(title: &'static str, benchmarks: &'static [&'static str; 1], measure: Measure) -> Plot {
        Plot { title, benchmarks, measure }
    }

    /// What is shown of a store at a point.
    pub fn number(&self, point: &MeasuredPoint, store: usize) -> Option<f64> {
        let mean_us = |benchmark| Some(point.row(benchmark, store)?.median("mean_ns")? / 1e3);
        let mut done = self.benchmarks.iter().filter(|benchmark| point.has(benchmark)).peekable();
        let first = **done.peek()?;
        let sum = |name: &str| {
            let numbers = done.clone().map(|benchmark| point.row(benchmark, store)?.median(name));
            numbers.sum::<Option<f64>>()
        };
        match self.measure {
            Measure::Rate => Some(point.row(first, store)?.rate.median),
            Measure::LatencyUs { keys } => Some(mean_us(first)? / keys as f64),
            Measure::PartOf(whole) => Some(mean_us(first)? / mean_us(whole)?),
            Measure::ToFirst => {
                let mean_ns = |store| point.row(first, store)?.median("mean_ns");
                Some(mean_ns(store)? / mean_ns(0)?)
            }
            Measure::WrittenPerBytePut => {
                // What has no fast tier writes nothing there.
                let bytes = sum("file_written_bytes_asked")? + sum("fast_tier_bytes_asked").unwrap_or(0.0);
                Some(bytes / sum("bytes_put")?.max(1.0))
            }
            Measure::ToBytesPutBy(name, fill) => {
                let put_bytes = point.row(fill, store)?.median("bytes_put")?;
                Some(point.row(first, store)?.median(name)? / put_bytes.max(1.0))
            }
            Measure::BytesPerBytePut(name) => Some(sum(name)? / sum("bytes_put")?.max(1.0)),
            Measure::PerOperation(name, times, _) => {
                let operations = point.row(first, store)?.median("operations")?;
                Some(sum(name)? * times / operations.max(1.0))
            }
            Measure::Number(name, by, _) => Some(sum(name)? / by),
            Measure::Worst(name, by, _) => Some(point.row(first, store)?.worst(name)? / by),
            Measure::MeanOverTime(name, by, _) => Some(mean(&point.row(first, store)?.over_time(name)?)? / by),
        }
    }
}

impl Measure {
    /// Whether a paper's bars show multiples of the first store's, rather than the number itself.
    pub fn is_ratio(self) -> bool {
        matches!(
            self,
            Measure::Rate | Measure::LatencyUs { .. } | Measure::BytesPerBytePut(_) | Measure::WrittenPerBytePut
        )
    }

    /// What stands behind a number.
    pub fn unit(self) -> &'static str {
        match self {
            Measure::Rate => "op/s",
            Measure::LatencyUs { .. } => "us",
            Measure::PartOf(_) => "",
            Measure::ToFirst | Measure::ToBytesPutBy(..) => "",
            Measure::BytesPerBytePut(_) | Measure::WrittenPerBytePut => "bytes per byte put",
            Measure::PerOperation(_, _, unit)
            | Measure::Number(_, _, unit)
            | Measure::Worst(_, _, unit)
            | Measure::MeanOverTime(_, _, unit) => unit,
        }
    }
}

/// The mean of these; none of none.
fn mean(numbers: &[f64]) -> Option<f64> {
    (!numbers.is_empty()).then(|| numbers.iter().sum::<f64>() / numbers.len() as f64)
}

/// What bars show.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    /// Their numbers; that of the first store stands above each group.
    Numbers,
    /// Multiples of the first store's number, which stands above each group.
    Multiples,
    /// Multiples of the first store's number; the number of each stands above its bar.
    MultiplesWithNumbers,
}

/// One picture: for each store its numbers, one a group.
pub(crate) fn bars(
    title: &str,
    names: &[String],
    groups: &[String],
    numbers: &[Vec<Option<f64>>],
    shown: Shown,
) -> String {
    let first = |at: usize| numbers.first().and_then(|numbers| numbers[at]).filter(|first| *first > 0.0);
    let texts =
        |numbers: &Vec<Option<f64>>| numbers.iter().map(|number| number.map_or_else(String::new, shorter)).collect();
    let (notes, labels) = match shown {
        Shown::MultiplesWithNumbers => (Vec::new(), numbers.iter().map(texts).collect::<Vec<Vec<String>>>()),
        _ => ((0..groups.len()).map(|at| first(at).map_or_else(String::new, short)).collect(), Vec::new()),
    };
    let bar = |(at, number): (usize, &Option<f64>)| match shown {
        Shown::Numbers => *number,
        _ => Some((*number)? / first(at)?),
    };
    let series: Vec<Vec<Option<f64>>> =
        numbers.iter().map(|numbers| numbers.iter().enumerate().map(bar).collect()).collect();
    let (notes, series, labels, has_line_at_one) = (&notes, &series, &labels, shown != Shown::Numbers);
    Chart { title, width: WIDTH, names, groups, notes, series, has_line_at_one, labels }.svg()
}

/// A number with three digits that mean something.
pub(crate) fn short(number: f64) -> String {
    match number {
        number if number >= 1e6 => format!("{:.2} M", number / 1e6),
        number if number >= 1e4 => format!("{:.1} k", number / 1e3),
        number if number >= 100.0 => format!("{number:.0}"),
        number if number >= 10.0 => format!("{number:.1}"),
        number => format!("{number:.2}"),
    }
}

/// The same with two digits, for where there is little room.
fn shorter(number: f64) -> String {
    match number {
        number if number >= 1e7 => format!("{:.0}M", number / 1e6),
        number if number >= 999_500.0 => format!("{:.1}M", number / 1e6),
        number if number >= 1e4 => format!("{:.0}k", number / 1e3),
        number if number >= 999.5 => format!("{:.1}k", number / 1e3),
        number if number >= 10.0 => format!("{number:.0}"),
        number if number >= 1.0 => format!("{number:.1}"),
        number => format!("{number:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_a_few_digits() {
        for (number, long, tight) in [
            (0.004, "0.00", "0.00"),
            (1.25, "1.25", "1.2"),
            (42.42, "42.4", "42"),
            (999.9, "1000", "1.0k"),
            (12_345.0, "12.3 k", "12k"),
            (999_999.0, "1000.0 k", "1.0M"),
            (12_345_678.0, "12.35 M", "12M"),
        ] {
            assert_eq!((short(number).as_str(), shorter(number).as_str()), (long, tight));
        }
    }
}
