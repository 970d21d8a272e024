//! Whether a pool can become large enough to take a write at all.
//!
//! The need follows from many options, and from how trees and maps are built. So it is not computed but tried: a write
//! is admitted in a pool in memory with the same maximum, with an arena and a key segment in it. Only small pools are
//! checked.

use std::sync::Arc;

use slmdb_engine::Options;
use slmdb_engine::batch::Totals;
use slmdb_engine::space::admission::{Grant, KEPT_DELETE_KEY_BYTES};
use slmdb_env::{Error, Result};
use slmdb_manifest::MediumKind;
use slmdb_pmem::{Blocks, Dram, ExtentKind, Pool, PoolOptions, UNIT_BYTES};
use slmdb_structures::KeyLengths;
use slmdb_structures::fast_fair::Tree;

use crate::space::pool_reserve::reserve;

/// A pool whose maximum is this many MemTables and this many bytes takes writes.
const ROOMY_TIMES: u64 = 4;
const ROOMY_BYTES: u64 = 64 << 20;

/// [`Error::Invalid`] if a pool with these options, and no larger than `device_bytes`, refuses every write.
pub(crate) fn check_pool(options: &Options, kind: MediumKind, device_bytes: Option<u64>) -> Result<()> {
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
    match admit_one(options, kind, &pool) {
        Err(Error::Full { .. }) => Err(Error::invalid(format!(
            "a pool that may have {maximum_bytes} bytes has no room for one MemTable of {} and what its flush takes: raise \
             pool_maximum_bytes{}, or lower memtable_bytes",
            options.memtable_bytes,
            if device_bytes.is_some() { " or take a larger device" } else { "" }
        ))),
        tried => tried,
    }
}

/// [`Error::Full`] if the first write, or the one after its flush, would get that error.
fn admit_one(options: &Options, kind: MediumKind, pool: &PoolOptions) -> Result<()> {
    let pool = Arc::new(Pool::anonymous(Dram, pool)?);
    let blocks = Arc::new(Blocks::open(pool.clone())?);
    let tree = Tree::create(pool.clone(), blocks, options.node_bytes, options.comparator.clone())?;
    if kind != MediumKind::Dram {
        pool.allocate_extent(ExtentKind::Arena, options.memtable_bytes, 1)?;
    }
    // The segment of an earlier flush. As much is then reserved for a compaction.
    let segment = pool.allocate_extent(ExtentKind::KeySegment, UNIT_BYTES, 1)?;
    let mut write = Totals::default();
    write.add(KEPT_DELETE_KEY_BYTES, Some(0));
    reserve(&pool, &tree, &Grant::for_write(options, &write), KeyLengths::default(), segment.length_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_tried_would_do() {
        for memtable_bytes in [4096, 100_000, 64 << 20, 1 << 30] {
            for kind in [MediumKind::Dram, MediumKind::Emulated] {
                let options = Options { memtable_bytes, ..Options::default() };
                let maximum_bytes = ROOMY_TIMES * memtable_bytes + ROOMY_BYTES;
                let pool = PoolOptions { initial_bytes: 0, growth_bytes: 0, maximum_bytes, uuid: [0; 16] };
                admit_one(&options, kind, &pool).unwrap();
            }
        }
    }

    #[test]
    fn a_device_has_no_more_than_it_has() {
        let options = Options { memtable_bytes: 1 << 20, ..Options::default() };
        check_pool(&options, MediumKind::Dax, Some(16 << 20)).unwrap();
        let told = check_pool(&options, MediumKind::Dax, Some(1 << 20)).unwrap_err().to_string();
        assert!(told.contains("memtable_bytes") && told.contains("device"), "{told}");
    }
}
