//! The index in a store's pool: opened, or made.

use std::sync::Arc;

use slmdb_engine::Options;
use slmdb_engine::directory::pool_binding::{self, FoundPool};
use slmdb_env::Result;
use slmdb_manifest::StoreState;
use slmdb_pmem::{AnyMedium, Blocks, Pool};
use slmdb_structures::fast_fair::Tree;

use crate::recovery::recover::OpenPool;

/// Opens the pool of a store and its index. If the store has no pool yet, makes both.
pub(crate) fn find(medium: AnyMedium, options: &Options, state: &StoreState) -> Result<OpenPool> {
    match pool_binding::find_pool(medium, options, state)? {
        FoundPool::New(pool) => with_index(pool, options),
        FoundPool::Old(pool) => {
            let pool = Arc::new(pool);
            let blocks = Arc::new(Blocks::open(pool.clone())?);
            let tree = Tree::open(pool.clone(), blocks, options.comparator.clone())?;
            Ok(OpenPool { pool, tree })
        }
    }
}

/// The fast tier of a `Dram` store: memory, with an empty index that recovery fills.
pub(crate) fn in_memory(options: &Options, state: &StoreState) -> Result<OpenPool> {
    with_index(pool_binding::in_memory(options, state)?, options)
}

/// Makes a new pool, as the MANIFEST describes it, with an empty index.
pub(crate) fn make(medium: AnyMedium, options: &Options, state: &StoreState) -> Result<OpenPool> {
    with_index(pool_binding::new_pool(medium, options, state)?, options)
}

fn with_index(pool: Pool<AnyMedium>, options: &Options) -> Result<OpenPool> {
    let pool = Arc::new(pool);
    let blocks = Arc::new(Blocks::open(pool.clone())?);
    let tree = Tree::create(pool.clone(), blocks, options.node_bytes, options.comparator.clone())?;
    Ok(OpenPool { pool, tree })
}
