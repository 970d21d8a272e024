//! Section 4: get and range query. Beside the paper: estimates and verification.

pub(crate) mod ask_ahead;
pub(crate) mod get;
pub(crate) mod range_estimate;
pub(crate) mod range_query;
pub(crate) mod verify;
