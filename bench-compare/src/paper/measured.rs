//! The sweeps of an evaluation, as they came out here.

use crate::summary::{Row, Summary};

/// A sweep, measured.
pub(super) struct Measured {
    pub name: &'static str,
    pub stores: Vec<String>,
    pub points: Vec<MeasuredPoint>,
}

pub(super) struct MeasuredPoint {
    pub label: String,
    pub summaries: Vec<Summary>,
}

impl MeasuredPoint {
    /// What one store did in a benchmark. Of two loads the first that has it counts.
    pub fn row(&self, benchmark: &str, store: usize) -> Option<&Row> {
        let mut phases = self.summaries.iter().flat_map(|summary| &summary.phases);
        phases.find(|phase| phase.benchmark == benchmark)?.rows.get(store)?.as_ref()
    }
}
