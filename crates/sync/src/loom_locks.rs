//! Loom's locks, without poison.

mod raw {
    pub use loom::sync::{Condvar, Mutex, MutexGuard};
}

#[path = "locks.rs"]
mod locks;

pub use locks::{Condvar, Mutex, MutexGuard};
