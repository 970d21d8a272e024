//! [`process_number`]: tells a process from those that are forked from it.

#![allow(unsafe_code)]

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

/// How often this process, or one that it comes from, was forked since the first question.
static FORKS: AtomicU64 = AtomicU64::new(0);
static COUNTING: Once = Once::new();

/// A number that is another one in each child that `fork` makes after the first question, and stays the same within a process.
/// A child has the memory of its parent, but none of its threads, so what they share can't be used there.
pub fn process_number() -> u64 {
    COUNTING.call_once(|| {
        // SAFETY: the handler lives as long as the program, and only adds to an atomic. If it can't be registered, for want of
        // memory, forks are not noticed.
        let _ = unsafe { libc::pthread_atfork(None, None, Some(count)) };
    });
    FORKS.load(Ordering::Relaxed)
}

/// Runs in the child.
extern "C" fn count() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}
