//! Background threads, and whether a store still takes writes.

pub mod health;
pub mod workers;
