//! What a flush takes of the pool.

use slmdb_engine::Options;
use slmdb_engine::batch::Totals;
use slmdb_engine::space::allowance::Grant;
use slmdb_engine::space::smallest_pool;
use slmdb_env::Result;
use slmdb_manifest::MediumKind;
use slmdb_pmem::{AnyMedium, ExtentKind, Pool, PoolOptions, UNIT_BYTES};
use slmdb_structures::hybrid_tree::{MAXIMUM_KEY_BYTES, pool_bytes_max};

/// [`Error::Invalid`] if a pool with these options, and no larger than `device_bytes`, refuses every write.
pub(crate) fn check_pool(options: &Options, kind: MediumKind, device_bytes: Option<u64>) -> Result<()> {
    smallest_pool::check_pool(options, device_bytes, |pool| admit_one(options, kind, pool))
}

/// [`Error::Full`] if the first write would get that error.
fn admit_one(options: &Options, kind: MediumKind, pool: &PoolOptions) -> Result<()> {
    let pool = Pool::anonymous(AnyMedium::dram(), pool)?;
    if kind != MediumKind::Dram {
        pool.allocate_extent(ExtentKind::Arena, options.memtable_bytes, 1)?;
    }
    reserve(&pool, &Grant::least(options), 0)
}

/// Sets aside in the pool what flushing a grant takes. [`Error::Full`] if it is not there.
pub(crate) fn reserve(pool: &Pool<AnyMedium>, grant: &Grant, leaves: u64) -> Result<()> {
    let Totals { entries, key_bytes, longest_key_bytes, .. } = grant.totals;
    let longest_key_bytes = longest_key_bytes.min(MAXIMUM_KEY_BYTES as u32);
    let bytes = pool_bytes_max::<AnyMedium>(entries, key_bytes, longest_key_bytes, leaves);
    let piece_bytes = (u64::from(longest_key_bytes) * 2).max(UNIT_BYTES);
    // First lowered to the part that is free, so that raising it finds out what is missing.
    pool.set_reserve(pool.reserve_free_bytes().min(bytes), piece_bytes)?;
    pool.set_reserve(bytes, piece_bytes)
}
