//! Recovery: from what a kill, a power cut or a clean close left, to the store as it was.
//!
//! 1. Level 0: on persistent media the trees are opened, elsewhere made again from the run files.
//! 2. The levels: the MANIFEST says which files are where.
//! 3. The MemTables are replayed from their arenas ([`slmdb_engine::recovery`]).
//! 4. One rename of the MANIFEST makes what was found durable. Only then is anything removed, and only then are writes
//!    taken.

use std::path::Path;
use std::sync::Arc;

use slmdb_engine::Options;
use slmdb_engine::batch::Totals;
use slmdb_engine::files::table_cache::Tables;
use slmdb_engine::observe::spans::timed;
use slmdb_engine::recovery::recovered_log::RecoveredLog;
use slmdb_engine::space::admission::{Grant, kept_for_deletes};
use slmdb_engine::write::arenas::Arenas;
use slmdb_env::{Error, Lock, Result};
use slmdb_levels::{LevelOptions, Levels, TableRun};
use slmdb_manifest::{FILE_NAME, StoreState};
use slmdb_pmem::Medium;
use tracing::field::Empty;
use tracing::info_span;

use super::trees_in_pool::Trees;
use crate::level_zero::LevelZero;
use crate::level_zero::state::LevelZeroState;
use crate::space::{OUTPUTS_FOR_SPACE, reserve};

/// A store as recovery has found or made it.
pub(crate) struct RecoveredStore<M: Medium> {
    pub(crate) log: RecoveredLog<M>,
    pub(crate) level_zero: LevelZero<M>,
    pub(crate) levels: Levels<TableRun>,
    pub(crate) tables: Arc<Tables>,
}

/// Restores a store from its MANIFEST `state`, its files and its trees.
pub(crate) fn recover<M: Medium + Clone>(
    options: &Options,
    directory: &Path,
    state: StoreState,
    trees: Trees<M>,
    lock: Option<Box<dyn Lock>>,
) -> Result<RecoveredStore<M>> {
    let epoch = LevelZeroState::of(&state)?.epoch;
    let level_zero = LevelZero::new(options, trees, epoch, lock);
    let tables = Arc::new(Tables::new(options, directory.into(), state.files_uuid));
    tables.set_table_bytes(state.files.values().map(|file| file.length_bytes).sum());
    let (env, options) = (tables.env(), &Options { env: tables.env(), ..options.clone() });
    let levels = open_levels(options, directory, &state, &tables)?;
    let arenas = Arenas::new(&level_zero.pool, env.clone(), directory, options.memtable_bytes);
    let span = info_span!("replay_log", arenas = state.arenas.len(), ms = Empty);
    let log = timed(&*env, span, || RecoveredLog::replay(options, directory, state, arenas))?;
    let mut store = RecoveredStore { log, level_zero, levels, tables };
    if !options.read_only {
        let span = info_span!("take_over", memtables = store.log.memtables.len(), ms = Empty);
        timed(&*env, span, || store.take_over())?;
        store.log.remove_leftovers()?;
    }
    let state = store.log.catalog.state();
    tracing::info!(table_files = state.files.len(), last_sequence_number = store.log.last_sequence, "recovered");
    Ok(store)
}

/// The levels of a store, as its MANIFEST has them.
pub(super) fn open_levels(
    options: &Options,
    directory: &Path,
    state: &StoreState,
    tables: &Arc<Tables>,
) -> Result<Levels<TableRun>> {
    let lab = &options.lab;
    let level_options = LevelOptions {
        growth: lab.level_growth,
        ..LevelOptions::with_run_bytes(lab.level_base_bytes, options.compaction.table_file_bytes)
    };
    let runs = slmdb_levels::runs_of(state, 1, tables);
    let damaged = |what| Error::corruption(directory.join(FILE_NAME), 0, what);
    Levels::open(level_options, options.comparator.clone(), runs).map_err(damaged)
}

impl<M: Medium + Clone> RecoveredStore<M> {
    /// See [`RecoveredLog::take_over`].
    fn take_over(&mut self) -> Result<()> {
        let RecoveredStore { log, level_zero, .. } = self;
        log.take_over(|log| provide_for_recovered(log, level_zero))
    }
}

/// Sets the reserve of a recovered store, and sets aside in the pool what the flushes of its MemTables will need. That was
/// set aside when they were written. If there is less now, their flushes wait for space.
fn provide_for_recovered<M: Medium + Clone>(log: &RecoveredLog<M>, level_zero: &LevelZero<M>) -> Result<()> {
    log.reserve.set_outputs(OUTPUTS_FOR_SPACE);
    log.reserve.set_files(log.catalog.state().files.values().map(|file| file.length_bytes));
    let totals = log.memtables.iter().fold(Totals::default(), |sum, immutable| sum.plus(&immutable.totals));
    let memtables = log.memtables.len() as u64;
    let leaves = level_zero.mutable().size().leaves;
    let with_deletes = Grant { totals: totals.plus(&kept_for_deletes(&log.options)), memtables: memtables + 1 };
    for grant in [with_deletes, Grant { totals, memtables }] {
        match reserve(&level_zero.pool, &grant, leaves) {
            Err(Error::Full { .. }) => {}
            done => return done,
        }
    }
    Ok(())
}
