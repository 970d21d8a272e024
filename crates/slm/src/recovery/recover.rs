//! Recovery: from what a kill, a power cut or a clean close left, to the store as it was (paper, section 5;
//! `docs/internals/recovery.md`).
//!
//! 1. On persistent media, jobs that were *indexing* or *repointing* are carried to their end, because their files and
//!    key segments are durable. Jobs that were *building* are dropped, because their MemTables are still there. Then
//!    the index must have as many keys as the MANIFEST has live entries.
//! 2. On `Dram` the index is rebuilt from an index checkpoint and the key sections of the table files
//!    ([`rebuild`](super::rebuild)).
//! 3. The MemTables are replayed from their arenas, in the order of their generations, without a gap in sequence
//!    numbers (INV-3; [`slmdb_engine::recovery`]).
//! 4. One rename of the MANIFEST makes what was found durable. Only then is anything removed, and only then are writes
//!    taken.
//!
//! Until step 4 nothing on the slow tier changes, and what changes in the pool may be done again. So a crash in
//! recovery is recovered the same way. Opened read-only, step 4 is left out and everything stays in memory.

use std::path::Path;
use std::sync::Arc;

use slmdb_engine::Options;
use slmdb_engine::files::file_records::{file_record, numbered};
use slmdb_engine::files::table_cache::Tables;
use slmdb_engine::observe::spans::timed;
use slmdb_engine::recovery::recovered_log::RecoveredLog;
use slmdb_engine::write::arenas::Arenas;
use slmdb_env::{Error, Lock, Result};
use slmdb_manifest::{Edit, StoreState};
use slmdb_pmem::{ExtentKind, Medium, Pool};
use slmdb_structures::fast_fair::{Segment, Tree, key_lengths_in_segments};
use tracing::field::Empty;
use tracing::info_span;

use crate::compaction::repointing::{add_output, repoint_to};
use crate::index::compaction_log::{CompactionLog, Phase, Slot};
use crate::index::insertion::insert_segment;
use crate::space::pool_reserve::PoolReserve;

/// The opened fast tier.
pub(crate) struct OpenPool<M: Medium> {
    pub(crate) pool: Arc<Pool<M>>,
    pub(crate) tree: Tree<M>,
}

/// A store as recovery has found or made it.
pub(crate) struct RecoveredStore<M: Medium> {
    pub(crate) log: RecoveredLog<M>,
    pub(crate) pool: Arc<Pool<M>>,
    pub(crate) tree: Tree<M>,
    pub(crate) jobs: CompactionLog,
    pub(crate) tables: Tables,
    pub(crate) pool_reserve: PoolReserve,
    pub(crate) lock: Option<Box<dyn Lock>>,
}

/// Restores a store from its MANIFEST `state`, its files and its pool.
pub(crate) fn recover<M: Medium + Clone>(
    options: &Options,
    directory: &Path,
    mut state: StoreState,
    fast: OpenPool<M>,
    lock: Option<Box<dyn Lock>>,
) -> Result<RecoveredStore<M>> {
    let OpenPool { pool, tree } = fast;
    // Steps 1 and 2: the index.
    let tables = Tables::new(options, directory.into(), state.files_uuid);
    tables.set_table_bytes(state.files.values().map(|file| file.length_bytes).sum());
    let (env, options) = (tables.env(), &Options { env: tables.env(), ..options.clone() });
    let arenas = Arenas::new(&pool, env.clone(), directory, options.memtable_bytes);
    let jobs = CompactionLog::default();

    let finished_jobs = if M::PERSISTENT {
        let finish = || finish_jobs(&mut state, &pool, &tree, &jobs, &tables);
        let finished = timed(&*env, info_span!("finish_jobs", ms = Empty), finish)?;
        timed(&*env, info_span!("count_keys", ms = Empty), || check_count(&state, &pool, &tree))?;
        finished
    } else {
        // The index was made from the files just now.
        Vec::new()
    };
    // Without those of a dropped job: their headers may never have been written.
    let pool_reserve = PoolReserve::new(key_lengths_in_segments(&pool, |file| state.files.contains_key(&file)));
    // Step 3: the MemTables.
    let span = info_span!("replay_log", arenas = state.arenas.len(), ms = Empty);
    let log = timed(&*env, span, || RecoveredLog::replay(options, directory, state, arenas))?;
    let mut store = RecoveredStore { log, pool, tree, jobs, tables, pool_reserve, lock };
    // Step 4: make it durable, then remove the rest.
    if !options.read_only {
        let span = info_span!("take_over", memtables = store.log.memtables.len(), ms = Empty);
        timed(&*env, span, || store.take_over())?;
        for slot in finished_jobs {
            store.jobs.clear(&store.pool, slot)?;
        }
        store.log.remove_leftovers()?;
        store.free_unnamed_segments()?;
    }
    let state = store.log.catalog.state();
    tracing::info!(table_files = state.files.len(), last_sequence_number = store.log.last_sequence, "recovered");
    Ok(store)
}

