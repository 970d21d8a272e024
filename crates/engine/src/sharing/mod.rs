//! What several stores of a process have in common: background threads, a memory budget, open files.

mod shared;

pub use shared::{Shared, SharedOptions};
