//! Writing a list.

use std::sync::Arc;

use slmdb_env::Result;
use slmdb_order::KeyOrder;
use slmdb_pmem::{Claim, Medium, Pool};

use super::entry::Place;
use super::record::FinishedList;
use crate::EntryKind;

/// How often a list is made durable while it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Persists {
    /// Once, as a whole.
    #[default]
    Once,
    /// Four times for each node: what the paper's algorithms 1 and 2 take. For comparison; it makes nothing safer.
    FourEach,
}

/// How a list is made.
#[derive(Debug, Clone)]
pub struct ListOptions {
    /// The order of its keys.
    pub order: KeyOrder,
    /// Bits of filter for each key; 0: no filter.
    pub filter_bits_per_key: u32,
    /// Whether it may take what the pool holds in reserve.
    pub claim: Claim,
    /// How often it is made durable.
    pub persists: Persists,
}

/// Gathers the nodes of a list in memory, about 20 bytes an entry.
pub struct ListWriter<M: Medium> {
    pool: Arc<Pool<M>>,
    number: u32,
    options: ListOptions,
}

impl<M: Medium> ListWriter<M> {
    /// A list of this number, which no other has, with no entry yet.
    pub fn new(pool: Arc<Pool<M>>, number: u32, options: ListOptions) -> ListWriter<M> {
        ListWriter { pool, number, options }
    }

    /// Adds an entry: keys ascend, versions of one key come newest first. Else it is
    /// [`Error::Invalid`](slmdb_env::Error::Invalid).
    pub fn add(&mut self, key: &[u8], sequence: u64, kind: EntryKind, place: Place) -> Result<()> {
        let _ = (key, sequence, kind, place);
        todo!()
    }

    /// How many entries were added.
    pub fn entries(&self) -> u64 {
        todo!()
    }

    /// What the list will take, in bytes, without its entries; not rounded up to units.
    pub fn bytes(&self) -> u64 {
        todo!()
    }

    /// What its entries take in their segments, in bytes.
    pub fn data_bytes(&self) -> u64 {
        todo!()
    }

    /// Writes the list into an extent whose owner is its number. It is complete after
    /// [`SegmentWriter::complete`](super::SegmentWriter::complete) only. After an error nothing is left behind.
    ///
    /// [`Error::Invalid`](slmdb_env::Error::Invalid) if it has no entry, [`Error::Full`](slmdb_env::Error::Full) if the pool has
    /// no room.
    pub fn finish(self, created_unix_ns: u64) -> Result<FinishedList> {
        let _ = created_unix_ns;
        todo!()
    }
}
