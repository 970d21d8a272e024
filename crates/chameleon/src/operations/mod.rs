//! What callers ask of the tier.

mod estimate;
pub(crate) mod file_keys;
pub(crate) mod get;
pub(crate) mod range_query;
pub(crate) mod verify;
mod window;
