//! Searching a list.

use slmdb_env::Result;
use slmdb_pmem::Medium;

use super::open::List;
use crate::EntryKind;

/// A version of a key that was found. Its checksums were right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found<'l> {
    /// A put or a delete.
    pub kind: EntryKind,
    /// Its sequence number.
    pub sequence: u64,
    /// The value, where it lies in the pool; empty for a delete.
    pub value: &'l [u8],
}

impl<M: Medium> List<M> {
    /// The newest version of a key up to this sequence number.
    ///
    /// [`Error::Corruption`](slmdb_env::Error::Corruption) if what leads there, or the entry, is damaged. (Only a damaged filter
    /// could hide a key, and that is checked at the opening.)
    pub fn get(&self, key: &[u8], sequence_max: u64) -> Result<Option<Found<'_>>> {
        let _ = (key, sequence_max);
        todo!()
    }

    /// How many entries have a key before `key`: exact.
    pub fn rank(&self, key: &[u8]) -> Result<u64> {
        let _ = key;
        todo!()
    }
}
