//! The compaction candidate list: table files that are worth merging, and what has named them (paper, section 3.3).
//!
//! Four [sources](Source) name files. The live-key ratio is checked here, as commits change it. A file stays on the
//! list until it is compacted. The list goes into MANIFEST records that are written anyway. A crash loses the names
//! added since the last one; they are found again. Another policy leaves the MANIFEST's list as it is.
//!
//! Readers name files in passing. They take the list's lock only when there is a file to name, and no holder of that
//! lock waits for a disk.

use std::collections::BTreeMap;

use slmdb_engine::{Chosen, CompactionChoices, CompactionOptions, lock_order};
use slmdb_manifest::{Edit, FileRecord, StoreState};
use slmdb_sync::scheduled::Mutex;

use crate::compaction::plan::CompactionResult;
use crate::manifest_section::{CANDIDATES, candidates_part};
use crate::selection::live_key_ratio::needed_part;

/// What names candidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// Too few of its entries are live.
    LiveKeyRatio,
    /// A leaf node scan met too many files.
    LeafNodeScan,
    /// A range query met too many files.
    RangeQuery,
    /// Cursors turned to it too often.
    Seeks,
    /// It was on the MANIFEST's list at the opening.
    Manifest,
}

impl Source {
    /// Its name in events and `stats`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Source::LiveKeyRatio => "live-key ratio",
            Source::LeafNodeScan => "leaf node scan",
            Source::RangeQuery => "range query",
            Source::Seeks => "seeks",
            Source::Manifest => "candidate in the MANIFEST",
        }
    }

    pub(crate) fn chosen(self, choices: &mut CompactionChoices) -> &mut Chosen {
        match self {
            Source::LiveKeyRatio => &mut choices.by_live_key_ratio,
            Source::LeafNodeScan => &mut choices.by_leaf_node_scans,
            Source::RangeQuery => &mut choices.by_range_queries,
            Source::Seeks => &mut choices.by_seeks,
            Source::Manifest => &mut choices.by_manifest,
        }
    }
}

/// The candidate list, with what its sources count.
#[derive(Debug)]
pub(crate) struct Candidates {
    /// Files that a smaller part of is needed are named. `None`: none is for that.
    live_key_threshold: Option<f64>,
    list: Mutex<List>,
}

#[derive(Debug, Default)]
struct List {
    files: BTreeMap<u32, Source>,
    /// Whether the list differs from the MANIFEST's.
    is_changed: bool,
    /// Up to which sequence number deletes were garbage when the live-key ratios of all files were last checked.
    looked_at_all_with: Option<u64>,
    choices: CompactionChoices,
}

impl List {
    /// Adds files. Returns whether that is news.
    fn add(&mut self, files: impl IntoIterator<Item = u32>, source: Source) -> bool {
        let before = self.files.len();
        for file in files {
            self.files.entry(file).or_insert(source);
        }
        let added = (self.files.len() - before) as u64;
        source.chosen(&mut self.choices).candidates += added;
        self.is_changed |= added > 0;
        added > 0
    }
}

/// The inputs of a compaction: for each its source, its length, and the needed part of that, in bytes.
pub(crate) type ChosenFiles = Vec<(Option<Source>, u64, f64)>;

impl Candidates {
    /// The list of a store that is opened. `candidates`: those of the MANIFEST.
    pub(crate) fn new(options: &CompactionOptions, candidates: &[u32]) -> Candidates {
        let mut list = List::default();
        list.add(candidates.iter().copied(), Source::Manifest);
        list.is_changed = false;
        Candidates {
            live_key_threshold: options.live_key_ratio.then_some(options.live_key_threshold),
            list: Mutex::ranked(lock_order::CANDIDATES, list),
        }
    }

    fn is_below_threshold(&self, file: &FileRecord, live: u64, droppable_through: u64) -> bool {
        let file = FileRecord { live_keys: live, smallest_key: Vec::new(), largest_key: Vec::new(), ..*file };
        self.live_key_threshold.is_some_and(|threshold| needed_part(&file, droppable_through) < threshold)
    }

