//! Parts of cursors and merges.

pub mod memtable_iterator;
pub mod merge;
pub mod ordered_key;
