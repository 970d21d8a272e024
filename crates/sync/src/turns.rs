//! Runs in which all threads are tasks that take turns as a seed says.
//!
//! Under `--cfg shuttle` [`take`] runs a function, and all threads that it starts, on one thread of the system. Wherever one comes
//! to something of [`crate::scheduled`], [`crate::modelled`] or [`crate::mapped`] another may go on instead. Which follows from
//! the seed alone, so the same seed gives the same run: every lock taken, every word stored in the same order. In any other build
//! the function is just called, and threads are threads.

/// Whether threads take turns in this build.
pub const ARE_TAKEN: bool = cfg!(shuttle);

/// Runs it; what is wrong with the run itself: a panic, a deadlock, or no end.
#[cfg(not(shuttle))]
pub fn take<T>(_seed: u64, run: impl FnOnce() -> T) -> Result<T, String> {
    Ok(run())
}

/// The number of the calling task in its run; `None`: it is none.
#[cfg(not(shuttle))]
pub fn task() -> Option<u32> {
    None
}

/// How many runs there were in this process, and how many places at which a thread was chosen to go on.
#[cfg(not(shuttle))]
pub fn counts() -> (u64, u64) {
    (0, 0)
}

#[cfg(shuttle)]
mod scheduler;
#[cfg(shuttle)]
pub use scheduler::{counts, take, task};
