//! SLM-DB as an engine: the parts of an open store, and how they are put together and closed.
//!
//! Data goes one way:
//!
//! 1. A write fills a place in the active MemTable ([`slmdb_engine::write::write_path`]).
//! 2. A full MemTable becomes an Immutable MemTable and waits in the queue.
//! 3. The file creation thread writes it to a table file ([`crate::flush::file_creation`]).
//! 4. The B+-tree insertion thread swings the index's words to that file, commits, and retires the MemTable
//!    ([`crate::flush::index_insertion`]).
//!
//! Readers ([`crate::operations::get`]) look in the same order: MemTables, newest first, then the index, then one
//! block.
//!
//! Each part holds only what it works with; none has the whole store. Calls against the flow go through small traits:
//! what a flush costs and how space is given back ([`slmdb_engine::space::controller`]), what each MANIFEST record must
//! contain ([`CommitHooks`]), and which obsolete files readers still see
//! ([`PinnedFiles`](slmdb_engine::files::obsolete_files::PinnedFiles)).

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use slmdb_engine::background::workers::{Workers, work};
use slmdb_engine::context::StoreContext;
use slmdb_engine::directory::store_copy::StoreCopy;
use slmdb_engine::events::delivery::Events;
use slmdb_engine::files::catalog::{Catalog, CommitHooks};
use slmdb_engine::files::file_verifier::FileVerifier;
use slmdb_engine::files::obsolete_files::ObsoleteFiles;
use slmdb_engine::observe::lifetime_counters::LifetimeCounters;
use slmdb_engine::observe::spans::verifying;
use slmdb_engine::space::controller::SpaceController;
use slmdb_engine::space::pool_growth::guard_growth;
use slmdb_engine::write::closing::close_once;
use slmdb_engine::write::memtable_preparer::MemTablePreparer;
use slmdb_engine::write::write_path::{RecoveredWrites, WritePath};
use slmdb_engine::{
    Approximate, Condition, Engine, EngineCursor, EngineSnapshot, Slice, Stats, TableFile, VerifyProgress,
    VerifyReport, WriteBatch, lock_order,
};
use slmdb_env::Result;
use slmdb_manifest::{Counters, Edit, StoreState};
use slmdb_pmem::Medium;
use slmdb_sync::scheduled::Mutex;
use slmdb_sync::scheduled::mpsc::sync_channel;
use slmdb_sync::scheduled::thread::JoinHandle;

use crate::compaction::compactor::Compactor;
use crate::compaction::outputs::OutputFiles;
use crate::compaction::pace::CompactionPace;
use crate::compaction::queue::CompactionQueue;
use crate::compaction::repointing::Repointing;
use crate::flush::file_creation::FileCreation;
use crate::flush::index_insertion::IndexInsertion;
use crate::index::Index;
use crate::memory::MemoryShare;
use crate::operations::get::Reader;
use crate::operations::range_query::Cursor;
use crate::operations::snapshot::SlmSnapshot;
use crate::operations::verify::Verifier;
use crate::recovery::checkpoint_schedule::Checkpoints;
use crate::recovery::index_checkpoint::IndexCheckpointer;
use crate::recovery::recover::RecoveredStore;
use crate::selection::candidate_list::Candidates;
use crate::selection::leaf_node_scan::LeafNodeScan;
use crate::selection::naming::CandidateNaming;
use crate::space::flush_cost::PoolFlushCost;
use crate::space::pool_reserve::PoolReserve;
use crate::space::reclaim::SpaceReclaim;
use crate::space::space_planner::SpacePlanner;

/// An open store on medium `M`. Dropping it closes it.
pub(crate) struct Slm<M: Medium + Clone> {
    pub(crate) context: Arc<StoreContext>,
    pub(crate) writes: Arc<WritePath<M>>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) index: Arc<Index<M>>,
    pub(crate) candidates: Arc<Candidates>,
    pub(crate) checkpoints: Arc<Checkpoints>,
    pub(crate) compactions: Arc<CompactionQueue>,
    pub(crate) memory: Arc<MemoryShare<M>>,
    pub(crate) lifetime: Arc<LifetimeCounters<M>>,
    pub(crate) space: Arc<SpaceController<M>>,
    pub(crate) compactor: Arc<Compactor<M>>,
    pub(crate) checkpointer: Arc<IndexCheckpointer<M>>,
    pub(crate) file_creation: Arc<FileCreation<M>>,
    pub(crate) index_insertion: Arc<IndexInsertion<M>>,
    pub(crate) reader: Arc<Reader<M>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What this engine adds to each record of the MANIFEST.
