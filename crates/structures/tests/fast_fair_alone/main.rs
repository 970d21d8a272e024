//! Tests of the tree that have a process of their own, one at a time: nodes that were replaced are used again when no thread of
//! the process can be reading them, so other tests would stand in their way.
#![allow(clippy::unwrap_used)]

mod full;
mod need;
#[path = "../structures/fast_fair/support/mod.rs"]
mod support;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// For as long as this is held, no other of these tests is at work.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
