//! Compactions: garbage of table files, and the last level of the index.

pub(crate) mod garbage;
pub(crate) mod last_level;
mod outputs;
pub(crate) mod pace;
