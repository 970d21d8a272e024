//! Counters and traces of a store's work.

pub mod counters;
pub mod lifetime_counters;
pub mod spans;
