//! What LAB-DB adds to an [opening](slmdb_engine::store::opening): both trees, and what recovery makes of them.

use std::path::Path;
use std::sync::Arc;

use slmdb_engine::Options;
use slmdb_engine::directory::EngineKind;
use slmdb_engine::store::opening::{Opening, Recovered, Recovery, StateOf};
use slmdb_env::Result;
use slmdb_manifest::StoreState;
use slmdb_pmem::{Dram, Medium, Pool};

use crate::KIND;
use crate::recovery::rebuild;
use crate::recovery::recover::recover;
use crate::recovery::trees_in_pool::{self, Trees};
use crate::tier::LabTier;

/// See the module.
pub(crate) struct LabOpening;

impl Opening for LabOpening {
    const KIND: EngineKind = KIND;
    type Fast<M: Medium + Clone> = Trees<M>;
    type Tier<M: Medium + Clone> = LabTier<M>;

    fn in_memory(options: &Options, directory: &Path, state: &mut StoreState) -> Result<Trees<Dram>> {
        rebuild::in_memory(options, directory, state)
    }

    fn in_pool<M: Medium + Clone>(medium: M, options: &Options, state: &StoreState) -> Result<Trees<M>> {
        trees_in_pool::find(medium, options, state)
    }

    fn pool<M: Medium + Clone>([tree, _]: &Trees<M>) -> &Arc<Pool<M>> {
        tree.slots().pool()
    }

    fn recover<M: Medium + Clone>(
        recovery: Recovery<'_>,
        trees: Trees<M>,
    ) -> Result<Recovered<StateOf<LabOpening, M>>> {
        recover(recovery, trees)
    }
}
