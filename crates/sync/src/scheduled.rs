//! What waits, starts threads, or looks at a clock: for all modules that are not put under loom.
//!
//! Under shuttle each operation here is a place where the thread may be interrupted, and each wait is known to the scheduler,
//! which so finds deadlocks. Time is imagined there: it goes on where somebody sleeps, or waits for a time.
//!
//! REQUIRES, under shuttle: a thread that has taken a lock that is not from here comes to nothing that is, as long as it holds it.

#[cfg(not(shuttle))]
pub use arc_swap::ArcSwap;
#[cfg(not(shuttle))]
pub use std::{hash::RandomState, sync::mpsc, thread, time::Instant};

#[cfg(not(shuttle))]
pub mod atomic {
    //! Atomics of one's own.
    pub use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize};
}

/// Here a thread may be interrupted: before what others see in the order in which it happens.
#[cfg(not(shuttle))]
#[inline(always)]
pub fn point() {}

mod raw {
    #[cfg(not(shuttle))]
    pub use std::sync::{Condvar, Mutex, MutexGuard};

    #[cfg(shuttle)]
    pub use super::shuttle_locks::{Condvar, Mutex, MutexGuard};
}

#[path = "locks.rs"]
mod locks;

pub use locks::{Condvar, Mutex, MutexGuard};

#[cfg(shuttle)]
mod arc;
#[cfg(shuttle)]
pub mod atomic;
#[cfg(shuttle)]
mod shuttle_locks;
#[cfg(shuttle)]
pub mod thread;
#[cfg(shuttle)]
mod time;

#[cfg(shuttle)]
pub use arc::ArcSwap;
#[cfg(shuttle)]
pub use shuttle::sync::mpsc;
#[cfg(shuttle)]
pub use thread::point;
#[cfg(shuttle)]
pub(crate) use time::begin_anew;
#[cfg(shuttle)]
pub use time::{Instant, RandomState};

/// A thread within a scope, or why the system has none. (A scope's own `spawn` panics then.)
#[cfg(not(shuttle))]
pub fn try_spawn<'scope, T: Send + 'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> std::io::Result<thread::ScopedJoinHandle<'scope, T>> {
    thread::Builder::new().spawn_scoped(scope, work)
}

/// A task within a scope.
#[cfg(shuttle)]
pub fn try_spawn<'scope, T: Send + 'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> std::io::Result<thread::ScopedJoinHandle<'scope, T>> {
    Ok(scope.spawn(work))
}

/// How many threads can run at once, as it was when it was first asked. (Finding it out reads files of the system.)
pub fn processors() -> usize {
    static PROCESSORS: std::sync::LazyLock<usize> =
        std::sync::LazyLock::new(|| thread::available_parallelism().map_or(1, usize::from));
    *PROCESSORS
}
