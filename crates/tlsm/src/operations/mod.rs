//! Reads and checks.

pub(crate) mod range_query;
pub(crate) mod verify;
