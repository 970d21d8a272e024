//! LAB-DB as an engine: the parts of an open store, and how they are put together and closed.
//!
//! Data goes one way:
//!
//! 1. A write fills a place in the active MemTable ([`slmdb_engine::write::write_path`]).
//! 2. A full MemTable becomes an Immutable MemTable and waits in the queue.
//! 3. The flush thread writes it to a run file, and lets the mutable tree's records lead there ([`crate::flush`]).
//! 4. The mutable tree becomes immutable, and goes to level 1 chunk by chunk ([`crate::compaction`]).
//! 5. What a level has too much of goes to the next ([`slmdb_levels`]).
//!
//! Readers ([`crate::operations`]) look in the same order.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use slmdb_engine::background::workers::{Work, Workers, work};
use slmdb_engine::context::StoreContext;
use slmdb_engine::directory::store_copy::StoreCopy;
use slmdb_engine::events::delivery::Events;
use slmdb_engine::files::catalog::{Catalog, CommitHooks};
use slmdb_engine::files::file_verifier::FileVerifier;
use slmdb_engine::files::obsolete_files::{ObsoleteFiles, PinnedFiles};
use slmdb_engine::files::table_cache::Tables;
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
use slmdb_levels::{Levels, TableRun};
use slmdb_manifest::{Counters, Edit, StoreState};
use slmdb_pmem::Medium;
use slmdb_sync::scheduled::Mutex;
use slmdb_sync::scheduled::thread::JoinHandle;

use crate::compaction::compactor::{Compactor, chunk_lock};
use crate::compaction::pace::LevelZeroPace;
use crate::compaction::queue::CompactionQueue;
use crate::compaction::unreadable::Unreadable;
use crate::flush::Flush;
use crate::level_zero::{LevelZero, Snapshots};
use crate::memory::MemoryShare;
use crate::operations::get::{Moment, Reader};
use crate::operations::range_query::Cursor;
use crate::operations::snapshot::LabSnapshot;
use crate::operations::verify::Verifier;
use crate::recovery::recover::RecoveredStore;
use crate::space::{PoolFlushCost, SpaceReclaim};

/// An open store on medium `M`. Dropping it closes it.
pub(crate) struct Lab<M: Medium + Clone> {
    pub(crate) context: Arc<StoreContext>,
    pub(crate) writes: Arc<WritePath<M>>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) level_zero: Arc<LevelZero<M>>,
    pub(crate) levels: Arc<Levels<TableRun>>,
    pub(crate) tables: Arc<Tables>,
    pub(crate) memory: Arc<MemoryShare<M>>,
    pub(crate) reader: Arc<Reader<M>>,
    pub(crate) lifetime: Arc<LifetimeCounters<M>>,
    obsolete: Arc<ObsoleteFiles>,
    space: Arc<SpaceController<M>>,
    compactions: Arc<CompactionQueue>,
    pub(crate) compactor: Arc<Compactor<M>>,
    flush: Arc<Flush<M>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What this engine adds to each record of the MANIFEST.
struct LabCommitHooks<M: Medium> {
    writes: Arc<WritePath<M>>,
    lifetime: Arc<LifetimeCounters<M>>,
}

impl<M: Medium + Clone> CommitHooks for LabCommitHooks<M> {
    /// LOCKS: memtables
    fn flushes_to_come(&self) -> (u64, u64) {
        let memtables = self.writes.memtables.lock();
        let has_entries = memtables.active.as_ref().is_some_and(|active| active.totals.entries > 0);
        let longest_bytes = memtables.admitted.longest_key_bytes;
        (memtables.immutables as u64 + u64::from(has_entries) + 1, u64::from(longest_bytes))
    }

    fn lifetime(&self) -> Counters {
        self.lifetime.of_store()
    }

    fn before_commit(&self, _: &StoreState, _: &mut Edit) {}

    fn after_commit(&self, _: &Edit, _: bool) {}
}

/// The files that readers still see: old versions of level 0, and runs of old versions of the levels.
struct FilesInUse {
    snapshots: Arc<Snapshots>,
    levels: Arc<Levels<TableRun>>,
}

impl PinnedFiles for FilesInUse {
    fn pins(&self, number: u32) -> bool {
        self.snapshots.pins(number) || self.levels.pins(number)
    }
}

