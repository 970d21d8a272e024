//! [`Location`]: where a value lies.

use slmdb_table::Place;

/// Where a value lies: the table file, the block in it, and the entry in that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Location {
    /// The number of the table file.
    pub file: u32,
    /// Where the entry's block is in the file.
    pub place: Place,
    /// The sequence number of the entry.
    pub sequence: u64,
}
