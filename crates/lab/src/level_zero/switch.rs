//! The switch: a mutable tree that is full enough becomes immutable, and the empty one takes the flushes (paper,
//! section 3.2).

use std::sync::atomic::Ordering;

use slmdb_engine::files::catalog::Catalog;
use slmdb_env::{Error, Result};
use slmdb_manifest::Edit;

use super::LevelZero;
use super::{run_files, state::LevelZeroState};

impl LevelZero {
    /// Lets the trees change their roles, if the immutable one is empty and the mutable one is not. Returns whether they
    /// did. One record of the MANIFEST says so. Nothing in the pool changes but the epoch of the empty tree.
    /// LOCKS: indexing (held), catalog
    pub(crate) fn switch(&self, catalog: &Catalog) -> Result<bool> {
        if self.immutable().counts().keys > 0 || self.mutable().counts().keys == 0 {
            return Ok(false);
        }
        let epoch = self.epoch().checked_add(1).ok_or_else(|| Error::Unsupported {
            what: "the trees of level 0 can change their roles 4 billion times".into(),
            file: None,
        })?;
        self.immutable().begin_again(epoch)?;
        catalog.commit(|state| {
            let (immutable_through, run_files) = (state.flushed_through, run_files(state));
            let last_immutable_file = run_files.last().map_or(0, |(number, _)| *number);
            let section = LevelZeroState { epoch, immutable_through, last_immutable_file, compacted_through: None };
            Edit { engine_section: section.section(), ..Edit::default() }
        })?;
        self.keys_at_switch.store(self.mutable().counts().keys, Ordering::Relaxed);
        self.epoch.store(u64::from(epoch), Ordering::Release);
        tracing::info!(epoch, "level 0: the mutable tree became immutable");
        Ok(true)
    }
}
