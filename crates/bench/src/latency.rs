//! How long operations took: percentiles, mean and the longest.

use std::fmt::Write as _;

use hdrhistogram::Histogram;

/// Longer operations (an hour) count as this long in the percentiles; the longest is exact.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// Who waits longer than this has met more than the operation itself.
const LONG_NS: u64 = 1_000_000;

/// Digits of a duration that are kept: an error of at most a thousandth.
const DIGITS: u8 = 3;

/// Durations in nanoseconds.
#[derive(Debug, Clone)]
pub struct Latency {
    histogram: Histogram<u64>,
    longest_ns: u64,
    shortest_ns: u64,
    long_ns: u64,
}

impl Default for Latency {
    fn default() -> Latency {
        // These bounds and digits are within what a histogram takes.
        #[allow(clippy::expect_used)]
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).expect("bounds of a histogram");
        Latency { histogram, longest_ns: 0, shortest_ns: u64::MAX, long_ns: 0 }
    }
}

impl Latency {
    /// One more.
    pub fn add(&mut self, duration_ns: u64) {
        self.histogram.saturating_record(duration_ns);
        self.longest_ns = self.longest_ns.max(duration_ns);
        self.shortest_ns = self.shortest_ns.min(duration_ns);
        if duration_ns > LONG_NS {
            self.long_ns = self.long_ns.saturating_add(duration_ns);
        }
    }

    /// Something that is none of those whose percentiles these are took so long.
    pub fn add_to_longest(&mut self, duration_ns: u64) {
        self.longest_ns = self.longest_ns.max(duration_ns);
    }

