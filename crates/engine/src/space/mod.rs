//! Space on the disk and in the pool: what a MemTable needs before it takes writes, and what is done when there is none.
//! `docs/internals/space.md` has the whole.

pub mod allowance;
pub mod controller;
pub mod ladder;
pub mod memtable_bytes;
pub mod pool_growth;
pub mod reserve;
pub mod reserved_file;
pub mod rest;
pub mod smallest_pool;
pub mod space_errors;
