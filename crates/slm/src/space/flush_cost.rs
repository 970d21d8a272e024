//! [`FlushCost`] of SLM-DB: what a flush takes of the pool. That is the key records, and at worst the nodes that the
//! index may have to split.

use std::sync::Arc;

use slmdb_engine::batch::Totals;
use slmdb_engine::space::admission::{Grant, kept_for_deletes, table_bytes};
use slmdb_engine::space::controller::{FlushCost, TakenFrom};
use slmdb_engine::space::reserved_file::ReservedFile;
use slmdb_engine::write::memtables::Immutable;
use slmdb_engine::write::write_path::WritePath;
use slmdb_env::{Error, Result};
use slmdb_pmem::Medium;

use crate::index::Index;
use crate::recovery::recover::RecoveredStore;
use crate::space::pool_reserve::PoolReserve;
use crate::space::pool_reserve::reserve;

/// What flushes take of the pool.
pub(crate) struct PoolFlushCost<M: Medium> {
    pub(crate) writes: Arc<WritePath<M>>,
    pub(crate) index: Arc<Index<M>>,
    pub(crate) pool_reserve: Arc<PoolReserve>,
}

impl<M: Medium + Clone> FlushCost for PoolFlushCost<M> {
    /// LOCKS: indexed keys, traffic
    fn provide_in_pool(&self, more: Grant, from: TakenFrom) -> Result<()> {
        let kept_back_bytes = if from == TakenFrom::Reserve { 0 } else { self.pool_reserve.segment_bytes() };
        let indexed = self.pool_reserve.indexed_keys.lock();
        let grant = {
            let mut traffic = self.writes.traffic.lock();
            let totals = traffic.admitted.plus(&more.totals);
            let grant = Grant { totals, memtables: traffic.immutables as u64 + more.memtables };
            // Perhaps a smaller grant than before; and writers are at work meanwhile.
            traffic.granted_in_pool = traffic.granted_in_pool.at_most(&grant);
            grant
        };
        reserve(&self.index.pool, &self.index.tree, &grant, *indexed, kept_back_bytes)?;
        self.writes.traffic.lock().granted_in_pool = grant;
        Ok(())
    }
}

impl<M: Medium + Clone> PoolFlushCost<M> {
    /// Sets aside again what is granted and reserved, after a compaction has freed space in the pool.
    /// LOCKS: indexed keys, traffic
    pub(crate) fn reserve_again(&self) -> Result<()> {
        let indexed = self.pool_reserve.indexed_keys.lock();
        let granted = self.writes.traffic.lock().granted_in_pool;
        reserve(&self.index.pool, &self.index.tree, &granted, *indexed, self.pool_reserve.segment_bytes())
    }

    /// Frees what was set aside in the pool for a flushed MemTable and not used (INV-31).
    /// LOCKS: indexed keys, traffic
    pub(crate) fn release_in_pool(&self, flushed: &Totals) -> Result<()> {
        let mut indexed = self.pool_reserve.indexed_keys.lock();
        indexed.add_all(flushed.long_keys());
        let granted = {
            let mut traffic = self.writes.traffic.lock();
            traffic.admitted = traffic.admitted.minus(flushed);
            traffic.immutables -= 1;
            traffic.space_returned += 1;
            traffic.granted_in_pool = traffic.granted_in_pool.minus(flushed);
            traffic.granted_in_pool
        };
        match reserve(&self.index.pool, &self.index.tree, &granted, *indexed, self.pool_reserve.segment_bytes()) {
            // The bound does not know how much of the worst case has already happened. What was granted is there.
            Err(Error::Full { .. }) => Ok(()),
            done => done,
        }
    }
}

impl<M: Medium + Clone> RecoveredStore<M> {
    /// Sets aside in the pool what flushing the recovered MemTables will need, before a new arena may take it. It was
    /// set aside when they were written. If there is less now, their flushes wait for space.
    pub(crate) fn reserve_for_recovered(&self) -> Result<()> {
        let totals = self.recovered.iter().fold(Totals::default(), |sum, immutable| sum.plus(&immutable.totals));
        let with_deletes = totals.plus(&kept_for_deletes(&self.options));
        let memtables = self.recovered.len() as u64;
        let indexed = *self.pool_reserve.indexed_keys.lock();
        let reserve = |grant, kept_back_bytes| match reserve(&self.pool, &self.tree, &grant, indexed, kept_back_bytes) {
            Err(Error::Full { .. }) => Ok(false),
            done => done.map(|()| true),
        };
        let with_deletes = Grant { totals: with_deletes, memtables: memtables + 1 };
        let _ = reserve(with_deletes, self.pool_reserve.segment_bytes())?
            || reserve(with_deletes, 0)?
            || reserve(Grant { totals, memtables }, 0)?;
        Ok(())
    }

    /// The same on the disk, for their table files.
    pub(crate) fn set_aside_for_recovered(&mut self) -> Result<()> {
        let (env, directory, options) = (&*self.options.env, &self.directory, &self.options);
        for Immutable { memtable, totals, space, .. } in &mut self.recovered {
            let space_bytes = table_bytes(options, totals);
            self.reserve.expect_file(space_bytes);
            *space = ReservedFile::if_there_is(env, directory, memtable.generation(), space_bytes)?;
        }
        Ok(())
    }
}
