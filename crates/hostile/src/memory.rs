//! How much memory a target takes: every allocation of the process is counted.

use std::sync::{Mutex, PoisonError};

use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

/// Targets run one at a time: the count is the process's.
static ONE: Mutex<()> = Mutex::new(());

/// A part of a table file that is unpacked may have 16 MiB, and two of them may be held at once.
pub const UNPACKED_BYTES: usize = 32 << 20;

/// Runs something that has to do with less memory than this on top of what there is.
///
/// # Panics
///
/// If it takes more.
pub fn within<T>(limit_bytes: usize, run: impl FnOnce() -> T) -> T {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    ALLOCATED.reset_peak_usage();
    let before_bytes = ALLOCATED.current_usage();
    let result = run();
    let taken_bytes = ALLOCATED.peak_usage().saturating_sub(before_bytes);
    assert!(taken_bytes <= limit_bytes, "{taken_bytes} bytes were taken, and {limit_bytes} is the limit");
    result
}
