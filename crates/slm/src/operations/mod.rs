//! Section 4: get, range query, insert if absent and update if present; and what is beside the paper: snapshots, copies, checks.

pub(crate) mod approximate;
pub(crate) mod ask_ahead;
pub(crate) mod get;
pub(crate) mod heading;
pub(crate) mod range_query;
pub(crate) mod snapshot;
pub(crate) mod verify;
