//! What stands in for the machine in tests: an environment in memory, a medium that records, and one order for both records.
//!
//! [`MemoryEnv`] keeps files in memory, counts operations and fails the k-th on request. [`Simulated`] remembers every store to
//! the fast tier and shows what a crash could have left. Both may draw from one [`Recording`]; a crash simulator is built on that.
//! Product crates use this one in their tests alone.
//!
//! `unsafe` is allowed in one module: [`medium`] makes the stores that it records.
#![deny(unsafe_code)]

mod environment;
pub mod medium;
mod random;
mod recording;

pub use environment::{DeviceMemory, Failure, FileEvent, FileRecord, MemoryEnv, Repeat};
pub use medium::Simulated;
pub use random::Random;
pub use recording::{Recording, Seen, Step, Watcher};
