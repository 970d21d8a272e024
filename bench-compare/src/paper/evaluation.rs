//! What an evaluation is made of: what is measured ([`Sweep`]), and which figures and tables come of it ([`Figure`]). Each paper's is a
//! module: [`super::slm_db`], [`super::lab_db`], [`super::tlsm`].

pub(super) use crate::plot::{Measure, Plot};
use crate::spec;

/// A paper's evaluation.
pub(super) struct Evaluation {
    /// The design that it presents.
    pub design: &'static str,
    /// How much the paper's stores have, for the page.
    pub size_there: &'static str,
    /// Bytes of its keys.
    pub key_bytes: u64,
    /// The part of the paper's data that is done if nothing else is said.
    pub scale: f64,
    /// The stores if nothing else is said; ratios are to the first.
    pub stores: &'static str,
    /// Sizes that names of stores ask for, `{like this}`, in bytes: of the whole of the paper's data, and the smallest here.
    pub sizes: &'static [(&'static str, f64, f64)],
    /// Everything that is measured.
    pub sweeps: Vec<Sweep>,
    /// In the paper's order.
    pub figures: &'static [Figure],
}

impl Evaluation {
    /// Names of stores, with the sizes that belong to this scale.
    pub fn sized(&self, stores: &str, scale: f64) -> String {
        let here = |&(name, bytes, smallest): &(&'static str, f64, f64)| (name, (bytes * scale).max(smallest) as u64);
        spec::sized(stores, &self.sizes.iter().map(here).collect::<Vec<_>>())
    }
}

/// Measurements that belong together: the same stores at several points.
pub(super) struct Sweep {
    /// Its name, in `--only` and in JSON.
    pub name: &'static str,
    /// Which stores; none: those of the command line.
    pub stores: Option<&'static str>,
    pub points: Vec<Point>,
}

/// A point: a group of bars.
pub(super) struct Point {
    pub label: String,
    /// Each of these is done in a store of its own.
    pub loads: Vec<Load>,
}

/// What is done in one store.
#[derive(Clone)]
pub(super) struct Load {
    /// As `run` has them. `{five times}` is five times the number of keys.
    pub benchmarks: &'static str,
    pub value_bytes: u64,
    /// As many as the paper has.
    pub keys: f64,
    /// What the workloads do, to that.
    pub operations_part: f64,
    pub threads: u64,
    pub range_keys: u64,
    /// To the paper's 64 MB.
    pub write_buffers: f64,
    /// More of `run`'s flags.
    pub flags: &'static [&'static str],
}

/// A figure of the paper, or a table, or what it says in words.
pub(super) struct Figure {
    pub title: &'static str,
    /// The sweep that it is made from.
    pub sweep: &'static str,
    /// What it has before its plots.
    pub first: First,
    pub plots: &'static [Plot],
    /// What the paper has, what its authors' code reaches, and why ours is other.
    pub said: &'static str,
}

/// What is not groups of bars by the sweep's points.
pub(super) enum First {
    Nothing,
    /// A table.
    Lines(&'static Lines),
    /// Pictures for each point, with a group for each workload; and what was written by the end of each of those that follow each
    /// other in one store.
    Workloads {
        all: &'static [&'static str],
        in_one_store: &'static [&'static str],
    },
    /// Lines over time, for each point: how fast this benchmark was.
    OverTime(&'static str),
}

/// What a store of the paper has, at each point.
pub(super) type InPaper = (&'static str, &'static [f64]);

/// A table of numbers beside the paper's: for each row, a line for each store and a number for each point.
pub(super) struct Lines {
    pub title: &'static str,
    /// What is told of each store, and what others had in the paper.
    pub rows: &'static [(Plot, &'static [InPaper])],
    /// The paper has no numbers for so many of the first points.
    pub unmeasured_points: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::Design;
    use crate::paper::evaluation_of;

    /// What a benchmark tells, in each sweep.
    #[test]
    fn every_figure_is_made_from_what_is_measured() {
        for evaluation in Design::ALL.map(evaluation_of) {
            let benchmarks_of = |name: &str| -> Vec<&str> {
                let sweep = evaluation.sweeps.iter().find(|sweep| sweep.name == name).unwrap();
                let loads = sweep.points.iter().flat_map(|point| &point.loads);
                let names = loads.flat_map(|load| load.benchmarks.split(','));
                names.map(|name| name.split(':').next().unwrap()).collect()
            };
            for figure in evaluation.figures {
                let measured = benchmarks_of(figure.sweep);
                let mut told: Vec<&str> = figure.plots.iter().flat_map(|plot| plot.benchmarks).copied().collect();
                match figure.first {
                    First::Nothing => {}
                    First::Lines(lines) => told.extend(lines.rows.iter().flat_map(|(plot, _)| plot.benchmarks)),
                    First::Workloads { all, in_one_store } => told.extend(all.iter().chain(in_one_store)),
                    First::OverTime(benchmark) => told.push(benchmark),
                }
                assert!(told.iter().all(|benchmark| measured.contains(benchmark)), "{}: {told:?}", figure.title);
            }
            let loads = evaluation.sweeps.iter().flat_map(|sweep| &sweep.points).flat_map(|point| &point.loads);
            for step in loads.flat_map(|load| load.benchmarks.split(',')) {
                crate::step::Step::parse(&step.replace("{five times}", "5")).unwrap();
            }
            let own = evaluation.sweeps.iter().filter_map(|sweep| sweep.stores);
            for stores in own.chain([evaluation.stores]) {
                let read = crate::spec::StoreSpec::parse_list(&evaluation.sized(stores, 1e-9));
                assert!(read.as_ref().is_ok_and(|specs| specs.len() > 1), "{stores}: {read:?}");
            }
        }
    }

    #[test]
    fn sizes_are_a_part_of_the_paper_s() {
        let evaluation = Evaluation { sizes: &[("tree", 256.0 * 1048576.0, 65536.0)], ..evaluation_of(Design::Slm) };
        assert_eq!(evaluation.sized("a:b={tree},c", 0.5), "a:b=131072KiB,c");
        assert_eq!(evaluation.sized("a:b={tree}", 1e-9), "a:b=64KiB");
    }
}
