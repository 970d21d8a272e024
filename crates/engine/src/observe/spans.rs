//! Spans of `tracing` that say how long what they cover took.
//!
//! What a store does in the background, and what opening, closing and verifying do, is told in spans with fields; nothing
//! is told on the way of a single read or write.

use slmdb_env::Env;
use tracing::Span;

/// Runs within a span, and records the milliseconds it took as its field `ms`, which the span must have. If nobody listens
/// to the span the clock is not asked.
pub fn timed<T>(env: &dyn Env, span: Span, run: impl FnOnce() -> T) -> T {
    if span.is_disabled() {
        return run();
    }
    let began_ns = env.monotonic_ns();
    let done = span.in_scope(run);
    span.record("ms", env.monotonic_ns().saturating_sub(began_ns) as f64 / 1e6);
    done
}
