//! Running a model.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub use loom::thread;

/// Runs `model` in every interleaving with at most so many preemptions (`LOOM_MAX_PREEMPTIONS` overrules),
/// and says how many there were. Where the budget in seconds, `SLMDB_LOOM_SECONDS`, ends before, it says that too.
pub fn check(name: &str, preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.max_branches = 100_000;
    let seconds = std::env::var("SLMDB_LOOM_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    builder.max_duration = seconds.map(Duration::from_secs);
    let executions = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&executions);
    let start = Instant::now();
    let bound = builder.preemption_bound;
    builder.check(move || {
        counter.fetch_add(1, Ordering::Relaxed);
        crate::mapped::reset();
        crate::raced::reset();
        crate::epoch::reset();
        model();
    });
    let took = start.elapsed();
    let cut_short = seconds.is_some_and(|seconds| took >= Duration::from_secs(seconds));
    println!(
        "loom: {name}: {} executions, {} preemptions at most, {:.1} s{}",
        executions.load(Ordering::Relaxed),
        bound.unwrap_or_default(),
        took.as_secs_f64(),
        if cut_short { ", cut short by the budget" } else { "" },
    );
}
