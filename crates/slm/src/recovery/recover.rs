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
use slmdb_manifest::{Edit, FileRecord, StoreState};
use slmdb_pmem::{AnyMedium, Medium, Pool};
use tracing::field::Empty;
use tracing::info_span;

use crate::compaction::repointing::add_output;
use crate::index::key_index::{IndexJob, LeftJob, Rest};
use crate::index::{Index, OpenIndex};
use crate::space::pool_reserve::PoolReserve;
use crate::state::SlmState;

/// Makes what the engine keeps of a store.
pub(crate) fn recover(recovery: Recovery<'_>, fast: OpenIndex) -> Result<Recovered<SlmState>> {
    let Recovery { options, state, tables, .. } = recovery;
    let (env, keys) = (&*options.env, &*fast.keys);
    // On `Dram` the index was made from the files just now.
    let mut finished_jobs = Vec::new();
    if fast.pool.medium().is_persistent() {
        let finish = || finish_jobs(state, &fast, tables);
        finished_jobs = timed(env, info_span!("finish_jobs", ms = Empty), finish)?;
        timed(env, info_span!("count_keys", ms = Empty), || check_count(state, &fast))?;
    }
    // Without those of a dropped job: their headers may never have been written.
    let pool_reserve = PoolReserve::new(keys.key_lengths(&|file| state.files.contains_key(&file)));
    let made = Arc::new(SlmState::new(options, state, Index::new(fast), pool_reserve)?);
    let index = made.clone();
    let remove_leftovers = Box::new(move |state: &StoreState| {
        let keys = &index.index.keys;
        finished_jobs.into_iter().try_for_each(|job| keys.end(job))?;
        keys.free_all_but(&|file| state.files.contains_key(&file))
    });
    Ok(Recovered { state: made, remove_leftovers })
}

/// Carries jobs to their end, or drops them. Returns those to end once the MANIFEST has what they said.
fn finish_jobs(state: &mut StoreState, index: &OpenIndex, tables: &Tables) -> Result<Vec<IndexJob>> {
    let (mut finished, pool) = (Vec::new(), &index.pool);
    for LeftJob { mut job, file, rest } in index.keys.left_jobs(&|file| state.files.contains_key(&file))? {
        let record = || -> Result<FileRecord> {
            let reader = tables.reader(file)?;
            Ok(file_record(reader.properties(), reader.length_bytes()))
        };
        match rest {
            Rest::Nothing => {}
            Rest::Repointing => {
                let (record, moved) = (record()?, index.keys.repoint(&mut job)?);
                let mut edit = Edit::default();
                add_output(&mut edit, file, record, &moved);
                apply(state, edit, pool)?;
            }
            Rest::Insertion { generation, last_sequence } => {
                let (record, live_changes) = (record()?, index.keys.insert(&mut job, &|_, _, _| ())?);
                let edit = Edit {
                    files_added: vec![(file, record)],
                    live_changes: live_changes.into_iter().collect(),
                    // A part of a MemTable leaves the arena.
                    arenas_removed: (generation > 0).then_some(generation).into_iter().collect(),
                    flushed_through: Some(last_sequence),
                    ..Edit::default()
                };
                apply(state, edit, pool)?;
            }
        }
        finished.push(job);
    }
    Ok(finished)
}

/// Checks that the index has as many keys as the MANIFEST has live entries. If not, the index is not this store's,
/// whatever the pool says.
fn check_count(state: &StoreState, index: &OpenIndex) -> Result<()> {
    let live: u64 = state.files.values().map(|file| file.live_keys).sum();
    let keys = index.keys.count()?;
    if keys == live {
        return Ok(());
    }
    let what = format!(
        "the index has {keys} keys, but {live} entries of table files are live by the MANIFEST; `slmdb repair` makes the index anew"
    );
    Err(Error::corruption(index.pool.path(), 0, what))
}

/// Applies to the state what a job that was carried to its end changes.
fn apply(state: &mut StoreState, edit: Edit, pool: &Pool<AnyMedium>) -> Result<()> {
    let edit = numbered(state, edit);
    let damaged = |what| Error::corruption(pool.path(), 0, format!("a job record does not fit the MANIFEST: {what}"));
    state.apply(&edit).map_err(damaged)
}
