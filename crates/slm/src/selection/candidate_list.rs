//! The compaction candidate list: table files that are worth merging, and what has named them (paper, section 3.3).
//!
//! Four [sources](Source) name files: the live-key ratio, which is checked as commits change it; leaf node scans; range
//! queries; and, as in LevelDB, seeks. A file stays on the list until it is compacted. The list goes into MANIFEST
//! records that are written anyway. A crash loses the names added since the last one; they are found again.
//!
//! **Seeks.** In LevelDB a seek is wasted, and counted, when a read has to turn to a second file. Here a `get` reads
//! one block of one file, however disordered the store is, and wastes nothing. But a cursor that goes from file to file
//! waits for the disk each time, where in an ordered store it would read on. So a seek is a block that is read from the
//! disk because a cursor has turned to its file from another one, or was placed there.
//!
//! Readers name files in passing. They take the list's lock only when there is a file to name, and no holder of that
//! lock waits for a disk.

use std::collections::{BTreeMap, BTreeSet};

use slmdb_engine::{CompactionChoices, CompactionOptions, CompactionPolicy, Options, lock_order};
use slmdb_manifest::{Edit, FileRecord, StoreState};
use slmdb_sync::scheduled::Mutex;

use crate::compaction::plan::{CompactionReason, CompactionResult, Plan};
use crate::manifest_section::{candidates_part, has_candidates};
use crate::selection::candidate_source::Source;
use crate::selection::live_key_ratio::needed_part;
use crate::selection::scan_position::LeafScan;
use crate::selection::seeks::FileCounts;
use crate::selection::sequentiality_degree::Sequentiality;

/// Approximate memory per file on the list.
const LISTED_BYTES: usize = 16;

/// The candidate list, with what its sources count.
#[derive(Debug)]
pub(crate) struct Candidates {
    options: CompactionOptions,
    /// Whether any source names files.
    pub(crate) is_fed: bool,
    list: Mutex<List>,
    pub(crate) leaf_scan: LeafScan,
    /// How often cursors have turned to each file.
    pub(crate) seeks: FileCounts,
}

#[derive(Debug, Default)]
struct List {
    files: BTreeMap<u32, Source>,
    /// The files that seeks have named, whatever else named them before.
    sought: BTreeSet<u32>,
    /// Small files that came out of a merge of small files that left no fewer: another merge would do no better. Not in
    /// the MANIFEST; after an opening it is tried once more.
    no_larger: BTreeSet<u32>,
    /// Whether the list differs from the MANIFEST's.
    is_changed: bool,
    /// Up to which sequence number deletes were garbage when the live-key ratios of all files were last checked.
    looked_at_all_with: Option<u64>,
    choices: CompactionChoices,
}

impl List {
    /// Adds files. Returns whether that is news.
    fn add(&mut self, files: impl IntoIterator<Item = u32>, source: Source) -> bool {
        let (before, sought_before) = (self.files.len(), self.sought.len());
        for file in files {
            self.files.entry(file).or_insert(source);
            if source == Source::Seeks {
                self.sought.insert(file);
            }
        }
        let added = (self.files.len() - before) as u64;
        source.chosen(&mut self.choices).candidates += added;
        self.is_changed |= added > 0;
        added > 0 || self.sought.len() > sought_before
    }
}

/// The inputs of a compaction: for each its source, its length, and the needed part of that, in bytes.
#[derive(Debug)]
pub(crate) struct ChosenFiles(Vec<(Option<Source>, u64, f64)>);

impl Candidates {
    /// The list of a store that is opened. `candidates`: those of the MANIFEST.
    pub(crate) fn new(options: &Options, candidates: &[u32]) -> Candidates {
        let mut list = List::default();
        list.add(candidates.iter().copied(), Source::Manifest);
        list.is_changed = false;
        Candidates {
            is_fed: options.compaction.policy != CompactionPolicy::Manual && !options.read_only,
            options: options.compaction.clone(),
            list: Mutex::ranked(lock_order::CANDIDATES, list),
            leaf_scan: LeafScan::default(),
            seeks: FileCounts::default(),
        }
    }

    fn watches_range_queries(&self) -> bool {
        self.is_fed && self.options.range_queries
    }

    /// A sequentiality counter for a new cursor.
    pub(crate) fn range_query(&self) -> Sequentiality {
        Sequentiality::new(if self.watches_range_queries() { self.options.sub_range_keys } else { 0 })
    }

    fn is_below_threshold(&self, file: &FileRecord, live: u64, droppable_through: u64) -> bool {
        let file = FileRecord { live_keys: live, smallest_key: Vec::new(), largest_key: Vec::new(), ..*file };
        needed_part(&file, droppable_through) < self.options.live_key_threshold
    }

    /// Checks the live-key ratios that a MANIFEST record changes, and adds the list to the record if it has changed.
    /// LOCKS: catalog (held), compaction candidates
    pub(crate) fn before_commit(&self, state: &StoreState, edit: &mut Edit, droppable_through: u64) {
        let mut list = self.list.lock();
        if self.is_fed && self.options.live_key_ratio {
            let mut live: BTreeMap<u32, i64> = edit.files_added.iter().map(|(number, _)| (*number, 0)).collect();
            for (number, change) in &edit.live_changes {
                *live.entry(*number).or_default() += change;
            }
            let new: BTreeMap<u32, &FileRecord> =
                edit.files_added.iter().map(|(number, file)| (*number, file)).collect();
            let below = live.into_iter().filter_map(|(number, change)| {
                let file = state.files.get(&number).or_else(|| new.get(&number).copied())?;
                let live = file.live_keys.saturating_add_signed(change);
                self.is_below_threshold(file, live, droppable_through).then_some(number)
            });
            list.add(below.collect::<Vec<_>>(), Source::LiveKeyRatio);
        }
        if list.is_changed {
            let is_there = |number: &u32| {
                state.files.contains_key(number) || edit.files_added.iter().any(|(added, _)| added == number)
            };
            let stays = |number: &u32| is_there(number) && !edit.files_removed.contains(number);
            edit.engine_section.extend([candidates_part(list.files.keys().copied().filter(stays))]);
        }
    }

