//! What a store promises, through its public interface: one program, so that there is one to link. What has to have a
//! process of its own stands beside it.
#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;

mod approximate;
mod candidates;
mod checkpoint;
mod compact_range;
mod compaction;
mod compaction_faults;
mod compaction_stress;
mod comparator;
mod conditional;
mod conditional_kill;
mod conditional_void;
mod destroy;
mod device;
mod engines;
mod events;
mod fixtures;
mod full;
mod full_compaction;
mod full_garbage;
mod full_way_out;
mod hostile;
mod interface;
mod kill;
mod lacks;
mod linearizable;
mod mapped;
mod model;
mod one_moment;
mod random_everything;
mod recovery;
mod refusals;
mod repair;
mod review;
mod review_full;
mod snapshots;
mod snapshots_random;
mod store_copy;
mod stress_full;
mod synced_arenas;
mod upkeep_kill;
mod vouched;
mod write_options;
mod zstd;
