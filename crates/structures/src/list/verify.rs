//! Checking a list from end to end.

use slmdb_env::Error;
use slmdb_pmem::Medium;

use super::open::List;

impl<M: Medium> List<M> {
    /// Reads all of it and all its entries: their order, heads and checks, each entry's checksums, that the filter has each key, the
    /// counts, bounds, and what it has of each segment. Empty if all is well; else the first faults.
    pub fn verify(&self) -> Vec<Error> {
        todo!()
    }
}
