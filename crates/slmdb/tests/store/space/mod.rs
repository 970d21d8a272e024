//! Full disks and pools, the ways out of them, and what else may be lacking.

pub(crate) mod compaction;
mod filled;
mod garbage;
mod lacks;
mod reclaim;
mod stress;
