//! What is told of a crash after which something was wrong.

use std::fmt;

use crate::machine::Image;
use crate::picks::CrashId;
use crate::workload::Plan;

/// A crash after which something was wrong.
#[derive(Debug, Clone)]
pub struct Failure {
    /// What was done before.
    pub plan: Plan,
    /// Where the crash was, and what it left; where there were several, each. None: it went wrong without.
    pub id: CrashId,
    /// What was wrong.
    pub what: String,
    /// What the crash left.
    pub image: Image,
    /// What had happened to files before, since the store was last opened after a crash.
    pub trace: Vec<String>,
}

impl Failure {
    pub(crate) fn new(plan: &Plan, id: CrashId, what: String, image: &Image) -> Failure {
        Failure { plan: *plan, id, what, image: image.clone(), trace: Vec::new() }
    }

    /// The options with which the simulator finds it again.
    pub fn options(&self) -> String {
        let crash = if self.id.crashes.is_empty() { String::new() } else { format!("={}", self.id) };
        let (engine, medium, seed) = (self.plan.setup.engine, self.plan.medium(), self.plan.seed);
        format!("--engine {engine} --medium {medium} --seed {seed} --crash{crash}")
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let crash = if self.id.crashes.is_empty() { "no crash".into() } else { format!("crash {}", self.id) };
        let (engine, medium, seed) = (self.plan.setup.engine, self.plan.medium(), self.plan.seed);
        write!(formatter, "{engine}, seed {seed}, {medium}, {crash}: {}", self.what)
    }
}
