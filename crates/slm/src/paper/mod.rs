//! SLM-DB's own policy (section 3.3), which runs only where [`CompactionPolicy::Paper`] is chosen.
//!
//! Table files that are worth merging are on a [list](candidate_list). The live-key ratio names them, and
//! [leaf node scans](leaf_node_scan), range queries ([`sequentiality_degree`]) and [seeks](crate::selection::seeks).
//! From these the policy [chooses](choice).

pub(crate) mod candidate_list;
pub(crate) mod candidate_source;
mod choice;
mod leaf_node_scan;
pub(crate) mod sequentiality_degree;

use std::sync::Arc;

use slmdb_engine::files::catalog::Catalog;
use slmdb_engine::{CompactionChoices, CompactionOptions, CompactionPolicy, Options};

use self::candidate_list::{Candidates, ChosenFiles};
use self::candidate_source::Source;
use self::leaf_node_scan::LeafNodeScan;
use self::sequentiality_degree::Sequentiality;
use crate::compaction::plan::{CompactionResult, Plan};
use crate::compaction::queue::CompactionQueue;
use crate::index::Index;
use crate::selection::policy::Choice;

/// The paper's policy in an open store.
pub(crate) struct PaperPolicy {
    options: CompactionOptions,
    pub(crate) candidates: Candidates,
    leaf_scan: LeafNodeScan,
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
            leaf_scan: LeafNodeScan::default(),
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
    pub(crate) fn range_query_ended(&self, files: &[u32]) {
        if files.len() > self.options.sequentiality_degree_threshold.max(1) {
            self.name(files.iter().copied(), Source::RangeQuery);
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
        if !self.options.leaf_node_scans {
            return;
        }
        match self.leaf_scan.scan(self.options.leaf_node_scan_files, catalog, index, &self.compactions) {
            Ok(files) if files.len() > self.options.leaf_node_threshold => self.name(files, Source::LeafNodeScan),
            Ok(_) => {}
            // What can't be read there is for `verify` to report.
            Err(error) => tracing::warn!(%error, "a leaf node scan was given up"),
        }
    }

    /// Adds its counters for `stats`.
    /// LOCKS: compaction candidates
    pub(crate) fn count(&self, choices: &mut CompactionChoices) {
        let (leaf_node_scans, leaf_node_scan_keys) = self.leaf_scan.counted();
        let by_source = self.candidates.choices();
        *choices = CompactionChoices { leaf_node_scans, leaf_node_scan_keys, all: choices.all, ..by_source };
    }
}
