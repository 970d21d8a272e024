//! Locks, atomics and threads: the standard library's, or those of a checker.
//!
//! In an ordinary build everything here *is* the standard library's (and crossbeam's), re-exported. Two other builds run the
//! code that the store consists of, not a copy of its ideas. `docs/testing.md` says what is run so.
//!
//! - Under `--cfg loom` a checker goes through all interleavings of a small piece of code, and through what weakly ordered memory
//!   may show each thread.
//! - Under `--cfg shuttle` all threads of a whole store are tasks on one thread of the system, and a seed says which of them goes on
//!   wherever one could be interrupted ([`turns`]): the same seed is the same run. Memory is ordered there.
//!
//! What is used where:
//!
//! - [`modelled`] is for the modules that are put under loom. (A whole store is too much for it.)
//! - [`scheduled`] is for all others that wait, start threads, or look at a clock; [`epoch`] for what waits until no reader is
//!   left.
//! - [`mapped`] has atomics for memory that somebody else has laid out: words of the pool, links of the skiplist. Loom's
//!   own atomics are larger than a word, so these keep what it wants to know beside the memory.

#![forbid(unsafe_code)]

pub mod epoch;
#[cfg(loom)]
mod loom_locks;
pub mod mapped;
#[cfg(loom)]
pub mod model;
#[cfg(loom)]
mod raced;
mod rank;
pub mod scheduled;
pub mod turns;

pub use rank::Rank;

/// What the modules that are put under loom use.
#[cfg(not(any(loom, shuttle)))]
pub mod modelled {
    pub use std::hint::spin_loop;
    pub use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize};
    pub use std::thread::yield_now;

    pub use crate::scheduled::{Condvar, Mutex, MutexGuard};
}

/// What the modules that are put under loom use.
#[cfg(loom)]
pub mod modelled {
    pub use loom::hint::spin_loop;
    pub use loom::thread::yield_now;

    pub use crate::loom_locks::{Condvar, Mutex, MutexGuard};
    pub use crate::raced::{AtomicPtr, AtomicU64, AtomicUsize};
}

/// What the modules that are put under loom use.
#[cfg(shuttle)]
pub mod modelled {
    pub use crate::scheduled::atomic::{AtomicPtr, AtomicU64, AtomicUsize};
    pub use crate::scheduled::thread::{yield_now as spin_loop, yield_now};
    pub use crate::scheduled::{Condvar, Mutex, MutexGuard};
}
