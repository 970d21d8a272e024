//! Opening a store: the directory ([`slmdb_engine::directory`]), then the medium, then recovery, then the background
//! threads.

use std::path::Path;
use std::sync::Arc;

use slmdb_engine::background::workers::Workers;
use slmdb_engine::directory::open::{check_directory, prepare};
use slmdb_engine::observe::spans::timed;
use slmdb_engine::{Engine, Options};
use slmdb_env::{Error, Lock, Result};
use slmdb_manifest::{MediumKind, StoreState};
use slmdb_pmem::Persistent;
use tracing::field::Empty;
use tracing::info_span;

use crate::KIND;
use crate::engine::Lab;
use crate::recovery::recover::{RecoveredStore, recover};
use crate::recovery::{rebuild, trees_in_pool};

/// See [`super::open`].
pub(crate) fn open(options: &Options, directory: &Path) -> Result<Arc<dyn Engine>> {
    let env = &*options.env;
    check_directory(env, directory)?;
    let directory = env.absolute(directory)?;
    let span = info_span!("open", directory = %directory.display(), read_only = options.read_only, ms = Empty);
    timed(env, span, || open_in(options, &directory))
}

/// See [`crate::open_on`].
pub(crate) fn open_on<M: slmdb_pmem::Medium + Clone>(
    options: &Options,
    directory: &Path,
    medium: M,
) -> Result<Arc<dyn Engine>> {
    check_directory(&*options.env, directory)?;
    let directory = &options.env.absolute(directory)?;
    let workers = workers_for(options)?;
    let (state, lock) = prepare(&KIND, options, directory)?;
    if state.medium.kind == MediumKind::Dram {
        return Err(Error::invalid("a store on Dram has no pool that could be on another medium"));
    }
    open_pool(medium, options, directory, (state, lock), workers)
}

/// Opens the store in an absolute directory.
fn open_in(options: &Options, directory: &Path) -> Result<Arc<dyn Engine>> {
    let workers = workers_for(options)?;
    let (state, lock) = prepare(&KIND, options, directory)?;
    let unit_bytes = options.media_unit_bytes;
    match state.medium.kind {
        MediumKind::Dram => {
            let trees = rebuild::in_memory(options, directory, &state)?;
            Ok(start(recover(options, directory, state, trees, lock)?, workers))
        }
        MediumKind::Emulated if !options.emulation.is_nothing() => {
            let medium = Persistent::emulating(&options.emulation).with_unit(unit_bytes)?;
            open_pool(medium, options, directory, (state, lock), workers)
        }
        // One medium type for both kinds, so that the engine is compiled once for them.
        kind @ (MediumKind::Emulated | MediumKind::Dax) => {
            let dax = kind == MediumKind::Dax;
            let medium = if dax { Persistent::dax(options.caches_are_persistent)? } else { Persistent::new() };
            open_pool(medium.with_unit(unit_bytes)?, options, directory, (state, lock), workers)
        }
    }
}

/// The store's background threads. They are made first: if they can't be had, nothing has changed.
fn workers_for(options: &Options) -> Result<Workers> {
    options.check()?;
    Workers::of(options)
}

/// Opens a store that has a pool, on this medium.
fn open_pool<M: slmdb_pmem::Medium + Clone>(
    medium: M,
    options: &Options,
    directory: &Path,
    (state, lock): (StoreState, Option<Box<dyn Lock>>),
    workers: Workers,
) -> Result<Arc<dyn Engine>> {
    let trees = trees_in_pool::find(medium, options, &state)?;
    Ok(start(recover(options, directory, state, trees, lock)?, workers))
}

/// Makes the open store, and starts its background threads.
fn start<M: slmdb_pmem::Medium + Clone>(recovered: RecoveredStore<M>, mut workers: Workers) -> Arc<dyn Engine> {
    let engine = Lab::new(recovered, std::mem::take(&mut workers.events));
    engine.start(workers);
    Arc::new(engine)
}
