//! [`Source`]: what names compaction candidates (paper, section 3.3).

use slmdb_engine::{Chosen, CompactionChoices};

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