    /// Checks the live-key ratios that a MANIFEST record changes, and adds the list to the record if it has changed.
    /// LOCKS: catalog (held), compaction candidates
    pub(crate) fn before_commit(&self, state: &StoreState, edit: &mut Edit, droppable_through: u64) {
        let mut list = self.list.lock();
        let mut live: BTreeMap<u32, i64> = edit.files_added.iter().map(|(number, _)| (*number, 0)).collect();
        for (number, change) in &edit.live_changes {
            *live.entry(*number).or_default() += change;
        }
        let new: BTreeMap<u32, &FileRecord> = edit.files_added.iter().map(|(number, file)| (*number, file)).collect();
        let below = live.into_iter().filter_map(|(number, change)| {
            let file = state.files.get(&number).or_else(|| new.get(&number).copied())?;
            let live = file.live_keys.saturating_add_signed(change);
            self.is_below_threshold(file, live, droppable_through).then_some(number)
        });
        list.add(below, Source::LiveKeyRatio);
        if list.is_changed {
            let stays = |number: &u32| {
                (state.files.contains_key(number) || new.contains_key(number)) && !edit.files_removed.contains(number)
            };
            edit.engine_section.extend([candidates_part(list.files.keys().copied().filter(stays))]);
        }
    }

    /// Takes note that a record is in the MANIFEST, or is not.
    /// LOCKS: catalog (held), compaction candidates
    pub(crate) fn after_commit(&self, edit: &Edit, is_committed: bool) {
        let mut list = self.list.lock();
        if is_committed {
            list.is_changed &= !edit.engine_section.contains_key(&CANDIDATES);
            list.files.retain(|number, _| !edit.files_removed.contains(number));
        }
    }

    /// Drops files that are gone, and checks all live-key ratios if more deletes have become garbage.
    /// LOCKS: compaction candidates
    pub(crate) fn refresh(&self, state: &StoreState, droppable_through: u64) {
        let mut list = self.list.lock();
        let before = list.files.len();
        list.files.retain(|number, _| state.files.contains_key(number));
        list.is_changed |= list.files.len() != before;
        if list.looked_at_all_with.replace(droppable_through) != Some(droppable_through) {
            let below =
                state.files.iter().filter(|(_, file)| self.is_below_threshold(file, file.live_keys, droppable_through));
            list.add(below.map(|(number, _)| *number), Source::LiveKeyRatio);
        }
    }

    /// The files on the list, each with its source.
    pub(crate) fn listed(&self) -> BTreeMap<u32, Source> {
        self.list.lock().files.clone()
    }

    /// Puts files on the list. Returns whether that is news, and how long the list is.
    /// LOCKS: compaction candidates
    pub(crate) fn name(&self, files: impl IntoIterator<Item = u32>, source: Source) -> (bool, usize) {
        let mut list = self.list.lock();
        (list.add(files, source), list.files.len())
    }

    /// Notes the inputs of a compaction that begins.
    pub(crate) fn take(&self, inputs: &[u32], state: &StoreState, droppable_through: u64) -> ChosenFiles {
        let list = self.list.lock();
        let files = inputs.iter().filter_map(|number| Some((number, state.files.get(number)?)));
        let chosen = files.map(|(number, file)| {
            let needed_bytes = needed_part(file, droppable_through) * file.length_bytes as f64;
            (list.files.get(number).copied(), file.length_bytes, needed_bytes)
        });
        chosen.collect()
    }

    /// Credits the sources of a finished compaction's inputs.
    pub(crate) fn compacted(&self, taken: &ChosenFiles, made: &CompactionResult) {
        let choices = &mut self.list.lock().choices;
        let needed_bytes: f64 = taken.iter().map(|(_, _, needed_bytes)| needed_bytes).sum();
        for (source, length_bytes, needed) in taken {
            let Some(source) = source else { continue };
            let share = if needed_bytes > 0.0 { needed / needed_bytes } else { 0.0 };
            let written = (made.bytes_written as f64 * share) as u64;
            made.credit(source.chosen(choices), 1, *length_bytes, written);
        }
    }

    /// Counts a leaf node scan of so many keys.
    pub(crate) fn scanned(&self, keys: u64) {
        let choices = &mut self.list.lock().choices;
        choices.leaf_node_scans += 1;
        choices.leaf_node_scan_keys += keys;
    }

    /// The counters for `stats`.
    pub(crate) fn choices(&self) -> CompactionChoices {
        let list = self.list.lock();
        CompactionChoices { candidates: list.files.len() as u64, ..list.choices }
    }
}

#[cfg(test)]
mod tests;
