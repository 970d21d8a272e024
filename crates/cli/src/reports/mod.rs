//! What a store says of itself, as JSON and as text. The names of numbers are those of the library.

pub mod repair;
pub mod stats;
