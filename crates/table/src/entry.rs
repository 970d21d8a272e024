//! What a table file holds: entries, and where they are.

use std::cmp::Ordering;

use slmdb_order::KeyOrder;

pub use slmdb_order::EntryKind;

use crate::slice::Slice;

/// How entries with these keys and sequence numbers stand in a table file: by key, versions of one key newest first.
#[inline]
pub(crate) fn order_of_entries(order: &KeyOrder, left: (&[u8], u64), right: (&[u8], u64)) -> Ordering {
    order.compare(left.0, right.0).then_with(|| right.1.cmp(&left.1))
}

/// Where a block is in its file: what the index keeps of each key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// Where the block starts, in bytes from the start of the file.
    pub offset: u32,
    /// Its length in bytes as stored, trailer included: what has to be read.
    pub length: u32,
}

impl Place {
    /// Where the block ends, in bytes from the start of the file.
    pub fn end(self) -> u64 {
        u64::from(self.offset) + u64::from(self.length)
    }
}

/// An entry on its way into a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewEntry<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) sequence: u64,
    pub(crate) kind: EntryKind,
    pub(crate) value: &'a [u8],
}

/// One entry of a block, found by its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockEntry {
    /// The number of the write that made it. To be compared with the index's: another number means that index and file
    /// don't belong together.
    pub sequence: u64,
    /// What it does.
    pub kind: EntryKind,
    /// The value, which keeps the block's bytes in memory; empty for a delete.
    pub value: Slice,
}

/// One entry of a block, with its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableEntry {
    /// The key.
    pub key: Vec<u8>,
    /// The number of the write that made it.
    pub sequence: u64,
    /// What it does.
    pub kind: EntryKind,
    /// The value, which keeps the block's bytes in memory; empty for a delete.
    pub value: Slice,
}

/// One entry of a key section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyEntry<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The number of the write that made the entry.
    pub sequence: u64,
    /// What the entry does.
    pub kind: EntryKind,
    /// The block that has the entry.
    pub place: Place,
}
