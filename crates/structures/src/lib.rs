//! The structures of slmdb in the fast tier: the log, the skiplist MemTable, the FAST and FAIR B+-tree, the tree for plain memory, the
//! hybrid tree, lists and
//! hash tables.

pub mod fast_fair;
pub mod hash;
pub mod hybrid_tree;
mod key_lengths;
pub mod list;
pub mod log;
pub mod memory_tree;
pub mod memtable;
mod prefetch;
mod published;

pub use key_lengths::{KeyLengths, LONG_KEY_BYTES};
pub use slmdb_order::EntryKind;
