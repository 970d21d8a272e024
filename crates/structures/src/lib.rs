//! The structures of slmdb in the fast tier: the skiplist MemTable, the FAST and FAIR B+-tree and the hybrid tree.

mod entry_kind;
pub mod fast_fair;
pub mod hybrid_tree;
mod key_lengths;
pub mod memtable;
mod prefetch;

pub use entry_kind::EntryKind;
pub use key_lengths::{KeyLengths, LONG_KEY_BYTES};
