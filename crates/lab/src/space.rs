//! What a flush takes of the pool, and how space is given back.

use std::sync::Arc;

use slmdb_engine::Options;
use slmdb_engine::batch::Totals;
use slmdb_engine::space::admission::{Grant, KEPT_DELETE_KEY_BYTES};
use slmdb_engine::space::controller::{FlushCost, Reclaim, Resource, TakenFrom};
use slmdb_engine::space::smallest_pool;
use slmdb_engine::write::write_path::WritePath;
use slmdb_env::{Error, Result};
use slmdb_manifest::MediumKind;
use slmdb_pmem::{Dram, ExtentKind, Medium, Pool, PoolOptions, UNIT_BYTES};
use slmdb_structures::hybrid_tree::{MAXIMUM_KEY_BYTES, pool_bytes_max};
use slmdb_sync::epoch;

use crate::compaction::queue::{CompactionQueue, SpaceWanted};
use crate::level_zero::LevelZero;

/// How many table files a compaction for space may need at once. The oldest run file stays until all of it has gone to
/// level 1, and one file there is written anew with a part of it. Or a file of an upper level stays while it is merged with
/// one of the level below.
pub(crate) const OUTPUTS_FOR_SPACE: u64 = 2;

/// [`Error::Invalid`] if a pool with these options, and no larger than `device_bytes`, refuses every write.
pub(crate) fn check_pool(options: &Options, kind: MediumKind, device_bytes: Option<u64>) -> Result<()> {
    smallest_pool::check_pool(options, device_bytes, |pool| admit_one(options, kind, pool))
}

/// [`Error::Full`] if the first write would get that error.
fn admit_one(options: &Options, kind: MediumKind, pool: &PoolOptions) -> Result<()> {
    let pool = Pool::anonymous(Dram, pool)?;
    if kind != MediumKind::Dram {
        pool.allocate_extent(ExtentKind::Arena, options.memtable_bytes, 1)?;
    }
    let mut write = Totals::default();
    write.add(KEPT_DELETE_KEY_BYTES, Some(0));
    reserve(&pool, &Grant::for_write(options, &write), 0)
}

/// What flushes take of the pool: records, and at worst leaves that are split.
pub(crate) struct PoolFlushCost<M: Medium> {
    pub(crate) writes: Arc<WritePath<M>>,
    pub(crate) level_zero: Arc<LevelZero<M>>,
}

impl<M: Medium + Clone> FlushCost for PoolFlushCost<M> {
    /// LOCKS: memtables
    fn provide_in_pool(&self, more: Grant, _: TakenFrom) -> Result<()> {
        let grant = self.writes.memtables.lock().begin_grant(more);
        reserve::<M>(&self.level_zero.pool, &grant, self.level_zero.mutable().size().leaves)?;
        self.writes.memtables.lock().granted_in_pool = grant;
        Ok(())
    }
}

impl<M: Medium + Clone> PoolFlushCost<M> {
    /// Frees what was set aside in the pool for a flushed MemTable and not used (INV-31).
    /// LOCKS: memtables
    pub(crate) fn release_in_pool(&self, flushed: &Totals) -> Result<()> {
        let granted = self.writes.memtables.lock().release(flushed);
        match reserve::<M>(&self.level_zero.pool, &granted, self.level_zero.mutable().size().leaves) {
            // The bound does not know how much of the worst case has already happened. What was granted is there.
            Err(Error::Full { .. }) => Ok(()),
            done => done,
        }
    }
}

/// Sets aside in the pool what flushing a grant takes. [`Error::Full`] if it is not there.
pub(crate) fn reserve<M: Medium>(pool: &Pool<M>, grant: &Grant, leaves: u64) -> Result<()> {
    let Totals { entries, key_bytes, longest_key_bytes, .. } = grant.totals;
    let longest_key_bytes = longest_key_bytes.min(MAXIMUM_KEY_BYTES as u32);
    let bytes = pool_bytes_max::<M>(entries, key_bytes, longest_key_bytes, leaves);
    let piece_bytes = (u64::from(longest_key_bytes) * 2).max(UNIT_BYTES);
    // First lowered to the part that is free, so that raising it finds out what is missing.
    pool.set_reserve(pool.reserve_free_bytes().min(bytes), piece_bytes)?;
    pool.set_reserve(bytes, piece_bytes)
}

/// Asks for compactions that give space back.
pub(crate) struct SpaceReclaim<M: Medium> {
    pub(crate) level_zero: Arc<LevelZero<M>>,
    pub(crate) compactions: Arc<CompactionQueue>,
}

impl<M: Medium + Clone> Reclaim for SpaceReclaim<M> {
    fn lacking(&self, full: &Error) -> Resource {
        match full {
            Error::Full { path, .. } if path == self.level_zero.pool.path() => Resource::Pool,
            _ => Resource::Disk,
        }
    }

    fn returned_by_readers(&self) -> u64 {
        self.level_zero.slots.returned()
    }

    fn readers_hold(&self, resource: Resource) -> bool {
        if resource != Resource::Pool || self.level_zero.slots.retiring() == 0 {
            return false;
        }
        // What nobody reads any more is given back by whoever asks next.
        epoch::pin().flush();
        self.level_zero.slots.retiring() > 0
    }

    fn compact_for(&self, resource: Resource, at_any_cost: bool) -> bool {
        self.compactions.want_space(SpaceWanted { resource, at_any_cost })
    }
}
