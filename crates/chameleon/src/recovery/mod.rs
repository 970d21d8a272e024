//! Opening and repair.

pub(crate) mod open;
mod rebuild;
pub(crate) mod repair;
