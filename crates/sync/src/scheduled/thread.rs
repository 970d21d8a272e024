//! Threads that are tasks.

use std::num::NonZero;
use std::time::Duration;

pub use shuttle::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle, current, scope, spawn};

use super::time;

/// Here a task may be interrupted. (Where there are no tasks, nothing.)
pub fn point() {
    if crate::turns::task().is_some() {
        // Shuttle does not wait here.
        shuttle::thread::sleep(Duration::ZERO);
    }
}

/// Lets others go first.
pub fn yield_now() {
    shuttle::thread::yield_now();
}

/// Lets others go first; then the time is over.
pub fn sleep(time: Duration) {
    time::go_on(time);
    shuttle::thread::yield_now();
}

/// As many as there is something to interleave with.
pub fn available_parallelism() -> std::io::Result<NonZero<usize>> {
    NonZero::new(2).ok_or_else(|| std::io::ErrorKind::Unsupported.into())
}
