//! Checking a table from end to end.

use slmdb_env::Error;

use super::TableBytes;
use super::search::HashTable;

/// A damaged table may hold very many faults; the first few tell the story.
const FAULTS_MAX: usize = 64;

impl<B: TableBytes> HashTable<B> {
    /// Reads all of it: of each part the checksum, the order of its slots, that each lies where a search comes by, and how many
    /// there are. (The header was checked at the opening.) Empty if all is well; else the first fault of each part.
    pub fn verify(&self) -> Vec<Error> {
        let parts = self.record.range.clone().filter_map(|shard| u16::try_from(shard).ok());
        parts.filter_map(|shard| self.slots(shard).find_map(Result::err)).take(FAULTS_MAX).collect()
    }
}
