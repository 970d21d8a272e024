//! [`Location`]: where a value lies.

use slmdb_table::Place;

/// Where a value lies: which entry of which block of which table file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) file: u32,
    pub(crate) place: Place,
    pub(crate) sequence: u64,
}