impl<M: Medium + Clone> RecoveredStore<M> {
    /// See [`RecoveredLog::take_over`].
    fn take_over(&mut self) -> Result<()> {
        let RecoveredStore { log, pool, tree, pool_reserve, .. } = self;
        log.take_over(|log| pool_reserve.provide_for_recovered(log, pool, tree))
    }

    /// Frees the key segments of table files that the MANIFEST does not name.
    fn free_unnamed_segments(&self) -> Result<()> {
        let state = self.log.catalog.state();
        for extent in self.pool.extents() {
            if extent.kind == ExtentKind::KeySegment && !state.files.contains_key(&extent.owner) {
                self.pool.free_extent(extent.offset)?;
            }
        }
        Ok(())
    }
}

/// Step 1. Returns the slots to clear once the MANIFEST has what they said.
fn finish_jobs<M: Medium + Clone>(
    state: &mut StoreState,
    pool: &Arc<Pool<M>>,
    tree: &Tree<M>,
    jobs: &CompactionLog,
    tables: &Tables,
) -> Result<Vec<Slot>> {
    let mut slots = Vec::new();
    for (job, slot) in jobs.left(pool)? {
        let committed = state.files.contains_key(&job.file);
        if !committed && job.phase == Phase::Repointing {
            let segment = Segment::of_file(pool, job.file)?;
            let reader = tables.reader(job.file)?;
            let moved = repoint_to(tree, pool, &segment)?;
            let mut edit = Edit::default();
            add_output(&mut edit, job.file, file_record(reader.properties(), reader.length_bytes()), &moved);
            apply(state, edit, pool)?;
        }
        if !committed && job.phase == Phase::Indexing {
            let segment = Segment::of_file(pool, job.file)?;
            let reader = tables.reader(job.file)?;
            let live_changes = insert_segment(tree, pool, &segment, |_, _, _| ())?;
            let record = file_record(reader.properties(), reader.length_bytes());
            let edit = Edit {
                files_added: vec![(job.file, record)],
                live_changes: live_changes.into_iter().collect(),
                arenas_removed: vec![job.generation],
                flushed_through: Some(job.last_sequence),
                ..Edit::default()
            };
            apply(state, edit, pool)?;
        }
        slots.push(slot);
    }
    Ok(slots)
}

/// Checks that the index has as many keys as the MANIFEST has live entries. If not, the index is not this store's,
/// whatever the pool says.
fn check_count<M: Medium + Clone>(state: &StoreState, pool: &Pool<M>, tree: &Tree<M>) -> Result<()> {
    let live: u64 = state.files.values().map(|file| file.live_keys).sum();
    let keys = tree.count()?;
    if keys == live {
        return Ok(());
    }
    let what = format!(
        "the index has {keys} keys, but {live} entries of table files are live by the MANIFEST; `slmdb repair` makes the index anew"
    );
    Err(Error::corruption(pool.path(), 0, what))
}

/// Applies to the state what a job that was carried to its end changes.
fn apply<M: Medium>(state: &mut StoreState, edit: Edit, pool: &Pool<M>) -> Result<()> {
    let edit = numbered(state, edit);
    let damaged = |what| Error::corruption(pool.path(), 0, format!("a job record does not fit the MANIFEST: {what}"));
    state.apply(&edit).map_err(damaged)
}
