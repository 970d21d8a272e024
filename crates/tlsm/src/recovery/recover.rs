//! Recovery (paper, IV-E, algorithm 3): the lists that the MANIFEST names are found in the pool, and what it does not name is freed.
//!
//! Of a list the header is read, and the filter and levels that lead to its nodes: two bytes for each key. Neither nodes nor entries
//! are.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use slmdb_engine::Options;
use slmdb_engine::files::table_cache::Tables;
use slmdb_env::{Error, Result};
use slmdb_levels::{Levels, RunRecord, TableRun, runs_of};
use slmdb_manifest::{FILE_NAME, StoreState};
use slmdb_pmem::{AnyMedium, Extent, ExtentKind, Pool};
use slmdb_structures::list::List;

use crate::options::level_options;
use crate::persistent_skiplist::pool_run::{PoolRun, record_of};
use crate::persistent_skiplist::run::TlsmRun;
use crate::persistent_skiplist::segments::Segments;

/// A run, and its level.
type OnLevel = (u8, Arc<TlsmRun>);

/// The lists of a store, as its MANIFEST has them.
pub(super) fn open_lists(
    options: &Options,
    state: &StoreState,
    pool: &Arc<Pool<AnyMedium>>,
    segments: &Arc<Segments>,
) -> Result<Vec<OnLevel>> {
    let extents = lists_of(pool);
    let open = |(&number, record): (&u32, _)| {
        let list = open_list(options, number, record, pool, &extents)?;
        let run = TlsmRun::List(PoolRun::new(list, segments.clone()));
        Ok((record.level, Arc::new(run)))
    };
    state.lists.iter().map(open).collect()
}

/// The extents of lists in a pool, by their numbers.
pub(super) fn lists_of(pool: &Pool<AnyMedium>) -> BTreeMap<u32, Extent> {
    let lists = pool.extents().into_iter().filter(|extent| extent.kind == ExtentKind::List);
    lists.map(|extent| (extent.owner, extent)).collect()
}

/// Opens a list that the MANIFEST names, and compares the two.
pub(super) fn open_list(
    options: &Options,
    number: u32,
    record: &slmdb_manifest::FileRecord,
    pool: &Arc<Pool<AnyMedium>>,
    extents: &BTreeMap<u32, Extent>,
) -> Result<List<AnyMedium>> {
    let Some(extent) = extents.get(&number) else {
        let what =
            format!("list {number}, which the MANIFEST names, is not in the pool; `slmdb repair` saves the others");
        return Err(Error::corruption(pool.path(), 0, what));
    };
    let list = List::open(pool.clone(), *extent, number, options.comparator.clone())?;
    if record_of(list.record()) != RunRecord::from(record) {
        let what = format!("list {number} is another one than the MANIFEST says");
        return Err(Error::corruption(pool.path(), extent.offset, what));
    }
    Ok(list)
}

/// The levels of a store, with these lists.
pub(super) fn open_levels(
    options: &Options,
    directory: &Path,
    state: &StoreState,
    tables: &Arc<Tables>,
    lists: Vec<OnLevel>,
) -> Result<Levels<TlsmRun>> {
    let of_table = |(level, table): (u8, Arc<TableRun>)| (level, Arc::new(TlsmRun::from(table)));
    let runs = runs_of(state, 0, tables).into_iter().map(of_table).chain(lists);
    let damaged = |what| Error::corruption(directory.join(FILE_NAME), 0, what);
    Levels::open(level_options(options), options.comparator.clone(), runs).map_err(damaged)
}

/// Frees the lists that the MANIFEST does not name, and the segments that no list names: what jobs have left that a crash cut short.
pub(super) fn free_strays(pool: &Pool<AnyMedium>, segments: &Segments, state: &StoreState) -> Result<()> {
    let named: BTreeSet<u32> = state.lists.keys().copied().collect();
    let is_stray = |extent: &Extent| match extent.kind {
        ExtentKind::List => !named.contains(&extent.owner),
        ExtentKind::Segment => !segments.has(extent.offset),
        _ => false,
    };
    pool.extents().iter().filter(|extent| is_stray(extent)).try_for_each(|extent| pool.free_extent(extent.offset))
}
