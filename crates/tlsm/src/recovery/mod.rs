//! Opening and repair. The MANIFEST says which runs are on which level, so nothing is read.

pub(crate) mod open;
pub(crate) mod repair;

use std::path::Path;
use std::sync::Arc;

use slmdb_engine::Options;
use slmdb_engine::files::table_cache::Tables;
use slmdb_engine::space::smallest_pool;
use slmdb_env::{Error, Result};
use slmdb_levels::{Levels, TableRun};
use slmdb_manifest::{FILE_NAME, MediumKind, StoreState};
use slmdb_pmem::{AnyMedium, ExtentKind, Pool};

use crate::options::level_options;

/// [`Error::Invalid`] if a pool with these options, and no larger than `device_bytes`, refuses every write.
pub(crate) fn check_pool(options: &Options, kind: MediumKind, device_bytes: Option<u64>) -> Result<()> {
    smallest_pool::check_pool(options, device_bytes, |pool| {
        let pool = Pool::anonymous(AnyMedium::dram(), pool)?;
        match kind {
            MediumKind::Dram => Ok(()),
            _ => pool.allocate_extent(ExtentKind::Arena, options.memtable_bytes, 1).map(drop),
        }
    })
}

/// The levels of a store, as its MANIFEST has them.
pub(crate) fn open_levels(
    options: &Options,
    directory: &Path,
    state: &StoreState,
    tables: &Arc<Tables>,
) -> Result<Levels<TableRun>> {
    let runs = slmdb_levels::runs_of(state, 0, tables);
    let damaged = |what| Error::corruption(directory.join(FILE_NAME), 0, what);
    Levels::open(level_options(options), options.comparator.clone(), runs).map_err(damaged)
}
