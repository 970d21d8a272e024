//! Background threads.

pub mod workers;