struct SlmCommitHooks<M: Medium> {
    writes: Arc<WritePath<M>>,
    pool_reserve: Arc<PoolReserve>,
    candidates: Arc<Candidates>,
    checkpoints: Arc<Checkpoints>,
    lifetime: Arc<LifetimeCounters<M>>,
}

impl<M: Medium + Clone> CommitHooks for SlmCommitHooks<M> {
    /// LOCKS: indexed keys; memtables
    fn flushes_to_come(&self) -> (u64, u64) {
        let indexed_bytes = self.pool_reserve.indexed_keys.lock().longest_bytes;
        let memtables = self.writes.memtables.lock();
        let has_entries = memtables.active.as_ref().is_some_and(|active| active.totals.entries > 0);
        let longest_bytes = indexed_bytes.max(memtables.admitted.longest_key_bytes);
        (memtables.immutables as u64 + u64::from(has_entries) + 1, u64::from(longest_bytes))
    }

    fn lifetime(&self) -> Counters {
        self.lifetime.of_store()
    }

    fn before_commit(&self, state: &StoreState, edit: &mut Edit) {
        self.candidates.before_commit(state, edit, self.checkpoints.deletes_droppable_through());
    }

    fn after_commit(&self, edit: &Edit, is_committed: bool) {
        self.candidates.after_commit(edit, is_committed);
    }
}

