//! Recovery of the index: from what a kill, a power cut or a clean close left, to the index as it was (paper, section 5;
//! `docs/internals/recovery.md`). [`slmdb_engine::store::opening::recover`] has the other steps.
//!
//! - On persistent media, jobs that were *indexing* or *repointing* are carried to their end, because their files and
//!   key segments are durable. Jobs that were *building* are dropped, because their MemTables are still there. Then
//!   the index must have as many keys as the MANIFEST has live entries.
//! - On `Dram` the index was rebuilt from an index checkpoint and the key sections of the table files
//!   ([`rebuild`](super::rebuild)).

use std::sync::Arc;

use slmdb_engine::files::file_records::{file_record, numbered};
use slmdb_engine::files::table_cache::Tables;
use slmdb_engine::observe::spans::timed;
use slmdb_engine::store::opening::{Recovered, Recovery};
use slmdb_env::{Error, Result};
use slmdb_manifest::{Edit, StoreState};
use slmdb_pmem::{AnyMedium, ExtentKind, Medium, Pool};
use slmdb_structures::fast_fair::{Segment, Tree, key_lengths_in_segments};
use tracing::field::Empty;
use tracing::info_span;

use crate::compaction::repointing::{add_output, repoint_to};
use crate::index::Index;
use crate::index::compaction_log::{CompactionLog, Phase, Slot};
use crate::index::insertion::insert_segment;
use crate::space::pool_reserve::PoolReserve;
use crate::state::SlmState;

/// The opened fast tier.
pub(crate) struct OpenPool {
    pub(crate) pool: Arc<Pool<AnyMedium>>,
    pub(crate) tree: Tree<AnyMedium>,
}

/// Makes what the engine keeps of a store.
pub(crate) fn recover(recovery: Recovery<'_>, fast: OpenPool) -> Result<Recovered<SlmState>> {
    let Recovery { options, state, tables, .. } = recovery;
    let OpenPool { pool, tree } = fast;
    let (env, jobs) = (&*options.env, CompactionLog::default());
    // On `Dram` the index was made from the files just now.
    let mut finished_jobs = Vec::new();
    if pool.medium().is_persistent() {
        let finish = || finish_jobs(state, &pool, &tree, &jobs, tables);
        finished_jobs = timed(env, info_span!("finish_jobs", ms = Empty), finish)?;
        timed(env, info_span!("count_keys", ms = Empty), || check_count(state, &pool, &tree))?;
    }
    // Without those of a dropped job: their headers may never have been written.
    let pool_reserve = PoolReserve::new(key_lengths_in_segments(&pool, |file| state.files.contains_key(&file)));
    let made = Arc::new(SlmState::new(options, state, Index::new(pool, tree, jobs), pool_reserve)?);
    let index = made.clone();
    let remove_leftovers = Box::new(move |state: &StoreState| {
        let index = &index.index;
        for slot in finished_jobs {
            index.jobs.clear(&index.pool, slot)?;
        }
        free_unnamed_segments(&index.pool, state)
    });
    Ok(Recovered { state: made, remove_leftovers })
}

/// Frees the key segments of table files that the MANIFEST does not name.
fn free_unnamed_segments(pool: &Arc<Pool<AnyMedium>>, state: &StoreState) -> Result<()> {
    for extent in pool.extents() {
        if extent.kind == ExtentKind::KeySegment && !state.files.contains_key(&extent.owner) {
            pool.free_extent(extent.offset)?;
        }
    }
    Ok(())
}

/// Carries jobs to their end, or drops them. Returns the slots to clear once the MANIFEST has what they said.
fn finish_jobs(
    state: &mut StoreState,
    pool: &Arc<Pool<AnyMedium>>,
    tree: &Tree<AnyMedium>,
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
fn check_count(state: &StoreState, pool: &Pool<AnyMedium>, tree: &Tree<AnyMedium>) -> Result<()> {
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
fn apply(state: &mut StoreState, edit: Edit, pool: &Pool<AnyMedium>) -> Result<()> {
    let edit = numbered(state, edit);
    let damaged = |what| Error::corruption(pool.path(), 0, format!("a job record does not fit the MANIFEST: {what}"));
    state.apply(&edit).map_err(damaged)
}
