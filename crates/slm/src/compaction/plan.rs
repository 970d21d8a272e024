//! What a compaction is to do and why, and its result.

use slmdb_engine::Chosen;
use slmdb_env::Error;

/// Why files are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CompactionReason {
    /// The paper's policy took a candidate. The name is that of its source.
    Candidate(&'static str),
    /// They hold only garbage.
    GarbageAlone,
    /// They have the most garbage, and the bound on space is near.
    MostGarbage,
    /// They are many small files.
    SmallFiles,
    /// Cursors often turn from one to another.
    Order,
    /// The disk or the pool is full.
    Space,
    /// A caller asked for the range.
    CompactRange,
}

impl CompactionReason {
    /// Its name in events and traces.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            CompactionReason::Candidate(source) => source,
            CompactionReason::GarbageAlone => "garbage alone",
            CompactionReason::MostGarbage => "most garbage",
            CompactionReason::SmallFiles => "small files",
            CompactionReason::Order => "order",
            CompactionReason::Space => "space",
            CompactionReason::CompactRange => "compact_range",
        }
    }

    /// Whether such compactions remove garbage, so that their speed tells how fast garbage goes.
    pub(crate) fn is_garbage(self) -> bool {
        !matches!(self, CompactionReason::SmallFiles | CompactionReason::Order | CompactionReason::CompactRange)
    }
}

/// Files to merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) inputs: Vec<u32>,
    /// Why they are merged.
    pub(crate) reason: CompactionReason,
}

/// What a compaction has made.
#[derive(Debug, Default)]
pub(crate) struct CompactionResult {
    pub(crate) files: Vec<u32>,
    /// Total length of its inputs.
    pub(crate) input_bytes: u64,
    /// Total length of the files.
    pub(crate) bytes_written: u64,
    /// It gave way to writers: its inputs are still there.
    pub(crate) has_given_way: bool,
}

impl CompactionResult {
    /// Credits so many inputs of this length, for which so much was written. A compaction that has given way has gained
    /// nothing yet.
    pub(crate) fn credit(&self, chosen: &mut Chosen, inputs: u64, length_bytes: u64, bytes_written: u64) {
        chosen.rewritten_bytes += bytes_written;
        if !self.has_given_way {
            chosen.files += inputs;
            chosen.gained_bytes += length_bytes.saturating_sub(bytes_written);
        }
    }
}

/// Why a compaction ended early.
pub(crate) enum Stopped {
    /// The store closes, or has failed.
    Closing,
    /// Writers need what it takes. What is finished stays.
    GivesWay,
    /// It finds no space.
    NoSpace(Error),
    /// The system lacks something else, perhaps not for long.
    Lacking(Error),
    /// This input can't be read.
    Unreadable(u32, Error),
    /// A failure after which nothing may be tried again.
    Failed(Error),
}

impl Stopped {
    /// From an error in reading an input.
    pub(crate) fn of_input(number: u32, error: Error) -> Stopped {
        if error.is_passing_lack() { Stopped::Lacking(error) } else { Stopped::Unreadable(number, error) }
    }

    pub(crate) fn cause(&self) -> Error {
        match self {
            Stopped::GivesWay => Error::Invalid { what: "a merge for order gives way to writers".into() },
            Stopped::Closing => Error::ReadOnly { cause: "the store closes, or has failed".into() },
            Stopped::NoSpace(error)
            | Stopped::Lacking(error)
            | Stopped::Unreadable(_, error)
            | Stopped::Failed(error) => error.clone(),
        }
    }
}
