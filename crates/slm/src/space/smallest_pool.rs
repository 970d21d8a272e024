//! Whether a pool can become large enough to take a write at all.
//!
//! [`slmdb_engine::space::smallest_pool`] with an arena and a key segment in the pool.

use std::sync::Arc;

use slmdb_engine::Options;
use slmdb_engine::space::allowance::Grant;
use slmdb_engine::space::smallest_pool;
use slmdb_env::Result;
use slmdb_manifest::MediumKind;
use slmdb_pmem::{AnyMedium, Blocks, ExtentKind, Pool, PoolOptions, UNIT_BYTES};
use slmdb_structures::KeyLengths;
use slmdb_structures::fast_fair::Tree;

use crate::index::has_memory_tree;
use crate::index::in_pool::reserve::reserve;

/// [`Error::Invalid`](slmdb_env::Error::Invalid) if a pool with these options, and no larger than `device_bytes`, refuses
/// every write.
pub(crate) fn check_pool(options: &Options, kind: MediumKind, device_bytes: Option<u64>) -> Result<()> {
    if kind == MediumKind::Dram && has_memory_tree(options) {
        return Ok(());
    }
    smallest_pool::check_pool(options, device_bytes, |pool| admit_one(options, kind, pool))
}

/// [`Error::Full`] if the first write, or the one after its flush, would get that error.
fn admit_one(options: &Options, kind: MediumKind, pool: &PoolOptions) -> Result<()> {
    let pool = Arc::new(Pool::anonymous(AnyMedium::dram(), pool)?);
    let blocks = Arc::new(Blocks::open(pool.clone())?);
    let tree = Tree::create(pool.clone(), blocks, options.node_bytes, options.comparator.clone())?;
    if kind != MediumKind::Dram {
        pool.allocate_extent(ExtentKind::Arena, options.memtable_bytes, 1)?;
    }
    // The segment of an earlier flush. As much is then reserved for a compaction.
    let segment = pool.allocate_extent(ExtentKind::KeySegment, UNIT_BYTES, 1)?;
    reserve(&pool, &tree, &Grant::least(options), KeyLengths::default(), segment.length_bytes)
}

#[cfg(test)]
mod tests {
    use slmdb_engine::space::smallest_pool::{ROOMY_BYTES, ROOMY_TIMES};

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
