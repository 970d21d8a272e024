//! Locks, atomics and threads: the standard library's, or those of a model checker.
//!
//! In an ordinary build everything here *is* the standard library's, re-exported. Under `--cfg loom` a checker goes through
//! all interleavings of a small piece of code, and through what weakly ordered memory may show each thread. It runs the code
//! that the store consists of, not a copy of its ideas. `docs/testing.md` says what is run so.
//!
//! - [`modelled`] is for the modules that are put under loom. (A whole store is too much for it: others use `std`.)
//! - [`mapped`] has atomics for memory that somebody else has laid out: words of the pool, links of the skiplist. A checker's
//!   own atomics are larger than a word, so these keep what it wants to know beside the memory.

#![forbid(unsafe_code)]

pub mod mapped;
#[cfg(loom)]
pub mod model;
#[cfg(loom)]
mod raced;

/// What the modules that are put under loom use.
#[cfg(not(loom))]
pub mod modelled {
    pub use std::hint::spin_loop;
    pub use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize};
    pub use std::sync::{Condvar, Mutex, MutexGuard};
    pub use std::thread::yield_now;
}

/// What the modules that are put under loom use.
#[cfg(loom)]
pub mod modelled {
    pub use loom::hint::spin_loop;
    pub use loom::sync::{Condvar, Mutex, MutexGuard};
    pub use loom::thread::yield_now;

    pub use crate::raced::{AtomicPtr, AtomicU64, AtomicUsize};
}
