//! Tests of the whole crate, on runs in memory and on table files.

mod cursors;
mod jobs;
mod memory_run;
mod merging;
mod picking;
mod store;
mod table_runs;
mod table_store;
mod versions;
