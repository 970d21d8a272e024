//! What a compaction is to do, why, and what came of it.

use slmdb_env::Error;

use crate::selection::candidate_source::Source;

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

/// Files to be merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) inputs: Vec<u32>,
    /// Why.
    pub(crate) reason: CompactionReason,
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Made {
    pub(crate) files: Vec<u32>,
    /// How long they are together.
    pub(crate) bytes_written: u64,
}

/// Why a compaction ended early.
pub(crate) enum Stopped {
    /// The store closes, or has failed.
    Closing,
    /// There is no space for it.
    NoSpace(Error),
    /// The system lacks something else for it, perhaps not for long.
    Lacking(Error),
    /// This input can't be read.
    Unreadable(u32, Error),
    /// Something that must not be tried again.
    Failed(Error),
}

impl Stopped {
    /// An error in reading an input.
    pub(crate) fn of_input(number: u32, error: Error) -> Stopped {
        if error.is_passing_lack() { Stopped::Lacking(error) } else { Stopped::Unreadable(number, error) }
    }

    pub(crate) fn cause(&self) -> Error {
        match self {
            Stopped::Closing => Error::ReadOnly { cause: "the store closes, or has failed".into() },
            Stopped::NoSpace(error)
            | Stopped::Lacking(error)
            | Stopped::Unreadable(_, error)
            | Stopped::Failed(error) => error.clone(),
        }
    }
}
