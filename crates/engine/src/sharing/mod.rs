//! What several stores of a process have in common: background threads, a memory budget, open files.

pub mod memtables;
mod shared;

pub use shared::{Shared, SharedOptions};
