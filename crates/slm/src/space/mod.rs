//! Space: what a flush costs, and how compactions give space back. [`slmdb_engine::space`] decides what is done with
//! both.

pub(crate) mod pool_reserve;
pub(crate) mod reclaim;
pub(crate) mod smallest_pool;
pub(crate) mod space_planner;
#[cfg(test)]
mod tests;
