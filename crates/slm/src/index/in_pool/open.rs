//! The index in a store's pool: opened, or made.

use std::sync::Arc;

use slmdb_engine::Options;
use slmdb_engine::directory::pool_binding::{self, FoundPool};
use slmdb_env::Result;
use slmdb_manifest::StoreState;
use slmdb_pmem::{AnyMedium, Blocks, Pool};
use slmdb_structures::fast_fair::Tree;

use super::PoolIndex;
use crate::index::OpenIndex;

/// Opens the pool of a store and its index. If the store has no pool yet, makes both.
pub(crate) fn find(medium: AnyMedium, options: &Options, state: &StoreState) -> Result<OpenIndex> {
    match pool_binding::find_pool(medium, options, state)? {
        FoundPool::New(pool) => with_index(pool, options),
        FoundPool::Old(pool) => of_pool(pool, options),
    }
}

/// Opens the index that is in a pool.
pub(crate) fn of_pool(pool: Pool<AnyMedium>, options: &Options) -> Result<OpenIndex> {
    let pool = Arc::new(pool);
    let blocks = Arc::new(Blocks::open(pool.clone())?);
    let tree = Tree::open(pool.clone(), blocks, options.comparator.clone())?;
    Ok(OpenIndex::new(pool.clone(), PoolIndex::new(pool, tree)))
}

/// Makes a new pool, as the MANIFEST describes it, with an empty index.
pub(crate) fn make(medium: AnyMedium, options: &Options, state: &StoreState) -> Result<OpenIndex> {
    with_index(pool_binding::new_pool(medium, options, state)?, options)
}

/// Puts an empty index into a new pool.
pub(crate) fn with_index(pool: Pool<AnyMedium>, options: &Options) -> Result<OpenIndex> {
    let pool = Arc::new(pool);
    let blocks = Arc::new(Blocks::open(pool.clone())?);
    let tree = Tree::create(pool.clone(), blocks, options.node_bytes, options.comparator.clone())?;
    Ok(OpenIndex::new(pool.clone(), PoolIndex::new(pool, tree)))
}
