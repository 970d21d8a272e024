//! [`FlushCost`] of SLM-DB: what a flush takes of the pool. That is the key records, and at worst the nodes that the
//! index may have to split.

use std::sync::Arc;

use slmdb_engine::batch::Totals;
use slmdb_engine::space::admission::Grant;
use slmdb_engine::space::controller::{FlushCost, TakenFrom};
use slmdb_engine::write::write_path::WritePath;
use slmdb_env::{Error, Result};
use slmdb_pmem::Medium;

use crate::index::Index;
use crate::space::pool_reserve::PoolReserve;
use crate::space::pool_reserve::reserve;

/// What flushes take of the pool.
pub(crate) struct PoolFlushCost<M: Medium> {
    pub(crate) writes: Arc<WritePath<M>>,
    pub(crate) index: Arc<Index<M>>,
    pub(crate) pool_reserve: Arc<PoolReserve>,
}

impl<M: Medium + Clone> FlushCost for PoolFlushCost<M> {
    /// LOCKS: indexed keys, memtables
    fn provide_in_pool(&self, more: Grant, from: TakenFrom) -> Result<()> {
        let kept_back_bytes = if from == TakenFrom::Reserve { 0 } else { self.pool_reserve.segment_bytes() };
        let indexed = self.pool_reserve.indexed_keys.lock();
        let grant = self.writes.memtables.lock().begin_grant(more);
        reserve(&self.index.pool, &self.index.tree, &grant, *indexed, kept_back_bytes)?;
        self.writes.memtables.lock().granted_in_pool = grant;
        Ok(())
    }
}

impl<M: Medium + Clone> PoolFlushCost<M> {
    /// Sets aside again what is granted and reserved, after a compaction has freed space in the pool.
    /// LOCKS: indexed keys, memtables
    pub(crate) fn reserve_again(&self) -> Result<()> {
        let indexed = self.pool_reserve.indexed_keys.lock();
        let granted = self.writes.memtables.lock().granted_in_pool;
        reserve(&self.index.pool, &self.index.tree, &granted, *indexed, self.pool_reserve.segment_bytes())
    }

    /// Frees what was set aside in the pool for a flushed MemTable and not used (INV-31).
    /// LOCKS: indexed keys, memtables
    pub(crate) fn release_in_pool(&self, flushed: &Totals) -> Result<()> {
        let mut indexed = self.pool_reserve.indexed_keys.lock();
        indexed.add_all(flushed.long_keys());
        let granted = self.writes.memtables.lock().release(flushed);
        match reserve(&self.index.pool, &self.index.tree, &granted, *indexed, self.pool_reserve.segment_bytes()) {
            // The bound does not know how much of the worst case has already happened. What was granted is there.
            Err(Error::Full { .. }) => Ok(()),
            done => done,
        }
    }
}
