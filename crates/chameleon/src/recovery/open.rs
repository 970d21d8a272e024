//! What ChameleonDB adds to an [opening](slmdb_engine::store::opening): the index, made from the key sections of the table files.

use std::path::Path;
use std::sync::Arc;

use slmdb_engine::Options;
use slmdb_engine::directory::EngineKind;
use slmdb_engine::directory::pool_binding::{self, FoundPool};
use slmdb_engine::store::opening::{Opening, Recovered, Recovery, StateOf};
use slmdb_env::Result;
use slmdb_manifest::StoreState;
use slmdb_pmem::{AnyMedium, Pool};

use super::rebuild::rebuild;
use crate::KIND;
use crate::state::ChameleonState;
use crate::tier::ChameleonTier;

/// See the module.
pub(crate) struct ChameleonOpening;

impl Opening for ChameleonOpening {
    const KIND: EngineKind = KIND;
    type Fast = Arc<Pool<AnyMedium>>;
    type Tier = ChameleonTier;

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

    fn recover(recovery: Recovery<'_>, pool: Arc<Pool<AnyMedium>>) -> Result<Recovered<StateOf<ChameleonOpening>>> {
        let Recovery { options, state, tables, .. } = recovery;
        // An older build refuses what it does not know.
        let [] = state.engine_parts()?;
        let index = rebuild(options, state, tables)?;
        let made = Arc::new(ChameleonState::new(options, pool, index));
        Ok(Recovered { state: made, remove_leftovers: Box::new(|_| Ok(())) })
    }
}
