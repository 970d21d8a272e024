//! Recovery of level 0 and of the levels. [`slmdb_engine::store::opening::recover`] has the other steps.
//!
//! - Level 0: on persistent media the trees are opened, elsewhere made again from the run files.
//! - The levels: the MANIFEST says which files are where.

use std::path::Path;
use std::sync::Arc;

use slmdb_engine::Options;
use slmdb_engine::background::compaction_queue::CompactionQueue;
use slmdb_engine::files::table_cache::Tables;
use slmdb_engine::store::opening::{Recovered, Recovery};
use slmdb_env::{Error, Result};
use slmdb_levels::{LevelOptions, Levels, TableRun};
use slmdb_manifest::{FILE_NAME, StoreState};

use super::trees_in_pool::Trees;
use crate::level_zero::LevelZero;
use crate::level_zero::state::LevelZeroState;
use crate::options::LabOptions;
use crate::state::LabState;

/// Makes what the engine keeps of a store.
pub(crate) fn recover(recovery: Recovery<'_>, trees: Trees) -> Result<Recovered<LabState>> {
    let Recovery { options, directory, state, tables } = recovery;
    let level_zero = LevelZero::new(options, trees, LevelZeroState::of(state)?.epoch);
    let levels = open_levels(options, directory, state, tables)?;
    let made = Arc::new(LabState {
        options: options.own(),
        level_zero,
        levels,
        output_bytes: Default::default(),
        compactions: CompactionQueue::default(),
    });
    Ok(Recovered { state: made, remove_leftovers: Box::new(|_| Ok(())) })
}

/// The levels of a store, as its MANIFEST has them.
pub(super) fn open_levels(
    options: &Options,
    directory: &Path,
    state: &StoreState,
    tables: &Arc<Tables>,
) -> Result<Levels<TableRun>> {
    let lab: LabOptions = options.own();
    let level_options = LevelOptions {
        growth: lab.level_growth,
        ..LevelOptions::with_run_bytes(lab.level_base_bytes, options.compaction.table_file_bytes)
    };
    let runs = slmdb_levels::runs_of(state, 1, tables);
    let damaged = |what| Error::corruption(directory.join(FILE_NAME), 0, what);
    Levels::open(level_options, options.comparator.clone(), runs).map_err(damaged)
}
