//! Opening and repair.

mod load;
pub(crate) mod open;
mod rebuild;
pub(crate) mod repair;