impl<M: Medium + Clone> Slm<M> {
    /// Puts the parts of a recovered store together. Its background threads don't run yet.
    pub(crate) fn new(parts: RecoveredStore<M>, events: Events) -> Slm<M> {
        let log = parts.log;
        let state = log.catalog.state();
        let checkpoints = Arc::new(Checkpoints::new(state, log.options.checkpoint_entries));
        let candidates = Arc::new(Candidates::new(&log.options, state));
        let (flushed_through, lifetime_before) = (state.flushed_through, state.lifetime);
        let uuids = (state.uuid, state.files_uuid);
        let context = Arc::new(StoreContext::new(log.options, log.directory, uuids, events));
        context.counted.file_bytes_written.store(log.file_bytes_written, Ordering::Relaxed);
        let compactions = Arc::new(CompactionQueue::default());
        let tables = Arc::new(parts.tables);
        let pool_reserve = Arc::new(parts.pool_reserve);
        let found = RecoveredWrites {
            arenas: log.arenas,
            active: log.active,
            active_from: log.active_from,
            recovered: log.memtables,
            last_sequence: log.last_sequence,
            flushed_through,
        };
        let writes = Arc::new(WritePath::new(context.clone(), found));
        context.on_failure({
            // Weak, because the write path owns the context.
            let (compactions, writes) = (compactions.clone(), Arc::downgrade(&writes));
            move || {
                compactions.stop();
                writes.upgrade().inspect(|writes| writes.wake());
            }
        });
        let index = Arc::new(Index::new(parts.pool, parts.tree, parts.jobs, parts.lock));
        let lifetime = Arc::new(LifetimeCounters::new(&context, &index.pool, lifetime_before));
        let hooks = SlmCommitHooks {
            writes: writes.clone(),
            pool_reserve: pool_reserve.clone(),
            candidates: candidates.clone(),
            checkpoints: checkpoints.clone(),
            lifetime: lifetime.clone(),
        };
        let catalog =
            Arc::new(Catalog::new(context.clone(), log.catalog, Arc::new(log.reserve), tables.clone(), hooks));
        guard_growth(&index.pool, &catalog.reserve, &context);
        let obsolete = Arc::new(ObsoleteFiles::new(context.clone(), tables.clone(), index.snapshots.clone()));
        let memory = Arc::new(MemoryShare {
            context: context.clone(),
            writes: writes.clone(),
            tables: tables.clone(),
            index: index.clone(),
            catalog: catalog.clone(),
            candidates: candidates.clone(),
        });
        let cost = Arc::new(PoolFlushCost {
            writes: writes.clone(),
            index: index.clone(),
            pool_reserve: pool_reserve.clone(),
        });
        let reclaim = Arc::new(SpaceReclaim {
            context: context.clone(),
            writes: writes.clone(),
            index: index.clone(),
            compactions: compactions.clone(),
        });
        let space = Arc::new(SpaceController::new(
            context.clone(),
            writes.clone(),
            catalog.clone(),
            cost.clone(),
            reclaim.clone(),
        ));
        let pace = Arc::new(CompactionPace {
            context: context.clone(),
            writes: writes.clone(),
            catalog: catalog.clone(),
            compactions: compactions.clone(),
            checkpoints: checkpoints.clone(),
        });
        let naming = Arc::new(CandidateNaming {
            context: context.clone(),
            catalog: catalog.clone(),
            candidates: candidates.clone(),
            compactions: compactions.clone(),
        });
        let files = Arc::new(OutputFiles {
            context: context.clone(),
            catalog: catalog.clone(),
            index: index.clone(),
            pool_reserve: pool_reserve.clone(),
        });
        let checkpointer = Arc::new(IndexCheckpointer {
            context: context.clone(),
            writes: writes.clone(),
            catalog: catalog.clone(),
            index: index.clone(),
            checkpoints: checkpoints.clone(),
            compactions: compactions.clone(),
        });
        let file_creation = Arc::new(FileCreation {
            context: context.clone(),
            writes: writes.clone(),
            catalog: catalog.clone(),
            index: index.clone(),
            space: space.clone(),
            memory: memory.clone(),
        });
        let index_insertion = Arc::new(IndexInsertion {
            context: context.clone(),
            writes: writes.clone(),
            catalog: catalog.clone(),
            index: index.clone(),
            space: space.clone(),
            cost: cost.clone(),
            checkpoints: checkpoints.clone(),
            compactions: compactions.clone(),
            pace: pace.clone(),
            memory: memory.clone(),
            repointing: Repointing {
                index: index.clone(),
                catalog: catalog.clone(),
                space: space.clone(),
                obsolete: obsolete.clone(),
                files: files.clone(),
                checkpoints: checkpoints.clone(),
            },
        });
        let compactor = Arc::new(Compactor {
            context: context.clone(),
            writes: writes.clone(),
            catalog: catalog.clone(),
            tables: tables.clone(),
            index: index.clone(),
            compactions: compactions.clone(),
            candidates: candidates.clone(),
            checkpoints: checkpoints.clone(),
            obsolete: obsolete.clone(),
            reclaim: reclaim.clone(),
            planner: SpacePlanner {
                context: context.clone(),
                catalog: catalog.clone(),
                index: index.clone(),
                pool_reserve,
                checkpoints: checkpoints.clone(),
            },
            cost,
            memory: memory.clone(),
            pace,
            leaf_node_scan: LeafNodeScan { naming: naming.clone(), index: index.clone() },
            files,
            checkpointer: checkpointer.clone(),
        });
        let reader = Arc::new(Reader {
            context: context.clone(),
            writes: writes.clone(),
            index: index.clone(),
            tables,
            catalog: catalog.clone(),
            memory: memory.clone(),
            obsolete,
            reclaim,
            naming,
            cold_ranges: Default::default(),
        });
        Slm {
            context,
            writes,
            catalog,
            index,
            candidates,
            checkpoints,
            compactions,
            memory,
            lifetime,
            space,
            compactor,
            checkpointer,
            file_creation,
            index_insertion,
            reader,
            threads: Mutex::ranked(lock_order::THREADS, Vec::new()),
        }
    }