impl<M: Medium + Clone> Lab<M> {
    /// Puts the parts of a recovered store together. Its background threads don't run yet.
    pub(crate) fn new(parts: RecoveredStore<M>, events: Events) -> Lab<M> {
        let log = parts.log;
        let state = log.catalog.state();
        let (flushed_through, lifetime_before) = (state.flushed_through, state.lifetime);
        let uuids = (state.uuid, state.files_uuid);
        let context = Arc::new(StoreContext::new(log.options, log.directory, uuids, events));
        context.counted.file_bytes_written.store(log.file_bytes_written, Ordering::Relaxed);
        let compactions = Arc::new(CompactionQueue::default());
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
        let (level_zero, levels, tables) = (Arc::new(parts.level_zero), Arc::new(parts.levels), parts.tables);
        let lifetime = Arc::new(LifetimeCounters::new(&context, &level_zero.pool, lifetime_before));
        let hooks = LabCommitHooks { writes: writes.clone(), lifetime: lifetime.clone() };
        let catalog =
            Arc::new(Catalog::new(context.clone(), log.catalog, Arc::new(log.reserve), tables.clone(), hooks));
        guard_growth(&level_zero.pool, &catalog.reserve, &context);
        let in_use = FilesInUse { snapshots: level_zero.snapshots.clone(), levels: levels.clone() };
        let obsolete = Arc::new(ObsoleteFiles::new(context.clone(), tables.clone(), Arc::new(in_use)));
        let memory = Arc::new(MemoryShare {
            context: context.clone(),
            writes: writes.clone(),
            tables: tables.clone(),
            level_zero: level_zero.clone(),
            levels: levels.clone(),
            catalog: catalog.clone(),
        });
        let cost = Arc::new(PoolFlushCost { writes: writes.clone(), level_zero: level_zero.clone() });
        let reclaim = Arc::new(SpaceReclaim { level_zero: level_zero.clone(), compactions: compactions.clone() });
        let space =
            Arc::new(SpaceController::new(context.clone(), writes.clone(), catalog.clone(), cost.clone(), reclaim));
        let pace = Arc::new(LevelZeroPace::new(context.clone(), writes.clone(), level_zero.clone(), levels.clone()));
        let flush = Arc::new(Flush {
            pace: pace.clone(),
            context: context.clone(),
            writes: writes.clone(),
            catalog: catalog.clone(),
            level_zero: level_zero.clone(),
            space: space.clone(),
            cost,
            compactions: compactions.clone(),
            memory: memory.clone(),
        });
        let compactor = Arc::new(Compactor {
            context: context.clone(),
            writes: writes.clone(),
            catalog: catalog.clone(),
            level_zero: level_zero.clone(),
            levels: levels.clone(),
            tables: tables.clone(),
            obsolete: obsolete.clone(),
            compactions: compactions.clone(),
            chunk: chunk_lock(),
            begun: AtomicU64::new(0),
            unreadable: Unreadable::default(),
            pace,
        });
        let reader = Arc::new(Reader {
            context: context.clone(),
            writes: writes.clone(),
            level_zero: level_zero.clone(),
            levels: levels.clone(),
            tables: tables.clone(),
            catalog: catalog.clone(),
            memory: memory.clone(),
            obsolete: obsolete.clone(),
            compactions: compactions.clone(),
        });
        Lab {
            context,
            writes,
            catalog,
            level_zero,
            levels,
            tables,
            memory,
            reader,
            lifetime,
            obsolete,
            space,
            compactions,
            compactor,
            flush,
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
        let compactions = (0..context.options.compaction.threads_to_start().max(1)).map(|_| {
            let compactor = self.compactor.clone();
            work(context, move || compactor.run())
        });
        let compactions: Vec<Work> = compactions.collect();
        let flush = self.flush.clone();
        let (writes, catalog, space) = (self.writes.clone(), self.catalog.clone(), self.space.clone());
        let preparer = MemTablePreparer::new(context.clone(), writes, catalog, space);
        let others = [work(context, move || flush.run()), work(context, || ()), work(context, move || preparer.run())];
        *self.threads.lock() = workers.begin(compactions.into_iter().chain(others));
    }

    fn verifier(&self) -> Verifier<'_, M> {
        Verifier {
            files: FileVerifier {
                context: self.context.clone(),
                catalog: self.catalog.clone(),
                tables: self.tables.clone(),
                obsolete: self.obsolete.clone(),
            },
            writes: self.writes.clone(),
            level_zero: self.level_zero.clone(),
            levels: self.levels.clone(),
            compactor: &self.compactor,
        }
    }

    /// Ends the background threads, makes the log durable, and records where it ends.
    fn seal(&self) -> Result<()> {
        self.writes.end_threads(&self.threads, || self.compactions.stop())?;
        self.writes.seal_log(&self.catalog)?;
        if M::PERSISTENT { self.level_zero.pool.seal() } else { Ok(()) }
    }
}

impl<M: Medium + Clone> Engine for Lab<M> {
    fn write(&self, batch: &WriteBatch, sync: bool) -> Result<()> {
        self.writes.write(batch, sync)
    }

    fn write_if(&self, condition: Condition<'_>, batch: &WriteBatch, sync: bool) -> Result<bool> {
        self.writes.write_if(condition, batch, sync, |key| self.reader.contains_key(key, Moment::Now))
    }

    fn get(&self, key: &[u8]) -> Result<Option<Slice>> {
        self.reader.get(key, Moment::Now)
    }

    fn contains_key(&self, key: &[u8]) -> Result<bool> {
        self.reader.contains_key(key, Moment::Now)
    }

    fn cursor(&self) -> Result<Box<dyn EngineCursor>> {
        Ok(Box::new(Cursor::new(self.reader.clone())))
    }

    fn snapshot(&self) -> Result<Arc<dyn EngineSnapshot>> {
        Ok(Arc::new(LabSnapshot::new(self.reader.clone())))
    }

    fn sync(&self) -> Result<()> {
        self.writes.sync()
    }

    fn flush(&self) -> Result<()> {
        self.writes.flush()
    }

    fn compact_range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<()> {
        self.compactor.compact_range((from, to))
    }

    fn checkpoint(&self, directory: &Path) -> Result<()> {
        let (context, catalog, obsolete) = (&*self.context, &*self.catalog, &*self.obsolete);
        StoreCopy { context, catalog, obsolete }.make(directory, || self.writes.flush(), || ())
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

impl<M: Medium + Clone> Drop for Lab<M> {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::error!(%error, "closing failed; the next opening recovers");
        }
    }
}
