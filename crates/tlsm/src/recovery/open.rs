//! What TLSM adds to an [opening](slmdb_engine::store::opening).

use std::path::Path;
use std::sync::Arc;

use slmdb_engine::Options;
use slmdb_engine::directory::EngineKind;
use slmdb_engine::directory::pool_binding::{self, FoundPool};
use slmdb_engine::store::opening::{Opening, Recovered, Recovery, StateOf};
use slmdb_env::Result;
use slmdb_manifest::StoreState;
use slmdb_pmem::{AnyMedium, Pool};

use super::recover::{free_strays, open_levels, open_lists};
use crate::KIND;
use crate::persistent_skiplist::segments::Segments;
use crate::state::TlsmState;
use crate::tier::TlsmTier;

/// See the module.
pub(crate) struct TlsmOpening;

impl Opening for TlsmOpening {
    const KIND: EngineKind = KIND;
    type Fast = Arc<Pool<AnyMedium>>;
    type Tier = TlsmTier;

    fn in_memory(options: &Options, _: &Path, state: &mut StoreState) -> Result<Arc<Pool<AnyMedium>>> {
        pool_binding::in_memory(options, state).map(Arc::new)
    }

    fn in_pool(medium: AnyMedium, options: &Options, state: &StoreState) -> Result<Arc<Pool<AnyMedium>>> {
        match pool_binding::find_pool(medium, options, state)? {
            FoundPool::New(pool) | FoundPool::Old(pool) => Ok(Arc::new(pool)),
        }
    }

    fn pool(pool: &Arc<Pool<AnyMedium>>) -> &Arc<Pool<AnyMedium>> {
        pool
    }

    fn recover(recovery: Recovery<'_>, pool: Arc<Pool<AnyMedium>>) -> Result<Recovered<StateOf<TlsmOpening>>> {
        let Recovery { options, directory, state, tables } = recovery;
        // An older build refuses what it does not know.
        let [] = state.engine_parts()?;
        let segments = Arc::new(Segments::new(pool.clone()));
        let lists = open_lists(options, state, &pool, &segments)?;
        let levels = open_levels(options, directory, state, tables, lists)?;
        let made = Arc::new(TlsmState::new(options, pool.clone(), segments.clone(), levels));
        Ok(Recovered { state: made, remove_leftovers: Box::new(move |state| free_strays(&pool, &segments, state)) })
    }
}
