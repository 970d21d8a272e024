//! Section 3.2: recovery. Leaves are read, directories made, and the log replayed.

pub(crate) mod open;
pub(crate) mod rebuild;
pub(crate) mod recover;
pub(crate) mod repair;
pub(crate) mod trees_in_pool;
