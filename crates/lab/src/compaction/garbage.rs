//! Whether a compaction would give back space: a look at some keys of a file, where the disk is full.
//!
//! An entry of the immutable tree may be replaced in the mutable one, and nobody counts that. So some keys of a file are looked up.

use slmdb_env::Result;
use slmdb_levels::jobs::for_space::{SAMPLES, Sampled};
use slmdb_manifest::StoreState;
use slmdb_table::EntryKind;

use super::compactor::Compactor;
use crate::level_zero::run_files;

impl Compactor {
    /// Whether run files would give back space if the oldest of them went to level 1. They go in their order, so the ones
    /// before count, too.
    pub(super) fn have_run_files_garbage(&self, state: &StoreState, at_any_cost: bool) -> Result<bool> {
        let (live, mut counted, mut sampled) = (self.state.level_zero.live(), Sampled::default(), Sampled::default());
        for (file, _) in run_files(state) {
            // What no tree leads to is counted.
            let needed = live.get(&file).copied().unwrap_or(0);
            let (entries, deletes) = state.files.get(&file).map_or((0, 0), |file| (file.entries, file.deletes));
            counted.entries += entries;
            counted.garbage += entries.saturating_sub(needed).max(deletes);
            if counted.is_worth_it(at_any_cost) {
                return Ok(true);
            }
        }
        for (file, _) in run_files(state) {
            let keys = self.store.tables.reader(file)?.key_section()?;
            let step = usize::try_from(keys.len().div_ceil(SAMPLES)).unwrap_or(usize::MAX).max(1);
            for entry in keys.newest_entries().step_by(step) {
                let entry = entry?;
                let newest = self.state.level_zero.get(entry.key)?;
                let is_newest = newest.is_some_and(|newest| newest.sequence == entry.sequence);
                sampled.count(!is_newest || entry.kind == EntryKind::Delete);
            }
            if sampled.is_worth_it(at_any_cost) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
