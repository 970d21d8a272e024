//! What goes through the queue between the file creation thread and the B+-tree insertion thread (paper, section 3.2).

use std::sync::{Arc, OnceLock};

use slmdb_engine::background::bell::Bell;
use slmdb_engine::flush::older_versions::OlderVersions;
use slmdb_engine::write::memtables::Immutable;
use slmdb_env::Error;
use slmdb_manifest::FileRecord;
use slmdb_sync::scheduled::mpsc::{Receiver, SyncSender, sync_channel};

use crate::index::key_index::IndexJob;

/// The queue's end at which finished files come in.
#[derive(Clone)]
pub(crate) struct ToIndex {
    queue: SyncSender<Finished>,
    bell: Arc<Bell>,
}

/// A queue for one finished file, and the bell that the index thread hears.
pub(crate) fn queue_of_finished(bell: &Arc<Bell>) -> (ToIndex, Receiver<Finished>) {
    let (queue, finished) = sync_channel(1);
    (ToIndex { queue, bell: bell.clone() }, finished)
}

impl ToIndex {
    /// Puts an item into the queue, once there is room. `false`: the index thread has ended, and the item is dropped.
    pub(crate) fn send(&self, item: Finished) -> bool {
        let is_sent = self.queue.send(item).is_ok();
        self.bell.ring();
        is_sent
    }
}

/// An item of the index thread's queue.
pub(crate) enum Finished {
    /// From a flush.
    Flush(Built),
    /// From a compaction.
    Compaction(Output),
}

/// A MemTable with its table file, ready to be indexed.
pub(crate) struct Built {
    pub(crate) immutable: Immutable,
    /// When its flush began, on the environment's clock.
    pub(crate) began_ns: u64,
    /// `None` if the MemTable was empty.
    pub(crate) file: Option<BuiltFile>,
}

/// A durable table file, with what the index needs of it.
pub(crate) struct BuiltFile {
    pub(crate) number: u32,
    pub(crate) record: FileRecord,
    pub(crate) job: IndexJob,
    /// Versions in the file that snapshots see beside the newest ones.
    pub(crate) older: OlderVersions,
}

/// A finished file of a compaction, or its end.
pub(crate) struct Output {
    pub(crate) file: Option<BuiltFile>,
    pub(crate) origin: Arc<Origin>,
    /// The inputs, with the last output; else empty.
    pub(crate) removed: Vec<u32>,
    /// Deletes up to this sequence number may have been left out (INV-18).
    pub(crate) deletes_dropped_through: u64,
    /// Sent to once the output is committed or refused. Dropped unsent if the store closes or has failed.
    pub(crate) done: SyncSender<()>,
}

/// What the outputs of one compaction share.
pub(crate) struct Origin {
    /// Number of files that it merges.
    pub(crate) inputs: usize,
    /// Why the index thread has refused an output. It then refuses all later ones, because the last removes the inputs.
    pub(crate) refused: OnceLock<Error>,
}