    /// Starts the background threads, if the store takes writes.
    pub(crate) fn start(&self, workers: Workers) {
        self.memory.share();
        if self.context.options.read_only {
            return;
        }
        let context = &self.context;
        let (sender, receiver) = sync_channel(1);
        let compactions = (0..context.options.compaction.threads_to_start()).map(|_| {
            let (compactor, sender) = (self.compactor.clone(), sender.clone());
            work(context, move || compactor.run(sender))
        });
        let compactions: Vec<_> = compactions.collect();
        let (file_creation, index_insertion) = (self.file_creation.clone(), self.index_insertion.clone());
        let (writes, catalog, space) = (self.writes.clone(), self.catalog.clone(), self.space.clone());
        let preparer = MemTablePreparer::new(context.clone(), writes, catalog, space);
        let checkpointer = self.checkpointer.clone();
        let others = [
            work(context, move || file_creation.run(sender)),
            work(context, move || index_insertion.run(receiver)),
            work(context, move || preparer.run()),
            work(context, move || checkpointer.run()),
        ];
        *self.threads.lock() = workers.begin(compactions.into_iter().chain(others));
    }

    fn verifier(&self) -> Verifier<M> {
        Verifier {
            files: FileVerifier {
                context: self.context.clone(),
                catalog: self.catalog.clone(),
                tables: self.reader.tables.clone(),
                obsolete: self.reader.obsolete.clone(),
            },
            writes: self.writes.clone(),
            index: self.index.clone(),
        }
    }

    fn copy_to(&self, directory: &Path) -> Result<()> {
        let (context, catalog, obsolete) = (&*self.context, &*self.catalog, &*self.reader.obsolete);
        let copy = StoreCopy { context, catalog, obsolete };
        copy.make(directory, || self.writes.flush(), || self.checkpoints.hold())
    }

    /// Ends the background threads, makes the log durable, and records where it ends.
    fn seal(&self) -> Result<()> {
        self.writes.end_threads(&self.threads, || self.compactions.stop())?;
        self.checkpointer.leave_index()?;
        self.writes.seal_log(&self.catalog)?;
        if M::PERSISTENT { self.index.pool.seal() } else { Ok(()) }
    }
}

impl<M: Medium + Clone> Engine for Slm<M> {
    fn write(&self, batch: &WriteBatch, sync: bool) -> Result<()> {
        self.writes.write(batch, sync)
    }

    fn write_if(&self, condition: Condition<'_>, batch: &WriteBatch, sync: bool) -> Result<bool> {
        self.writes.write_if(condition, batch, sync, |key| self.reader.contains_key(key))
    }

    fn get(&self, key: &[u8]) -> Result<Option<Slice>> {
        self.reader.get(key)
    }

    fn contains_key(&self, key: &[u8]) -> Result<bool> {
        self.reader.contains_key(key)
    }

    fn cursor(&self) -> Result<Box<dyn EngineCursor>> {
        Ok(Box::new(Cursor::new(self.reader.clone())))
    }

    fn snapshot(&self) -> Result<Arc<dyn EngineSnapshot>> {
        Ok(Arc::new(SlmSnapshot::new(self.reader.clone())))
    }

    fn sync(&self) -> Result<()> {
        self.writes.sync()
    }

    fn flush(&self) -> Result<()> {
        self.writes.flush()
    }

    fn compact_range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<()> {
        self.compactor.compact_range(from.map(<[u8]>::to_vec), to.map(<[u8]>::to_vec))
    }

    fn checkpoint(&self, directory: &Path) -> Result<()> {
        self.copy_to(directory)
    }

    fn stats(&self) -> Stats {
        self.make_stats()
    }

    fn table_files(&self) -> Vec<TableFile> {
        self.list_table_files()
    }

    fn approximate(&self, range: (Bound<&[u8]>, Bound<&[u8]>)) -> Result<Approximate> {
        self.reader.estimate(range)
    }

    fn verify(&self, progress: &mut dyn FnMut(VerifyProgress)) -> Result<VerifyReport> {
        verifying(&*self.context.env, || self.verifier().verify(progress))
    }

    fn close(&self) -> Result<()> {
        close_once(&self.context, || self.seal())
    }
}

impl<M: Medium + Clone> Drop for Slm<M> {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::error!(%error, "closing failed; the next opening recovers");
        }
    }
}
