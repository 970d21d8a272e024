//! The structures of slmdb in the fast tier: the skiplist MemTable and the FAST and FAIR B+-tree.

mod entry_kind;
pub mod fast_fair;
mod key_lengths;
pub mod memtable;

pub use entry_kind::EntryKind;
pub use key_lengths::{KeyLengths, LONG_KEY_BYTES};
