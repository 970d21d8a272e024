//! What LAB-DB adds to an [opening](slmdb_engine::directory::opening): both trees, and what recovery makes of them.

use std::sync::Arc;

use slmdb_engine::Engine;
use slmdb_engine::directory::EngineKind;
use slmdb_engine::directory::home::note_openings;
use slmdb_engine::directory::opening::{Found, Opening};
use slmdb_env::Result;
use slmdb_pmem::Medium;

use crate::KIND;
use crate::engine::Lab;
use crate::recovery::rebuild;
use crate::recovery::recover::recover;
use crate::recovery::trees_in_pool::{self, Trees};

/// See the module.
pub(crate) struct LabOpening;

impl Opening for LabOpening {
    const KIND: EngineKind = KIND;

    fn on_dram(found: Found<'_>) -> Result<Arc<dyn Engine>> {
        let trees = rebuild::in_memory(&found.options, found.directory, &found.state)?;
        Ok(Arc::new(start(found, trees)?))
    }

    fn in_pool<M: Medium + Clone>(found: Found<'_>, medium: M) -> Result<Arc<dyn Engine>> {
        let trees = trees_in_pool::find(medium, &found.options, &found.state)?;
        Ok(Arc::new(start(found, trees)?))
    }
}

/// Recovers the store, and starts its background threads.
pub(crate) fn start<M: Medium + Clone>(found: Found<'_>, trees: Trees<M>) -> Result<Lab<M>> {
    let Found { options, directory, mut state, lock, mut workers } = found;
    note_openings(&mut state, trees[0].slots().pool());
    let recovered = recover(&options, directory, state, trees, lock)?;
    let engine = Lab::new(recovered, std::mem::take(&mut workers.events));
    engine.start(workers);
    Ok(engine)
}
