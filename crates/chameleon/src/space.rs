//! What lies in the pool: arenas, and nothing else.

use slmdb_engine::Options;
use slmdb_engine::space::smallest_pool;
use slmdb_env::Result;
use slmdb_manifest::MediumKind;
use slmdb_pmem::{AnyMedium, ExtentKind, Pool};

/// [`Error::Invalid`](slmdb_env::Error::Invalid) if a pool with these options, and no larger than `device_bytes`, refuses every write.
pub(crate) fn check_pool(options: &Options, kind: MediumKind, device_bytes: Option<u64>) -> Result<()> {
    if kind == MediumKind::Dram {
        return Ok(());
    }
    smallest_pool::check_pool(options, device_bytes, |pool| {
        let pool = Pool::anonymous(AnyMedium::dram(), pool)?;
        pool.allocate_extent(ExtentKind::Arena, options.memtable_bytes, 1).map(drop)
    })
}
