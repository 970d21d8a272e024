//! Whether a pool can become large enough to take a write at all.
//!
//! The need follows from many options, and from how an engine's structures are built. So it is not computed but tried: a
//! write is admitted in a pool in memory with the same maximum. Only small pools are checked.

use slmdb_env::{Error, Result};
use slmdb_pmem::PoolOptions;

use crate::Options;

/// A pool whose maximum is this many MemTables and this many bytes takes writes.
pub const ROOMY_TIMES: u64 = 4;
/// See [`ROOMY_TIMES`].
pub const ROOMY_BYTES: u64 = 64 << 20;

/// [`Error::Invalid`] if a pool with these options, and no larger than `device_bytes`, refuses every write. `admit_one`
/// admits a write in such a pool in memory; [`Error::Full`] means that it is refused.
pub fn check_pool(
    options: &Options,
    device_bytes: Option<u64>,
    admit_one: impl FnOnce(&PoolOptions) -> Result<()>,
) -> Result<()> {
    let (initial_bytes, maximum_bytes) = match device_bytes {
        Some(device_bytes) => {
            let bytes = device_bytes.min(options.pool_maximum_bytes);
            (bytes, bytes)
        }
        None => (options.pool_initial_bytes, options.pool_maximum_bytes.max(options.pool_initial_bytes)),
    };
    let is_roomy = maximum_bytes >= options.memtable_bytes.saturating_mul(ROOMY_TIMES).saturating_add(ROOMY_BYTES);
    if options.read_only || is_roomy {
        return Ok(());
    }
    let pool = PoolOptions { initial_bytes, growth_bytes: options.pool_growth_bytes, maximum_bytes, uuid: [0; 16] };
    match admit_one(&pool) {
        Err(Error::Full { .. }) => Err(Error::invalid(format!(
            "a pool that may have {maximum_bytes} bytes has no room for one MemTable of {} and what its flush takes: raise \
             pool_maximum_bytes{}, or lower memtable_bytes",
            options.memtable_bytes,
            if device_bytes.is_some() { " or take a larger device" } else { "" }
        ))),
        tried => tried,
    }
}
