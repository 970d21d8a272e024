//! Section 4: get and range query. Beside the paper: snapshots, estimates and verification.

pub(crate) mod ask_ahead;
pub(crate) mod get;
pub(crate) mod heading;
pub(crate) mod range_estimate;
pub(crate) mod range_query;
pub(crate) mod snapshot;
pub(crate) mod verify;
