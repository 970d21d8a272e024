//! SLM-DB's own policy (section 3.3), which runs only where [`CompactionPolicy::Paper`] is chosen.
//!
//! Table files that are worth merging are on a [list](candidate_list). The live-key ratio names them, and
//! [leaf node scans](leaf_node_scan), range queries ([`sequentiality_degree`]) and [seeks](crate::selection::seeks).
//! From these the policy [chooses](choice).

pub(crate) mod candidate_list;
mod choice;
mod leaf_node_scan;
pub(crate) mod sequentiality_degree;

use std::ops::Bound;
use std::sync::Arc;

use slmdb_engine::files::catalog::Catalog;
use slmdb_engine::{CompactionChoices, CompactionOptions, CompactionPolicy, Options, lock_order};
use slmdb_sync::scheduled::Mutex;

use self::candidate_list::{Candidates, ChosenFiles, Source};
use self::sequentiality_degree::Sequentiality;
use crate::compaction::plan::{CompactionResult, Plan};
use crate::compaction::queue::CompactionQueue;
use crate::index::Index;
use crate::selection::policy::Choice;

/// The paper's policy in an open store.
pub(crate) struct PaperPolicy {
    options: CompactionOptions,
    pub(crate) candidates: Candidates,
    /// Where the next leaf node scan begins.
    next_leaves: Mutex<Bound<Vec<u8>>>,
    compactions: Arc<CompactionQueue>,
}

impl PaperPolicy {
    /// The policy of a store whose MANIFEST has these `candidates`. `None`: another one is chosen, or nothing may be compacted.
    pub(crate) fn chosen(
        options: &Options,
        candidates: &[u32],
        compactions: &Arc<CompactionQueue>,
    ) -> Option<PaperPolicy> {
        let is_chosen = options.compaction.policy == CompactionPolicy::Paper && !options.read_only;
        is_chosen.then(|| PaperPolicy {
            candidates: Candidates::new(&options.compaction, candidates),
            next_leaves: Mutex::ranked(lock_order::LEAF_NODE_SCAN, Bound::Unbounded),
            compactions: compactions.clone(),
            options: options.compaction.clone(),
        })
    }

    /// Puts files on the list, and wakes the compaction threads if it has become long.
    /// LOCKS: compaction candidates; compactions
    fn name(&self, files: impl IntoIterator<Item = u32>, source: Source) {
        let (is_news, length) = self.candidates.name(files, source);
        if is_news && length > self.options.candidates_threshold {
            self.compactions.wake();
        }
    }

    /// The counter of a new cursor, if range queries are watched.
    pub(crate) fn range_query(&self) -> Option<Box<Sequentiality>> {
        self.options.range_queries.then(|| Box::new(Sequentiality::new(self.options.sub_range_keys)))
    }

    /// Takes note that a range query has ended. `files`: those of its worst sub-range.
    /// LOCKS: compaction candidates; compactions
    pub(crate) fn range_query_ended(&self, files: Vec<u32>) {
        if files.len() > self.options.sequentiality_degree_threshold.max(1) {
            self.name(files, Source::RangeQuery);
        }
    }

    /// The policy's choice.
    /// LOCKS: compaction candidates
    pub(crate) fn pick(&self, choice: &Choice<'_>) -> Option<Plan> {
        self.candidates.refresh(choice.state, choice.deletes_droppable_through);
        choice::pick(choice, self.candidates.listed())
    }

    /// Takes note that a compaction has ended, and scans the next leaves.
    /// LOCKS: compaction candidates; leaf node scan (tried), catalog; compaction candidates; compactions
    pub(crate) fn compacted(&self, taken: &ChosenFiles, made: &CompactionResult, catalog: &Catalog, index: &Index) {
        self.candidates.compacted(taken, made);
        // One at a time: a compaction that ends meanwhile goes without a scan.
        let Some(mut from) = self.next_leaves.try_lock().filter(|_| self.options.leaf_node_scans) else { return };
        let keys_of_files = self.options.leaf_node_scan_files;
        match leaf_node_scan::scan(&mut from, keys_of_files, catalog, index, &self.compactions) {
            Ok((files, keys)) => {
                self.candidates.scanned(keys);
                if files.len() > self.options.leaf_node_threshold {
                    self.name(files, Source::LeafNodeScan);
                }
            }
            // What can't be read there is for `verify` to report.
            Err(error) => tracing::warn!(%error, "a leaf node scan was given up"),
        }
    }

    /// Adds its counters for `stats`.
    /// LOCKS: compaction candidates
    pub(crate) fn count(&self, choices: &mut CompactionChoices) {
        *choices = CompactionChoices { all: choices.all, ..self.candidates.choices() };
    }
}
