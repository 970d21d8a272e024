//! Space on the disk and in the pool: what a write needs before it is admitted.

pub mod admission;
pub mod flush_cost;
pub mod reserved_file;
pub mod space_errors;
