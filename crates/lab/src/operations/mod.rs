//! Sections 3.2 and 3.4: point reads and range queries.

pub(crate) mod get;
pub(crate) mod pauses;
mod range_estimate;
pub(crate) mod range_query;
pub(crate) mod verify;
mod window;
