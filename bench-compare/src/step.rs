//! [`Step`]: a benchmark of a run, and what it does other than the rest of them: `ycsba:zipf=0.7:operations=5000`.

use std::str::FromStr;

use slmdb_bench::distributions::Distribution;
use slmdb_bench::flags::parse_benchmark;
use slmdb_bench::{Benchmark, Settings};

/// One thing that is done in a store.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// What.
    pub benchmark: Benchmark,
    operations: Option<u64>,
    threads: Option<u64>,
    distribution: Option<Distribution>,
    zipf: Option<f64>,
}

impl Step {
    /// By its name, and what is other with it, with colons between.
    pub fn parse(text: &str) -> Result<Step, String> {
        let mut parts = text.split(':');
        let benchmark = parse_benchmark(parts.next().unwrap_or_default())?;
        let mut step = Step { benchmark, operations: None, threads: None, distribution: None, zipf: None };
        for part in parts {
            match part.split_once('=') {
                Some(("operations", number)) => step.operations = Some(parsed(part, number)?),
                Some(("threads", number)) => step.threads = Some(parsed(part, number)?),
                Some(("zipf", number)) => step.zipf = Some(parsed(part, number)?),
                Some(("request_distribution", name)) => step.distribution = Some(Distribution::by_name(name)?),
                _ => {
                    return Err(format!(
                        "{part}: behind a benchmark there are operations=N, threads=N, zipf=THETA, request_distribution=NAME"
                    ));
                }
            }
        }
        Ok(step)
    }

    /// The settings of a run, as this step has them.
    pub fn settings(&self, run: &Settings) -> Settings {
        let or_usual = |usual: Option<u64>| self.operations.or(usual);
        Settings {
            reads: or_usual(run.reads),
            writes: or_usual(run.writes),
            operations: or_usual(run.operations),
            threads: self.threads.unwrap_or(run.threads),
            request_distribution: self.distribution.or(run.request_distribution),
            zipf: self.zipf.unwrap_or(run.zipf),
            ..run.clone()
        }
    }
}

fn parsed<T: FromStr>(part: &str, number: &str) -> Result<T, String> {
    number.parse().map_err(|_| format!("{part}: give a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_has_its_own_numbers_and_the_run_s_others() {
        let run = Settings { reads: Some(7), threads: 2, ..Settings::default() };
        let step = Step::parse("ycsba:operations=50:zipf=0.7").unwrap();
        let expected = Settings { reads: Some(50), writes: Some(50), operations: Some(50), zipf: 0.7, ..run.clone() };
        assert_eq!((step.benchmark.name, step.settings(&run)), ("ycsba", expected));
        let step = Step::parse("ycsbc:threads=1:request_distribution=uniform").unwrap();
        let distribution = Some(Distribution::Uniform);
        assert_eq!(step.settings(&run), Settings { threads: 1, request_distribution: distribution, ..run.clone() });
        assert_eq!(Step::parse("readseq").unwrap().settings(&run), run);
    }

    #[test]
    fn what_a_step_does_not_have_is_told() {
        for (text, part) in [
            ("ycsbx", "there are"),
            ("ycsba:zipf=much", "zipf=much: give a number"),
            ("ycsba:value_size=5", "operations=N"),
            ("ycsba:request_distribution=some", "uniform"),
        ] {
            let error = Step::parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
