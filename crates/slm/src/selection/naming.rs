//! How range queries and cursors name compaction candidates, in passing.

use std::sync::Arc;

use slmdb_engine::context::StoreContext;
use slmdb_engine::files::catalog::Catalog;

use crate::compaction::queue::Compactions;
use crate::selection::candidate_list::Candidates;
use crate::selection::candidate_source::Source;

/// Puts what readers meet on the list of candidates.
pub(crate) struct CandidateNaming {
    pub(crate) context: Arc<StoreContext>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) candidates: Arc<Candidates>,
    pub(crate) compactions: Arc<Compactions>,
}

impl CandidateNaming {
    /// Puts files on the list. Has one compacted if that is a reason to.
    pub(crate) fn name_candidates(&self, files: impl IntoIterator<Item = u32>, source: Source) {
        let (is_news, length) = self.candidates.name(files, source);
        let is_reason = source == Source::Seeks || length > self.context.options.compaction.candidates_threshold;
        if is_news && is_reason {
            self.compactions.wake();
        }
    }

    /// A range query is done: these are the files of its worst sub-range.
    pub(crate) fn range_query_ended(&self, files: &[u32]) {
        if files.len() > self.context.options.compaction.sequentiality_degree_threshold {
            self.name_candidates(files.iter().copied(), Source::RangeQuery);
        }
    }

    /// A cursor has turned to a file, and a block of it has to be read from the disk.
    pub(crate) fn file_sought(&self, file: u32) {
        let (candidates, options) = (&self.candidates, &self.context.options.compaction);
        if !candidates.is_fed || !options.seeks {
            return;
        }
        let seeks = candidates.seeks.add(file);
        if seeks % options.seeks_min != 0 {
            return;
        }
        // Whoever commits holds the catalog while the disk writes. No reader waits for that: it is looked at again later.
        let Some(catalog) = self.catalog.try_lock() else { return };
        let length_bytes = catalog.state().files.get(&file).map(|file| file.length_bytes);
        drop(catalog);
        if length_bytes.is_some_and(|bytes| u64::from(seeks) >= bytes / options.seek_bytes) {
            candidates.seeks.clear(file);
            self.name_candidates([file], Source::Seeks);
        }
    }
}
