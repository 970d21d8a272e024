//! What cursors and merges are made of.

pub mod memtable_iterator;
pub mod merge;
pub mod ordered_key;
