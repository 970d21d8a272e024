//! [`CompactionReason`]: why files are merged.

use crate::selection::candidate_list::Source;

/// Why files are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CompactionReason {
    /// The paper's policy took a candidate that this named.
    Candidate(Source),
    /// They are garbage alone.
    GarbageAlone,
    /// They have the most garbage, and the bound on space is near.
    MostGarbage,
    /// They are small, and many.
    SmallFiles,
    /// Cursors have to turn from one to the other often.
    Order,
    /// The disk or the pool is full.
    Space,
    /// Somebody asked for it.
    CompactRange,
}

impl CompactionReason {
    /// As events and traces call it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            CompactionReason::Candidate(source) => source.name(),
            CompactionReason::GarbageAlone => "garbage alone",
            CompactionReason::MostGarbage => "most garbage",
            CompactionReason::SmallFiles => "small files",
            CompactionReason::Order => "order",
            CompactionReason::Space => "space",
            CompactionReason::CompactRange => "compact_range",
        }
    }

    /// Whether it removes garbage, and so tells how fast that goes.
    pub(crate) fn is_garbage(self) -> bool {
        !matches!(self, CompactionReason::SmallFiles | CompactionReason::Order | CompactionReason::CompactRange)
    }
}
