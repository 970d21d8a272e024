//! Write stalls: how far writers are slowed, and what they have waited for.

pub mod pacing;
pub mod stall_stats;
