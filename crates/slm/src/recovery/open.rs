//! Opening a store: the directory ([`slmdb_engine::directory`]), then the medium, then recovery, then the background
//! threads.

use std::path::Path;
use std::sync::Arc;

use slmdb_engine::background::workers::Workers;
use slmdb_engine::directory::open::{check_directory, prepare};
#[cfg(test)]
use slmdb_engine::events::delivery::Events;
use slmdb_engine::observe::spans::timed;
use slmdb_engine::{Engine, Options};
use slmdb_env::{Error, Lock, Result};
use slmdb_manifest::{MediumKind, StoreState};
use slmdb_pmem::Persistent;
use tracing::field::Empty;
use tracing::info_span;

use crate::KIND;
use crate::engine::Slm;
use crate::recovery::recover::{RecoveredStore, recover};
use crate::recovery::{index_in_pool, rebuild};

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
    let (mut state, lock) = prepare(&KIND, options, directory)?;
    let unit_bytes = options.media_unit_bytes;
    match state.medium.kind {
        MediumKind::Dram => {
            let fast = rebuild::in_memory(options, directory, &mut state)?;
            Ok(start(recover(options, directory, state, fast, lock)?, workers))
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
    let fast = index_in_pool::find(medium, options, &state)?;
    Ok(start(recover(options, directory, state, fast, lock)?, workers))
}

/// Makes the open store, and starts its background threads.
fn start<M: slmdb_pmem::Medium + Clone>(recovered: RecoveredStore<M>, mut workers: Workers) -> Arc<dyn Engine> {
    let engine = Slm::new(recovered, std::mem::take(&mut workers.events));
    engine.start(workers);
    Arc::new(engine)
}

/// A store on `Dram` whose parts a test looks at while its background threads work.
#[cfg(test)]
pub(crate) fn on_dram(options: &Options, directory: &Path) -> Result<Slm<slmdb_pmem::Dram>> {
    let mut workers = workers_for(options)?;
    let (mut state, lock) = prepare(&KIND, options, directory)?;
    let fast = rebuild::in_memory(options, directory, &mut state)?;
    let recovered = recover(options, directory, state, fast, lock)?;
    let engine = Slm::new(recovered, std::mem::take(&mut workers.events));
    engine.start(workers);
    Ok(engine)
}

/// A store that has a pool and whose background threads don't run, for tests that do their work step by step.
#[cfg(test)]
pub(crate) fn without_threads<M: slmdb_pmem::Medium + Clone>(
    medium: M,
    options: &Options,
    directory: &Path,
) -> Result<Slm<M>> {
    let (state, lock) = prepare(&KIND, options, directory)?;
    let fast = index_in_pool::find(medium, options, &state)?;
    Ok(Slm::new(recover(options, directory, state, fast, lock)?, Events::default()))
}

#[cfg(test)]
type PoolOfStore = Arc<slmdb_pmem::Pool<Persistent>>;

/// A store that has a pool, and that pool.
#[cfg(test)]
pub(crate) fn with_pool(options: &Options, directory: &Path) -> Result<(Arc<dyn Engine>, PoolOfStore)> {
    let (state, lock) = prepare(&KIND, options, directory)?;
    let fast = index_in_pool::find(Persistent::new(), options, &state)?;
    let pool = fast.pool.clone();
    let store = recover(options, directory, state, fast, lock)?;
    Ok((start(store, workers_for(options)?), pool))
}

#[cfg(test)]
mod tests {
    use slmdb_env::memory::{Failure, MemoryEnv, Repeat};
    use slmdb_pmem::ExtentKind;

    use super::*;
    use slmdb_engine::{Medium, WriteBatch};

    /// What waits for the last reader may run on any thread, and was on its way when the store failed and was opened
    /// again: it freed key segments that the index points to.
    #[test]
    fn nothing_is_freed_once_the_store_may_be_opened_again() {
        let env = MemoryEnv::new();
        let options = Options {
            env: Arc::new(env.clone()),
            memtable_bytes: 4 << 10,
            medium: Some(Medium::Emulated { path: "/pool".into() }),
            pool_initial_bytes: 1 << 20,
            ..Options::default()
        };
        let (engine, held) = with_pool(&options, Path::new("/db")).unwrap();
        let mut batch = WriteBatch::new();
        batch.put("key", "value").unwrap();
        engine.write(&batch, false).unwrap();
        engine.flush().unwrap();
        let segment = held.extents().into_iter().find(|extent| extent.kind == ExtentKind::KeySegment).unwrap();
        env.fail_after(0, "", Failure::Io, Repeat::ForGood);
        engine.write(&batch, false).unwrap();
        engine.flush().unwrap_err();
        drop(engine);
        assert!(matches!(held.free_extent(segment.offset), Err(Error::ReadOnly { .. })));
    }
}
