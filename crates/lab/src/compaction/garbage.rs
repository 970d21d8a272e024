//! Whether a compaction would give back space: a look at some keys of a file, where the disk is full.
//!
//! Nobody counts which entries of a level are superseded, and an entry of the immutable tree may be replaced in the
//! mutable one. So some keys of a file are looked up.

use std::sync::Arc;

use slmdb_engine::read::merge::Source;
use slmdb_env::{Error, Result};
use slmdb_levels::{LEVEL_LAST, Run, TableRun, Version};
use slmdb_manifest::StoreState;
use slmdb_table::EntryKind;

use super::compactor::Compactor;
use crate::level_zero::run_files;

/// So many keys of a file are looked up, about.
const SAMPLES: u64 = 64;
/// If this part of a file's entries is garbage, it is worth a compaction. For deletes the least is.
const WORTH_PART: u64 = 16;

/// Entries that were looked at, and how many of them nobody needs.
#[derive(Debug, Default, Clone, Copy)]
struct Sampled {
    entries: u64,
    garbage: u64,
}

impl Sampled {
    fn count(&mut self, is_garbage: bool) {
        self.entries += 1;
        self.garbage += u64::from(is_garbage);
    }

    fn is_worth_it(&self, at_any_cost: bool) -> bool {
        self.garbage > 0 && (at_any_cost || self.garbage * WORTH_PART >= self.entries)
    }
}

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

    /// Whether a run has deletes, or newer versions of keys that are below it.
    pub(super) fn hides_garbage(
        &self,
        version: &Version<TableRun>,
        level: u8,
        run: &Arc<TableRun>,
        at_any_cost: bool,
    ) -> Result<bool> {
        let record = run.record();
        let deletes = Sampled { entries: record.entries, garbage: record.deletes };
        if deletes.is_worth_it(at_any_cost) {
            return Ok(true);
        }
        // The first ones: others would take a read each.
        let (mut sampled, mut source) = (Sampled::default(), run.source()?);
        while sampled.entries < SAMPLES && source.advance()? {
            let key = source.key();
            let hides = (level + 1..=LEVEL_LAST)
                .try_fold(false, |hides, deeper| Ok::<_, Error>(hides || version.has_key(deeper, key)?))?;
            sampled.count(hides);
        }
        Ok(sampled.is_worth_it(at_any_cost))
    }
}
