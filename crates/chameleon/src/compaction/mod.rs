//! Garbage of table files.

pub(crate) mod garbage;
mod outputs;
