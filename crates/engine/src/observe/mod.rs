//! What is told of a store's work.

pub mod counters;
pub mod spans;
