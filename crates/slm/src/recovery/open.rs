//! What SLM-DB adds to an [opening](slmdb_engine::store::opening): its index, and what recovery makes of that.

use std::path::Path;
use std::sync::Arc;

use slmdb_engine::Options;
use slmdb_engine::directory::EngineKind;
use slmdb_engine::store::opening::{Opening, Recovered, Recovery, StateOf};
use slmdb_env::Result;
use slmdb_manifest::StoreState;
use slmdb_pmem::{AnyMedium, Pool};

use crate::KIND;
use crate::index::{OpenIndex, in_pool};
use crate::recovery::recover::recover;
use crate::recovery::{index_image, rebuild};
use crate::tier::SlmTier;

/// See the module.
pub(crate) struct SlmOpening;

impl Opening for SlmOpening {
    const KIND: EngineKind = KIND;
    type Fast = OpenIndex;
    type Tier = SlmTier;

    /// The index as a clean close has left it, or rebuilt.
    fn in_memory(options: &Options, directory: &Path, state: &mut StoreState) -> Result<OpenIndex> {
        match index_image::open(options, directory, state) {
            Some(fast) => Ok(fast),
            None => rebuild::in_memory(options, directory, state),
        }
    }

    fn in_pool(medium: AnyMedium, options: &Options, state: &StoreState) -> Result<OpenIndex> {
        in_pool::open::find(medium, options, state)
    }

    fn pool(fast: &OpenIndex) -> &Arc<Pool<AnyMedium>> {
        &fast.pool
    }

    fn recover(recovery: Recovery<'_>, fast: OpenIndex) -> Result<Recovered<StateOf<SlmOpening>>> {
        recover(recovery, fast)
    }
}

#[cfg(test)]
pub(crate) use test_stores::{on_dram, with_pool, without_threads};

/// Stores whose parts a test looks at.
#[cfg(test)]
mod test_stores {
    use slmdb_engine::store::opening::{Found, recover, start};
    use slmdb_pmem::Persistent;

    use super::*;
    use crate::tier::Slm;

    /// A store on `Dram` whose background threads work.
    pub(crate) fn on_dram(options: &Options, directory: &Path) -> Result<Slm> {
        let mut found = Found::of(&KIND, options, directory)?;
        let fast = SlmOpening::in_memory(&found.options, directory, &mut found.state)?;
        start::<SlmOpening>(found, fast)
    }

    /// A store that has a pool and whose background threads don't run, for tests that do their work step by step.
    pub(crate) fn without_threads(medium: impl Into<AnyMedium>, options: &Options, directory: &Path) -> Result<Slm> {
        let found = Found::of(&KIND, options, directory)?;
        let fast = in_pool::open::find(medium.into(), &found.options, &found.state)?;
        Ok(recover::<SlmOpening>(found, fast)?.0)
    }

    /// A store that has a pool, and that pool.
    pub(crate) fn with_pool(options: &Options, directory: &Path) -> Result<(Slm, Arc<Pool<AnyMedium>>)> {
        let found = Found::of(&KIND, options, directory)?;
        let fast = in_pool::open::find(Persistent::new().into(), &found.options, &found.state)?;
        let pool = fast.pool.clone();
        Ok((start::<SlmOpening>(found, fast)?, pool))
    }
}

#[cfg(test)]
mod tests {
    use slmdb_pmem::ExtentKind;
    use slmdb_testkit::{Failure, MemoryEnv, Repeat};

    use slmdb_engine::{Engine, Medium, WriteBatch};
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
