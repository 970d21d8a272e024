//! Spans of `tracing` that report durations.
//!
//! Background work, opening, closing and verifying are reported in spans with fields. Single reads and writes are not.

use slmdb_env::{Env, Result};
use tracing::field::Empty;
use tracing::{Span, info_span};

use crate::VerifyReport;

/// Runs within a span, and records the milliseconds in its field `ms`, which the span must have. If the span has no
/// listener, the clock is not read.
pub fn timed<T>(env: &dyn Env, span: Span, run: impl FnOnce() -> T) -> T {
    if span.is_disabled() {
        return run();
    }
    let began_ns = env.monotonic_ns();
    let done = span.in_scope(run);
    span.record("ms", env.monotonic_ns().saturating_sub(began_ns) as f64 / 1e6);
    done
}

/// Verifies within a span, which has what was found.
pub fn verifying(env: &dyn Env, verify: impl FnOnce() -> Result<VerifyReport>) -> Result<VerifyReport> {
    let span = info_span!("verify", table_files = Empty, entries = Empty, findings = Empty, ms = Empty);
    timed(env, span.clone(), || {
        let report = verify()?;
        span.record("table_files", report.table_files_checked);
        span.record("entries", report.entries_checked);
        span.record("findings", report.findings.len());
        Ok(report)
    })
}
