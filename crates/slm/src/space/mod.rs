//! Space: what a flush costs, and how compactions give space back. What is done with both is [`slmdb_engine::space`]'s.

pub(crate) mod flush_cost;
pub(crate) mod pool_reserve;
pub(crate) mod reclaim;
pub(crate) mod smallest_pool;
pub(crate) mod space_planner;
#[cfg(test)]
mod tests;
