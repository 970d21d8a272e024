//! Tests of the whole crate, on runs in memory.

mod cursors;
mod jobs;
mod memory_run;
mod merging;
mod picking;
mod store;
mod versions;
