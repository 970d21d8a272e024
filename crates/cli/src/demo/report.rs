//! The demo's lines: a word for the step, what was done, how long it took; and what it says when the store was wrong.

use std::time::Duration;

use slmdb::ErrorKind;

use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::units;

/// Writes lines, each as soon as it is true.
pub struct Report {
    output: Output,
}

impl Report {
    /// On standard output.
    pub fn new() -> Report {
        Report { output: Output::standard() }
    }

    /// A line of its own.
    pub fn say(&mut self, line: &str) -> Result<()> {
        self.output.line(line)?;
        self.output.flush()
    }

    /// A step, and what came of it.
    pub fn step(&mut self, step: &str, what: &str) -> Result<()> {
        self.say(&format!("  {step:<8} {what}"))
    }

    /// A step that did so much of something in a time, with its rate if there is one.
    pub fn timed(&mut self, step: &str, what: &str, done: Option<u64>, elapsed: Duration) -> Result<()> {
        let rate = match done.map(|done| units::per_second(done, elapsed)) {
            None => String::new(),
            Some(rate) if rate >= 10_000.0 => format!("{:.0} k/s", rate / 1000.0),
            Some(rate) => format!("{rate:.0} /s"),
        };
        self.say(format!("  {step:<8} {what:<64} {:>6.2} s  {rate:>9}", elapsed.as_secs_f64()).trim_end())
    }
}

/// What the demo says when the store did not do what it must.
pub fn wrong(what: impl Into<String>) -> Failure {
    Failure::Told(
        ErrorKind::Corruption,
        format!("the demo failed: {}; this is a fault of slmdb or of this machine, please report it", what.into()),
    )
}
