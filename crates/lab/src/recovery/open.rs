//! What LAB-DB adds to an [opening](slmdb_engine::store::opening): both trees, and what recovery makes of them.

use std::path::Path;
use std::sync::Arc;

use slmdb_engine::Options;
use slmdb_engine::directory::EngineKind;
use slmdb_engine::store::opening::{Opening, Recovered, Recovery, StateOf};
use slmdb_env::Result;
use slmdb_manifest::StoreState;
use slmdb_pmem::{AnyMedium, Pool};

use crate::KIND;
use crate::recovery::rebuild;
use crate::recovery::recover::recover;
use crate::recovery::trees_in_pool::{self, Trees};
use crate::tier::LabTier;

/// See the module.
pub(crate) struct LabOpening;

impl Opening for LabOpening {
    const KIND: EngineKind = KIND;
    type Fast = Trees;
    type Tier = LabTier;

    fn in_memory(options: &Options, directory: &Path, state: &mut StoreState) -> Result<Trees> {
        rebuild::in_memory(options, directory, state)
    }

    fn in_pool(medium: AnyMedium, options: &Options, state: &StoreState) -> Result<Trees> {
        trees_in_pool::find(medium, options, state)
    }

    fn pool([tree, _]: &Trees) -> &Arc<Pool<AnyMedium>> {
        tree.slots().pool()
    }

    fn recover(recovery: Recovery<'_>, trees: Trees) -> Result<Recovered<StateOf<LabOpening>>> {
        recover(recovery, trees)
    }
}
