//! Write stalls: how much writers are slowed, and what they have waited for.

pub mod pacing;
pub mod stall_stats;
