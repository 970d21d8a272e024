//! Opening a list.

use std::sync::Arc;

use slmdb_env::Result;
use slmdb_order::KeyOrder;
use slmdb_pmem::{Extent, Medium, Pool};

use super::record::ListRecord;

/// A complete list, open. Any number of threads read it at a time.
///
/// REQUIRES: neither its extent nor a segment of its is freed while it is there, or anything lent from it.
pub struct List<M: Medium> {
    pool: Arc<Pool<M>>,
    order: KeyOrder,
    record: ListRecord,
}

impl<M: Medium> List<M> {
    /// Opens the list of this number that lies in this extent. Reads header, filter and the upper levels, and checks them.
    /// Its nodes and entries are checked when they are reached.
    ///
    /// [`Error::Corruption`](slmdb_env::Error::Corruption) if there is no complete list of this number, or it is damaged, or a
    /// segment is missing. [`Error::Unsupported`](slmdb_env::Error::Unsupported) if it is of another version, or of another
    /// order of keys.
    pub fn open(pool: Arc<Pool<M>>, extent: Extent, number: u32, order: KeyOrder) -> Result<List<M>> {
        let _ = (pool, extent, number, order);
        todo!()
    }

    /// What is known of it.
    pub fn record(&self) -> &ListRecord {
        &self.record
    }

    /// The order of its keys.
    pub fn order(&self) -> &KeyOrder {
        &self.order
    }

    /// The pool that it lies in.
    pub fn pool(&self) -> &Arc<Pool<M>> {
        &self.pool
    }

    /// What it takes of plain memory, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        todo!()
    }
}
