//! Under shuttle: a collector for each run.
//!
//! Crossbeam's own collector is shared by the whole process, and what it does, and when, depends on all that happened before.
//! What is put off until no reader is left is done by tasks of the run, so when that is must follow from the seed.

use std::cell::RefCell;

use crossbeam_epoch::{Collector, LocalHandle};

pub use crossbeam_epoch::Guard;

thread_local! {
    static COLLECTOR: RefCell<Option<Collector>> = const { RefCell::new(None) };
}

shuttle::thread_local! {
    /// Each task takes part by itself.
    static HANDLE: LocalHandle = register();
}

fn register() -> LocalHandle {
    COLLECTOR.with_borrow_mut(|collector| collector.get_or_insert_default().register())
}

/// A new run begins.
pub(crate) fn begin_anew() {
    // What a run that failed has put off wants locks of that run, so it is never done.
    std::mem::forget(COLLECTOR.take());
}

/// What was put off is done; before a run ends.
pub(crate) fn end() {
    // A few steps of the epoch are enough for everything, where nobody is in the way.
    (0..8).for_each(|_| pin().flush());
    drop(COLLECTOR.take());
}

/// As crossbeam's.
pub fn pin() -> Guard {
    HANDLE.try_with(LocalHandle::pin).unwrap_or_else(|_| register().pin())
}