    /// All of another.
    pub fn add_all(&mut self, other: &Latency) {
        // Both have the same bounds.
        let _ = self.histogram.add(&other.histogram);
        self.longest_ns = self.longest_ns.max(other.longest_ns);
        self.shortest_ns = self.shortest_ns.min(other.shortest_ns);
        self.long_ns = self.long_ns.saturating_add(other.long_ns);
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The longest, exactly; 0 when there is none.
    pub fn longest_ns(&self) -> u64 {
        self.longest_ns
    }

    /// The shortest, exactly; 0 when there is none.
    pub fn shortest_ns(&self) -> u64 {
        if self.count() == 0 { 0 } else { self.shortest_ns }
    }

    /// How long those took together that each took more than a millisecond.
    pub fn long_ns(&self) -> u64 {
        self.long_ns
    }

    /// Their mean, in nanoseconds.
    pub fn mean_ns(&self) -> f64 {
        self.histogram.mean()
    }

    /// So many percent took at most this long.
    pub fn percentile_ns(&self, percent: f64) -> u64 {
        // A bucket's upper end may be beyond the longest.
        self.histogram.value_at_quantile(percent / 100.0).min(self.longest_ns)
    }

    /// The report that db_bench prints with `--histogram`, in microseconds.
    pub fn text(&self) -> String {
        let us = |ns: u64| ns as f64 / 1e3;
        let percentile = |percent| us(self.percentile_ns(percent));
        let mut text = format!(
            "Count: {} Average: {:.4}  StdDev: {:.2}\nMin: {:.4}  Median: {:.4}  Max: {:.4}\n",
            self.count(),
            self.mean_ns() / 1e3,
            self.histogram.stdev() / 1e3,
            us(self.shortest_ns()),
            percentile(50.0),
            us(self.longest_ns),
        );
        let named = [50.0, 75.0, 99.0, 99.9, 99.99].map(|percent| format!("P{percent}: {:.2}", percentile(percent)));
        let _ = writeln!(text, "Percentiles: {}\n{}", named.join(" "), "-".repeat(54));
        let mut passed = 0;
        for (from_us, to_us, count) in self.rows() {
            passed += count;
            let percent = |count: u64| 100.0 * count as f64 / self.count() as f64;
            let marks = "#".repeat((percent(count) / 5.0).round() as usize);
            let (share, cumulated) = (percent(count), percent(passed));
            let row = format!("[ {from_us:>7}, {to_us:>7} ] {count:>8} {share:>7.3}% {cumulated:>7.3}% {marks}");
            let _ = writeln!(text, "{}", row.trim_end());
        }
        text
    }

    /// Durations in db_bench's steps, where there are any: from, to (in microseconds), how many.
    fn rows(&self) -> Vec<(u64, u64, u64)> {
        let mut rows: Vec<(u64, u64, u64)> = Vec::new();
        let mut steps = steps_us();
        let mut step = steps.next().unwrap_or((0, u64::MAX));
        for recorded in self.histogram.iter_recorded() {
            let ns = recorded.value_iterated_to();
            while ns > step.1.saturating_mul(1000) {
                step = steps.next().unwrap_or((step.1, u64::MAX));
            }
            match rows.last_mut() {
                Some(row) if row.1 == step.1 => row.2 += recorded.count_since_last_iteration(),
                _ => rows.push((step.0, step.1, recorded.count_since_last_iteration())),
            }
        }
        rows
    }
}

/// 0 to 1, 1 to 2, 2 to 3, and from there by halves, rounded to two digits: 4, 6, 9, 13, 19 …
fn steps_us() -> impl Iterator<Item = (u64, u64)> {
    let next = |to: u64| match to {
        0..4 => to + 1,
        _ => {
            let half_more = to + to / 2;
            let unit = 10_u64.pow(half_more.ilog10().saturating_sub(1));
            half_more / unit * unit
        }
    };
    std::iter::successors(Some((0, 1)), move |(_, to)| (*to < u64::MAX / 2).then(|| (*to, next(*to))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_and_the_longest() {
        let mut latency = Latency::default();
        assert_eq!((latency.count(), latency.longest_ns(), latency.shortest_ns()), (0, 0, 0));
        (1..=10_000).for_each(|us| latency.add(us * 1000));
        latency.add(2 * LONGEST_NS);
        assert_eq!(latency.count(), 10_001);
        assert_eq!((latency.shortest_ns(), latency.longest_ns()), (1000, 2 * LONGEST_NS));
        for (percent, us) in [(50.0, 5_000.0), (99.0, 9_900.0), (99.9, 9_990.0)] {
            let found = latency.percentile_ns(percent) as f64 / 1e3;
            assert!((found / us - 1.0).abs() < 0.002, "{percent}: {found}");
        }
        let above_1_ms_us = (1001..=10_000).sum::<u64>();
        assert_eq!(latency.long_ns(), above_1_ms_us * 1000 + 2 * LONGEST_NS, "one millisecond itself is not long");
        let mut both = Latency::default();
        both.add(10);
        both.add_all(&latency);
        assert_eq!((both.count(), both.shortest_ns(), both.longest_ns()), (10_002, 10, 2 * LONGEST_NS));
    }

    #[test]
    fn the_text_is_as_db_bench_prints_it() {
        let mut latency = Latency::default();
        for ns in [500, 500, 1500, 1500, 1500, 3500, 5000, 8000, 90_000, 1_000_000] {
            latency.add(ns);
        }
        let text = latency.text();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("Count: 10 Average: 111.2"), "{text}");
        assert!(lines[1].starts_with("Min: 0.5000  Median: 1.50") && lines[1].ends_with("Max: 1000.0000"), "{text}");
        assert!(lines[2].starts_with("Percentiles: P50: 1.50 P75: 8.0"), "{text}");
        assert!(lines[2].contains(" P99.9: 1000.00 P99.99: 1000.00"), "{text}");
        assert_eq!(lines[4], "[       0,       1 ]        2  20.000%  20.000% ####");
        assert_eq!(lines[5], "[       1,       2 ]        3  30.000%  50.000% ######");
        assert_eq!(lines.len(), 4 + 7, "{text}");
        assert!(lines[10].contains(" 100.000% ##"), "{text}");
    }

    #[test]
    fn steps_grow_to_the_end_of_time() {
        let steps: Vec<(u64, u64)> = steps_us().collect();
        assert_eq!(steps[..8], [(0, 1), (1, 2), (2, 3), (3, 4), (4, 6), (6, 9), (9, 13), (13, 19)]);
        assert!(steps.iter().all(|(from, to)| from < to) && steps.len() < 120);
    }
}
