//! What an open SLM-DB store is made of, and how it is closed.
//!
//! Data goes one way: a write fills a place in the active MemTable ([`slmdb_engine::write::write_path`]); a full MemTable becomes an
//! Immutable MemTable and waits in the queue; the file thread writes it to a table file; the index thread swings the
//! index's words to it and commits ([`crate::flush::file_creation`]); then the MemTable is retired. Readers
//! ([`crate::operations::get`]) look in the same order: MemTables, newest first, then the index, then one block.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use slmdb_engine::events::{Event, Events};
use slmdb_engine::files::file_numbers::FileNumbers;
use slmdb_engine::files::table_cache::Tables;
use slmdb_engine::memory::budget::Budget;
use slmdb_engine::observe::counters::Counted;
use slmdb_engine::observe::spans::timed;
use slmdb_engine::space::reserve::Reserve;
use slmdb_engine::write::arenas::Arenas;
use slmdb_engine::write::memtables::{Filling, Immutable};
use slmdb_engine::write::write_path::{Found, WritePath};
use slmdb_engine::{Options, lock_order};
use slmdb_env::{Env, Error, Lock, Result};
use slmdb_manifest::{Counters, Edit, Manifest, StoreState};
use slmdb_pmem::{Medium, Pool};
use slmdb_structures::fast_fair::Tree;
use slmdb_sync::scheduled::Mutex;
use slmdb_sync::scheduled::thread::JoinHandle;
use tracing::field::Empty;
use tracing::info_span;

use crate::commit::ManifestSpace;
use crate::compaction::queue::Compactions;
use crate::index::compaction_log::CompactionLog;
use crate::index::retired::Retired;
use crate::index::snapshots::Snapshots;
use crate::recovery::checkpoint_schedule::Checkpoints;
use crate::selection::candidate_list::Candidates;
use crate::space::pool_reserve::PoolReserve;

/// An open store on medium `M`.
pub(crate) struct Store<M: Medium> {
    pub(crate) options: Options,
    pub(crate) env: Arc<dyn Env>,
    pub(crate) directory: PathBuf,
    pub(crate) uuid: [u8; 16],
    /// What table files and index checkpoints carry.
    pub(crate) files_uuid: [u8; 16],

    /// MemTables, and what writes go through on their way there.
    pub(crate) writes: WritePath<M>,
    pub(crate) pool: Arc<Pool<M>>,
    pub(crate) tree: Tree<M>,
    pub(crate) jobs: CompactionLog,
    pub(crate) tables: Tables,
    pub(crate) budget: Budget,

    pub(crate) snapshots: Snapshots,

    pub(crate) catalog: Mutex<Catalog>,
    pub(crate) file_numbers: FileNumbers,
    pub(crate) retired: Retired,
    pub(crate) compactions: Arc<Compactions>,
    pub(crate) candidates: Candidates,
    /// Held from the first swing of a job until its commit, and by whoever must see the index and the MANIFEST agree. They
    /// don't where it says `true`: a job was given up in between, and the next opening carries it on.
    pub(crate) indexing: Mutex<bool>,

    pub(crate) checkpoints: Checkpoints,
    pub(crate) threads: Mutex<Vec<JoinHandle<()>>>,
    pub(crate) counted: Arc<Counted>,
    pub(crate) manifest_space: ManifestSpace,
    /// Disk space that leads out of a full disk.
    pub(crate) reserve: Reserve,
    pub(crate) pool_reserve: PoolReserve,
    pub(crate) lifetime_before: Counters,
    /// Released when the last cursor and the last handle are gone.
    pub(crate) _lock: Option<Box<dyn Lock>>,
}

impl<M: Medium> Drop for Store<M> {
    /// Before the lock is released. (After a clean close there is nothing left to be done.)
    fn drop(&mut self) {
        self.pool.end();
    }
}

/// What the store consists of: the MANIFEST, or, opened read-only, its state with what was recovered in memory.
pub(crate) enum Catalog {
    Manifest(Manifest),
    ReadOnly(StoreState),
}

impl Catalog {
    pub(crate) fn state(&self) -> &StoreState {
        match self {
            Catalog::Manifest(manifest) => manifest.state(),
            Catalog::ReadOnly(state) => state,
        }
    }
}

/// The parts that recovery puts together.
pub(crate) struct RecoveredStore<M: Medium> {
    pub(crate) options: Options,
    pub(crate) directory: PathBuf,
    pub(crate) pool: Arc<Pool<M>>,
    pub(crate) tree: Tree<M>,
    pub(crate) jobs: CompactionLog,
    pub(crate) arenas: Arenas<M>,
    pub(crate) tables: Tables,
    pub(crate) catalog: Catalog,
    pub(crate) active: Option<Filling<M>>,
    pub(crate) active_from: u64,
    /// Recovered MemTables, oldest first, each with its last sequence number.
    pub(crate) recovered: Vec<Immutable<M>>,
    pub(crate) reserve: Reserve,
    pub(crate) pool_reserve: PoolReserve,
    pub(crate) last_sequence: u64,
    pub(crate) file_bytes_written: u64,
    pub(crate) events: Events,
    pub(crate) lock: Option<Box<dyn Lock>>,
}

