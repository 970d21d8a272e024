//! What SLM-DB adds to an [opening](slmdb_engine::directory::opening): its index, and what recovery makes of that.

use std::path::Path;
use std::sync::Arc;

use slmdb_engine::directory::EngineKind;
use slmdb_engine::directory::home::note_openings;
use slmdb_engine::directory::opening::{Found, Opening};
#[cfg(test)]
use slmdb_engine::events::delivery::Events;
use slmdb_engine::{Engine, Options};
use slmdb_env::Result;
use slmdb_manifest::StoreState;
use slmdb_pmem::{Dram, Medium};

use crate::KIND;
use crate::engine::Slm;
use crate::recovery::recover::{OpenPool, recover};
use crate::recovery::{index_image, index_in_pool, rebuild};

/// See the module.
pub(crate) struct SlmOpening;

impl Opening for SlmOpening {
    const KIND: EngineKind = KIND;

    fn on_dram(mut found: Found<'_>) -> Result<Arc<dyn Engine>> {
        let fast = index_in_memory(&found.options, found.directory, &mut found.state)?;
        Ok(Arc::new(start(found, fast)?))
    }

    fn in_pool<M: Medium + Clone>(found: Found<'_>, medium: M) -> Result<Arc<dyn Engine>> {
        let fast = index_in_pool::find(medium, &found.options, &found.state)?;
        Ok(Arc::new(start(found, fast)?))
    }
}

/// The index of a store on `Dram`: as a clean close has left it, or rebuilt.
fn index_in_memory(options: &Options, directory: &Path, state: &mut StoreState) -> Result<OpenPool<Dram>> {
    match index_image::open(options, directory, state) {
        Some(fast) => Ok(fast),
        None => rebuild::in_memory(options, directory, state),
    }
}

/// Recovers the store, and starts its background threads.
fn start<M: Medium + Clone>(found: Found<'_>, fast: OpenPool<M>) -> Result<Slm<M>> {
    let Found { options, directory, mut state, lock, mut workers } = found;
    note_openings(&mut state, &fast.pool);
    let recovered = recover(&options, directory, state, fast, lock)?;
    let engine = Slm::new(recovered, std::mem::take(&mut workers.events));
    engine.start(workers);
    Ok(engine)
}

/// A store on `Dram` whose parts a test looks at while its background threads work.
#[cfg(test)]
pub(crate) fn on_dram(options: &Options, directory: &Path) -> Result<Slm<Dram>> {
    let mut found = Found::of(&KIND, options, directory)?;
    let fast = index_in_memory(&found.options, directory, &mut found.state)?;
    start(found, fast)
}

/// A store that has a pool and whose background threads don't run, for tests that do their work step by step.
#[cfg(test)]
pub(crate) fn without_threads<M: Medium + Clone>(medium: M, options: &Options, directory: &Path) -> Result<Slm<M>> {
    let Found { options, state, lock, .. } = Found::of(&KIND, options, directory)?;
    let fast = index_in_pool::find(medium, &options, &state)?;
    Ok(Slm::new(recover(&options, directory, state, fast, lock)?, Events::default()))
}

#[cfg(test)]
type PoolOfStore = Arc<slmdb_pmem::Pool<slmdb_pmem::Persistent>>;

/// A store that has a pool, and that pool.
#[cfg(test)]
pub(crate) fn with_pool(options: &Options, directory: &Path) -> Result<(Arc<dyn Engine>, PoolOfStore)> {
    let found = Found::of(&KIND, options, directory)?;
    let fast = index_in_pool::find(slmdb_pmem::Persistent::new(), &found.options, &found.state)?;
    let pool = fast.pool.clone();
    Ok((Arc::new(start(found, fast)?), pool))
}

#[cfg(test)]
mod tests {
    use slmdb_env::memory::{Failure, MemoryEnv, Repeat};
    use slmdb_pmem::ExtentKind;

    use slmdb_engine::{Medium, WriteBatch};
    use slmdb_env::Error;

    use super::{Arc, Options, Path, with_pool};

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
