//! [`SlmTier`]: what SLM-DB does below the MemTables.
//!
//! Data goes one way:
//!
//! 1. A write fills a place in the active MemTable ([`slmdb_engine::write::write_path`]).
//! 2. A full MemTable becomes an Immutable MemTable and waits in the queue.
//! 3. The file creation thread writes it to a table file ([`crate::flush::file_creation`]).
//! 4. The B+-tree insertion thread swings the index's words to that file, commits, and retires the MemTable
//!    ([`crate::flush::index_insertion`]).
//!
//! Readers look in the same order: MemTables, newest first, then the index, then one block ([`crate::operations::get`]).

use std::ops::Bound;
use std::sync::Arc;

use slmdb_engine::background::workers::{Task, task};
use slmdb_engine::files::file_records::table_file;
use slmdb_engine::store::parts::Parts;
#[cfg(test)]
use slmdb_engine::store::store::Store;
use slmdb_engine::store::tier::{Held, Moment, Tier};
use slmdb_engine::{Approximate, Slice, Stats, TableFile, VerifyProgress, VerifyReport};
use slmdb_env::Result;
use slmdb_manifest::FileRecord;
use slmdb_sync::scheduled::MutexGuard;

use crate::compaction::compactor::Compactor;
use crate::compaction::outputs::OutputFiles;
use crate::compaction::pace::CompactionPace;
use crate::compaction::repointing::Repointing;
use crate::flush::file_creation::FileCreation;
use crate::flush::finished::queue_of_finished;
use crate::flush::index_insertion::IndexInsertion;
use crate::operations::get::Reader;
use crate::operations::range_query::SlmCursor;
use crate::operations::verify::Verifier;
use crate::recovery::index_checkpoint::IndexCheckpointer;
use crate::space::space_planner::SpacePlanner;
use crate::state::SlmState;

/// An open SLM-DB store.
#[cfg(test)]
pub(crate) type Slm = Store<SlmTier>;

/// The background threads beside those that every store has, in the order of [`SlmTier::work`].
pub(crate) const THREADS: &[&str] = &["slmdb-file", "slmdb-index", "slmdb-checkpoint"];

/// While this lives, no index checkpoint is made or removed.
struct HeldCheckpoints<'c>(#[expect(dead_code, reason = "it is held")] MutexGuard<'c, ()>);

impl Held for HeldCheckpoints<'_> {}

/// What SLM-DB does below the MemTables of a store.
pub(crate) struct SlmTier {
    pub(crate) store: Arc<Parts>,
    pub(crate) state: Arc<SlmState>,
    pub(crate) reader: Arc<Reader>,
    pub(crate) compactor: Arc<Compactor>,
    pub(crate) checkpointer: Arc<IndexCheckpointer>,
    pub(crate) file_creation: Arc<FileCreation>,
    pub(crate) index_insertion: Arc<IndexInsertion>,
}

impl Tier for SlmTier {
    type State = SlmState;
    type Cursor = SlmCursor;

    fn new(store: &Arc<Parts>, state: &Arc<SlmState>) -> SlmTier {
        let (store, state) = (|| store.clone(), || state.clone());
        let pace = Arc::new(CompactionPace { store: store(), state: state() });
        let files = Arc::new(OutputFiles { store: store(), state: state() });
        let checkpointer = Arc::new(IndexCheckpointer { store: store(), state: state() });
        let repointing = Repointing { store: store(), state: state(), files: files.clone() };
        SlmTier {
            file_creation: Arc::new(FileCreation { store: store(), state: state() }),
            index_insertion: Arc::new(IndexInsertion {
                store: store(),
                state: state(),
                pace: pace.clone(),
                repointing,
            }),
            compactor: Arc::new(Compactor {
                store: store(),
                state: state(),
                planner: SpacePlanner { store: store(), state: state() },
                pace,
                files,
                checkpointer: checkpointer.clone(),
            }),
            reader: Arc::new(Reader {
                store: store(),
                state: state(),
                cold_ranges: Default::default(),
                spare_buffers: Default::default(),
            }),
            checkpointer,
            store: store(),
            state: state(),
        }
    }

    fn work(&self) -> Vec<Task> {
        let (context, of_writes, of_index) = (&self.store.context, &self.store.writes.bell, Arc::default());
        let (to_index, finished) = queue_of_finished(&of_index);
        let (compactor, to_index_too) = (self.compactor.clone(), to_index.clone());
        let mut all = self.store.compaction_work(&self.state.compactions.bell, move |_| compactor.step(&to_index_too));
        let (file_creation, index_insertion) = (self.file_creation.clone(), self.index_insertion.clone());
        let (checkpointer, reader) = (self.checkpointer.clone(), self.reader.clone());
        let cursor = move |moment| SlmCursor::new(reader.clone(), moment);
        all.push(task(context, of_writes, move || file_creation.step(&to_index, &cursor)));
        all.push(task(context, &of_index, move || index_insertion.step(&finished)));
        all.push(task(context, of_writes, move || checkpointer.step()));
        all
    }

    #[inline]
    fn get(&self, key: &[u8], moment: Moment) -> Result<Option<Slice>> {
        self.reader.get(key, moment)
    }

    fn contains_key(&self, key: &[u8], moment: Moment) -> Result<bool> {
        self.reader.contains_key(key, moment)
    }

    fn cursor(&self, moment: u64) -> SlmCursor {
        SlmCursor::new(self.reader.clone(), moment)
    }

    fn approximate(&self, range: (Bound<&[u8]>, Bound<&[u8]>)) -> Result<Approximate> {
        self.reader.approximate(range)
    }

    fn compact_range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<()> {
        self.compactor.compact_range(from.map(<[u8]>::to_vec), to.map(<[u8]>::to_vec))
    }

    fn verify(&self, progress: &mut dyn FnMut(VerifyProgress)) -> Result<VerifyReport> {
        let files = self.store.file_verifier();
        Verifier { files, store: self.store.clone(), state: self.state.clone() }.verify(progress)
    }

    fn hold_files(&self) -> Box<dyn Held + '_> {
        Box::new(HeldCheckpoints(self.state.checkpoints.hold()))
    }

    fn table_files(&self) -> Vec<TableFile> {
        let catalog = self.store.catalog.lock();
        let files = catalog.state().files.iter();
        files.map(|(&number, file)| table_file(number, file, file.live_keys)).collect()
    }

    fn count_stats(&self, stats: &mut Stats) {
        let live_bytes = |file: &FileRecord| {
            (u128::from(file.length_bytes) * u128::from(file.live_keys) / u128::from(file.entries.max(1))) as u64
        };
        let index_keys = {
            let catalog = self.store.catalog.lock();
            let files = || catalog.state().files.values();
            stats.live_bytes = files().map(live_bytes).sum();
            files().map(|file| file.live_keys).sum()
        };
        let (nodes_bytes, segments_bytes) = self.state.index.keys.fast_tier_bytes();
        stats.count_index(index_keys, nodes_bytes, segments_bytes);
        // If the root can't be read, `verify` reports it.
        stats.index_height = self.state.index.keys.height().unwrap_or(0);
        stats.choices = self.state.notes.choices();
        if let Some(paper) = &self.state.paper {
            paper.count(&mut stats.choices);
        }
    }

    fn leave(&self) -> Result<()> {
        self.checkpointer.leave_index()
    }
}