impl<M: Medium + Clone> Store<M> {
    /// An open store; its background threads are started by the caller.
    pub(crate) fn new(parts: RecoveredStore<M>) -> Store<M> {
        let state = parts.catalog.state();
        let counted = Arc::new(Counted::default());
        counted.file_bytes_written.store(parts.file_bytes_written, Ordering::Relaxed);
        let compactions = Arc::new(Compactions::default());
        let stop = {
            let compactions = compactions.clone();
            move || compactions.stop()
        };
        let flushed_through = state.flushed_through;
        let found = Found {
            arenas: parts.arenas,
            active: parts.active,
            active_from: parts.active_from,
            recovered: parts.recovered,
            last_sequence: parts.last_sequence,
            flushed_through,
        };
        let writes = WritePath::new(&parts.options, found, counted.clone(), Arc::new(parts.events), stop);
        let checkpoints = Checkpoints::new(state, parts.options.checkpoint_entries);
        Store {
            env: parts.options.env.clone(),
            budget: Budget::new(&parts.options),
            uuid: state.uuid,
            files_uuid: state.files_uuid,
            snapshots: Snapshots::new(parts.options.comparator.clone()),
            file_numbers: FileNumbers::new(state.next_file_number),
            retired: Retired::default(),
            compactions,
            writes,
            candidates: Candidates::new(&parts.options, state),
            lifetime_before: state.lifetime,
            catalog: Mutex::ranked(lock_order::CATALOG, parts.catalog),
            indexing: Mutex::ranked(lock_order::INDEXING, false),
            checkpoints,
            threads: Mutex::ranked(lock_order::THREADS, Vec::new()),
            counted,
            manifest_space: ManifestSpace::default(),
            reserve: parts.reserve,
            pool_reserve: parts.pool_reserve,
            options: parts.options,
            directory: parts.directory,
            pool: parts.pool,
            tree: parts.tree,
            jobs: parts.jobs,
            tables: parts.tables,
            _lock: parts.lock,
        }
    }

    /// See [`WritePath::check_writable`].
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.writes.check_writable()
    }

    /// See [`WritePath::fail`].
    pub(crate) fn fail(&self, error: Error) {
        self.writes.fail(error);
    }

    /// Tells the event listener; without one nothing is made. May be called anywhere, under any lock.
    pub(crate) fn notify(&self, make: impl FnOnce() -> Event) {
        self.writes.events.notify(make);
    }

    /// How long ago that was, on the clock of the environment.
    pub(crate) fn since(&self, then_ns: u64) -> Duration {
        Duration::from_nanos(self.env.monotonic_ns().saturating_sub(then_ns))
    }

    /// See [`WritePath::has_failed`].
    pub(crate) fn has_failed(&self) -> bool {
        self.writes.has_failed()
    }

    /// Ends the background threads and seals the store. See [`slmdb_engine::Engine::close`].
    pub(crate) fn close(&self) -> Result<()> {
        if self.writes.health.close() || self.options.read_only {
            return Ok(());
        }
        timed(&*self.env, info_span!("close", ms = Empty), || self.seal())
    }

    /// The work of [`Store::close`].
    fn seal(&self) -> Result<()> {
        self.writes.traffic.lock().closing = true;
        self.compactions.stop();
        self.writes.room.notify_all();
        self.writes.work.notify_all();
        for thread in self.threads.lock().drain(..) {
            if thread.join().is_err() {
                self.fail(Error::invalid("a background thread panicked"));
            }
        }
        if let Some(cause) = self.writes.health.failure() {
            return Err(cause.clone());
        }
        self.checkpoint_at_close()?;
        // Writers that reserved a place before the store was closed still fill it.
        let last_sequence = self.writes.traffic.lock().next_sequence - 1;
        self.writes.publication.wait_for(last_sequence);
        self.writes.sync_arenas()?;
        let (active, spare) = {
            let mut traffic = self.writes.traffic.lock();
            (traffic.active.take(), traffic.spare.take())
        };
        self.commit(|_| Edit {
            arenas_removed: spare.iter().map(|spare| spare.memtable.generation()).collect(),
            closed_at_sequence: Some(last_sequence),
            ..Edit::default()
        })?;
        self.reserve.discard()?;
        for space in active.iter().chain(&spare).filter_map(|filling| filling.space.as_ref()) {
            space.discard(&*self.env)?;
        }
        if let Some(spare) = spare {
            self.writes.arenas.retire(spare.memtable)?;
        }
        self.writes.arenas.tidy(active.as_ref().map(|active| &*active.memtable))?;
        if M::PERSISTENT { self.pool.seal() } else { Ok(()) }
    }
}
