//! What goes through the queue between the file creation thread and the B+-tree insertion thread (paper, section 3.2).

use std::sync::{Arc, OnceLock};

use slmdb_engine::space::reserved_file::ReservedFile;
use slmdb_engine::write::memtables::Immutable;
use slmdb_env::Error;
use slmdb_manifest::FileRecord;
use slmdb_pmem::Medium;
use slmdb_structures::fast_fair::Segment;
use slmdb_sync::scheduled::mpsc::SyncSender;

use crate::flush::older_versions::OlderVersions;
use crate::index::compaction_log::Slot;

/// What the index thread takes from its queue.
pub(crate) enum Finished<M: Medium> {
    /// A flush's.
    Flush(Built<M>),
    /// A compaction's.
    Compaction(Output),
}

/// A MemTable with its table file and key segment, ready to be indexed.
pub(crate) struct Built<M: Medium> {
    pub(crate) immutable: Immutable<M>,
    /// When its flush began, on the clock of the environment.
    pub(crate) began_ns: u64,
    /// `None`: there was nothing in it.
    pub(crate) file: Option<BuiltFile>,
}

/// A table file that is durable, with its key segment.
pub(crate) struct BuiltFile {
    pub(crate) number: u32,
    pub(crate) record: FileRecord,
    pub(crate) segment: Segment,
    /// What snapshots see of the MemTable beside the newest versions.
    pub(crate) older: OlderVersions,
    pub(crate) slot: Option<Slot>,
}

/// A file that a compaction has made, or the end of one.
pub(crate) struct Output {
    pub(crate) file: Option<BuiltFile>,
    /// The reserve, if the file has taken it.
    pub(crate) reserve: Option<ReservedFile>,
    pub(crate) origin: Arc<Origin>,
    /// The inputs, if this is the last.
    pub(crate) removed: Vec<u32>,
    /// Deletes up to here may have been left out because the index checkpoints cover them.
    pub(crate) deletes_dropped_through: u64,
    /// Told once it is in the MANIFEST, or refused. (Dropped without a word if the store closes or has failed before.)
    pub(crate) done: SyncSender<()>,
}

/// What the outputs of one compaction have in common.
pub(crate) struct Origin {
    /// How many files it merges.
    pub(crate) inputs: usize,
    /// Why the index thread has refused an output. Then it takes no later one either: the last removes the inputs.
    pub(crate) refused: OnceLock<Error>,
}
