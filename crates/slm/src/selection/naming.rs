//! How readers name compaction candidates, in passing.

use std::sync::Arc;

use slmdb_engine::context::StoreContext;
use slmdb_engine::files::catalog::Catalog;
use slmdb_engine::read::scan_buffers::SeekCounter;

use crate::compaction::queue::CompactionQueue;
use crate::selection::candidate_list::Candidates;
use crate::selection::candidate_source::Source;

/// Puts files that readers meet on the candidate list.
pub(crate) struct CandidateNaming {
    pub(crate) context: Arc<StoreContext>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) candidates: Arc<Candidates>,
    pub(crate) compactions: Arc<CompactionQueue>,
}

impl CandidateNaming {
    /// Puts files on the list, and wakes the compaction threads if that may be a reason to compact.
    /// LOCKS: compaction candidates; compactions
    pub(crate) fn name_candidates(&self, files: impl IntoIterator<Item = u32>, source: Source) {
        let (is_news, length) = self.candidates.name(files, source);
        let is_reason = source == Source::Seeks || length > self.context.options.compaction.candidates_threshold;
        if is_news && is_reason {
            self.compactions.wake();
        }
    }

    /// Takes note that a range query has ended. `files`: those of its worst sub-range.
    pub(crate) fn range_query_ended(&self, files: &[u32]) {
        if files.len() > self.context.options.compaction.sequentiality_degree_threshold {
            self.name_candidates(files.iter().copied(), Source::RangeQuery);
        }
    }
}

impl SeekCounter for CandidateNaming {
    /// LOCKS: catalog (tried); compaction candidates; compactions
    fn count_seek(&self, file: u32) {
        let (candidates, options) = (&self.candidates, &self.context.options.compaction);
        if !candidates.is_fed || !options.seeks {
            return;
        }
        let seeks = candidates.seeks.add(file);
        if seeks % options.seeks_min != 0 {
            return;
        }
        // A commit holds the catalog while the disk writes. A reader does not wait for that; a later seek checks again.
        let Some(catalog) = self.catalog.try_lock() else { return };
        let length_bytes = catalog.state().files.get(&file).map(|file| file.length_bytes);
        drop(catalog);
        if length_bytes.is_some_and(|bytes| u64::from(seeks) >= bytes / options.seek_bytes) {
            candidates.seeks.clear(file);
            self.name_candidates([file], Source::Seeks);
        }
    }
}
