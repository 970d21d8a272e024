//! Full disks and pools, the ways out of them, and what else may be lacking.

mod compaction;
mod filled;
mod garbage;
mod lacks;
pub(crate) mod machine;
mod many;
mod reclaim;
mod rest;
mod short_memtables;
mod stack;
mod stress;
