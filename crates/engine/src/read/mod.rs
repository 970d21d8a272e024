//! Parts of cursors, snapshots and merges.

pub mod empty_ranges;
pub mod memtable_iterator;
pub mod merge;
pub mod ordered_key;
mod read_ahead;
pub mod replaced_versions;
pub mod scan_buffers;
pub mod snapshot_registry;
pub mod snapshots;
pub mod temperature;
pub mod values_ahead;