    /// Takes note that a record is in the MANIFEST, or is not.
    /// LOCKS: catalog (held), compaction candidates
    pub(crate) fn after_commit(&self, edit: &Edit, is_committed: bool) {
        let mut list = self.list.lock();
        if is_committed {
            list.is_changed &= !has_candidates(edit);
            for number in &edit.files_removed {
                list.files.remove(number);
                list.sought.remove(number);
                list.no_larger.remove(number);
                self.seeks.clear(*number);
            }
        }
    }

    /// Drops files that are gone, and checks all live-key ratios if more deletes have become garbage.
    /// LOCKS: compaction candidates
    pub(crate) fn refresh(&self, state: &StoreState, droppable_through: u64) {
        let mut list = self.list.lock();
        let before = list.files.len();
        list.files.retain(|number, _| state.files.contains_key(number));
        list.sought.retain(|number| state.files.contains_key(number));
        list.no_larger.retain(|number| state.files.contains_key(number));
        list.is_changed |= list.files.len() != before;
        let looked = list.looked_at_all_with.replace(droppable_through);
        if self.is_fed && self.options.live_key_ratio && looked != Some(droppable_through) {
            let below =
                state.files.iter().filter(|(_, file)| self.is_below_threshold(file, file.live_keys, droppable_through));
            list.add(below.map(|(number, _)| *number).collect::<Vec<_>>(), Source::LiveKeyRatio);
        }
    }

    /// The files on the list, each with its source.
    pub(crate) fn listed(&self) -> Vec<(u32, Source)> {
        self.list.lock().files.iter().map(|(number, source)| (*number, *source)).collect()
    }

    /// Puts files on the list. Returns whether that is news, and how long the list is.
    /// LOCKS: compaction candidates
    pub(crate) fn name(&self, files: impl IntoIterator<Item = u32>, source: Source) -> (bool, usize) {
        let mut list = self.list.lock();
        (list.add(files, source), list.files.len())
    }

    /// Small files that another merge of small files would not improve.
    pub(crate) fn no_larger(&self) -> BTreeSet<u32> {
        self.list.lock().no_larger.clone()
    }

    /// Files that seeks have named.
    pub(crate) fn sought(&self) -> BTreeSet<u32> {
        self.list.lock().sought.clone()
    }

    /// Notes the inputs of a compaction that begins.
    pub(crate) fn take(&self, inputs: &[u32], state: &StoreState, droppable_through: u64) -> ChosenFiles {
        let list = self.list.lock();
        let files = inputs.iter().filter_map(|number| Some((number, state.files.get(number)?)));
        ChosenFiles(
            files
                .map(|(number, file)| {
                    let needed_bytes = needed_part(file, droppable_through) * file.length_bytes as f64;
                    (list.files.get(number).copied(), file.length_bytes, needed_bytes)
                })
                .collect(),
        )
    }

    /// Credits the sources of a finished compaction's inputs. One that has given way has written, and gained nothing
    /// yet.
    pub(crate) fn compacted(&self, taken: &ChosenFiles, plan: &Plan, made: &CompactionResult) {
        let bytes_written = made.bytes_written;
        let list = &mut *self.list.lock();
        if plan.reason == CompactionReason::SmallFiles && 2 * made.files.len() > plan.inputs.len() {
            list.no_larger.extend(&made.files);
        }
        let choices = &mut list.choices;
        let needed_bytes: f64 = taken.0.iter().map(|(_, _, needed_bytes)| needed_bytes).sum();
        let length_bytes: u64 = taken.0.iter().map(|(_, length_bytes, _)| length_bytes).sum();
        let is_over = !made.has_given_way;
        let gained = |length_bytes: u64, written: u64| if is_over { length_bytes.saturating_sub(written) } else { 0 };
        choices.all.candidates += if is_over { taken.0.len() as u64 } else { 0 };
        choices.all.files += if is_over { taken.0.len() as u64 } else { 0 };
        choices.all.rewritten_bytes += bytes_written;
        choices.all.gained_bytes += gained(length_bytes, bytes_written);
        for (source, length_bytes, needed) in &taken.0 {
            let Some(source) = source else { continue };
            let share = if needed_bytes > 0.0 { needed / needed_bytes } else { 0.0 };
            let written = (bytes_written as f64 * share) as u64;
            let chosen = source.chosen(choices);
            chosen.files += u64::from(is_over);
            chosen.rewritten_bytes += written;
            chosen.gained_bytes += gained(*length_bytes, written);
        }
    }

    /// The counters for `stats`.
    pub(crate) fn choices(&self) -> CompactionChoices {
        let list = self.list.lock();
        let (leaf_node_scans, leaf_node_scan_keys) = self.leaf_scan.counted();
        CompactionChoices { candidates: list.files.len() as u64, leaf_node_scans, leaf_node_scan_keys, ..list.choices }
    }

    /// Approximate memory in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let list = self.list.lock();
        let list_bytes = (list.files.len() + list.sought.len() + list.no_larger.len()) * LISTED_BYTES;
        drop(list);
        list_bytes as u64 + self.seeks.memory_bytes()
    }

    /// Whether leaf node scans follow compactions.
    pub(crate) fn scans_leaves(&self) -> bool {
        self.is_fed && self.options.leaf_node_scans
    }
}

#[cfg(test)]
mod tests;
