//! What an open SLM-DB store is made of, and how it is closed.
//!
//! Data goes one way: a write fills a place in the active MemTable ([`crate::write::write_path`]); a full MemTable becomes an
//! Immutable MemTable and waits in the queue; the file thread writes it to a table file; the index thread swings the
//! index's words to it and commits ([`crate::flush::file_creation`]); then the MemTable is retired. Readers ([`crate::operations::get`]) look in the
//! same order: MemTables, newest first, then the index, then one block.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use slmdb_env::{Env, Error, Lock, Result};
use slmdb_manifest::{Counters, Edit, Manifest, StoreState};
use slmdb_pmem::{Medium, Pool};
use slmdb_structures::fast_fair::{KeyLengths, Tree};
use slmdb_structures::memtable::MemTable;
use slmdb_sync::scheduled::{
    ArcSwap, Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64},
    thread::JoinHandle,
};
use tracing::field::Empty;
use tracing::info_span;

use crate::compaction::compactor::Compactions;
use crate::index::compaction_log::Jobs;
use crate::index::obsolete_files::Retired;
use crate::index::snapshots::Snapshots;
use crate::recovery::index_checkpoint::Checkpoints;
use crate::selection::candidate_list::Candidates;
use crate::space::admission::Grant;
use crate::space::compaction_reserve::KeptBack;
use crate::space::space_errors::Setbacks;
use crate::stats::Counted;
use crate::write::memtables::{Filling, Immutable, Traffic};
use slmdb_engine::Options;
use slmdb_engine::batch::Totals;
use slmdb_engine::events::{Event, Events};
use slmdb_engine::files::file_numbers::FileNumbers;
use slmdb_engine::files::table_cache::Tables;
use slmdb_engine::lock_order;
use slmdb_engine::memory::budget::Budget;
use slmdb_engine::observe::spans::timed;
use slmdb_engine::space::reserved_file::SetAside;
use slmdb_engine::stall::pacing::Pacing;
use slmdb_engine::stall::stall_stats::WaitFor;
use slmdb_engine::write::arena_kind::KindOfArena;
use slmdb_engine::write::arenas::Arenas;
use slmdb_engine::write::group_commit::GroupSync;
use slmdb_engine::write::publication::Publication;

/// An open store on medium `M`.
pub(crate) struct Store<M: Medium> {
    pub(crate) options: Options,
    pub(crate) env: Arc<dyn Env>,
    pub(crate) directory: PathBuf,
    pub(crate) uuid: [u8; 16],
    /// What table files and index checkpoints carry.
    pub(crate) files_uuid: [u8; 16],

    pub(crate) pool: Arc<Pool<M>>,
    pub(crate) tree: Tree<M>,
    pub(crate) jobs: Jobs,
    pub(crate) arenas: Arenas<M>,
    pub(crate) tables: Tables,
    pub(crate) budget: Budget,

    /// The MemTables that hold what is not in table files yet, newest first. A reader takes one list and keeps it.
    pub(crate) view: ArcSwap<View<M>>,
    pub(crate) publication: Publication,
    pub(crate) group_sync: GroupSync,
    pub(crate) kind_of_arena: KindOfArena,
    pub(crate) snapshots: Snapshots,

    pub(crate) traffic: Mutex<Traffic<M>>,
    /// Something that a writer (or a flush's caller) waits for has come: room in the queue, a spare, a failure.
    pub(crate) room: Condvar,
    /// Something that a background thread waits for has come.
    pub(crate) work: Condvar,
    /// Everything up to here is in table files, durably.
    pub(crate) flushed_through: AtomicU64,

    pub(crate) catalog: Mutex<Catalog>,
    pub(crate) file_numbers: FileNumbers,
    pub(crate) retired: Retired,
    pub(crate) compactions: Compactions,
    pub(crate) candidates: Candidates,
    /// Held from the first swing of a job until its commit, and by whoever must see the index and the MANIFEST agree. They
    /// don't where it says `true`: a job was given up in between, and the next opening carries it on.
    pub(crate) indexing: Mutex<bool>,

    pub(crate) checkpoints: Checkpoints,
    failure: OnceLock<Error>,
    closed: AtomicBool,
    pub(crate) threads: Mutex<Vec<JoinHandle<()>>>,
    pub(crate) counted: Counted,
    pub(crate) events: Events,
    pub(crate) pacing: Pacing,
    /// Disk space for the MANIFEST when there is no other.
    pub(crate) ballast: OnceLock<SetAside>,
    /// Held by whoever makes it.
    pub(crate) making_ballast: Mutex<()>,
    /// Space for the output of a compaction when there is no other.
    pub(crate) kept_back: KeptBack,
    /// The long keys in the index, flushed ones. Held by whoever changes what is set aside in the pool.
    pub(crate) indexed_keys: Mutex<KeyLengths>,
    /// How long the MANIFEST is, in bytes.
    pub(crate) manifest_bytes: AtomicU64,
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

/// The list of MemTables that readers take.
pub(crate) struct View<M: Medium> {
    pub(crate) memtables: Vec<Arc<MemTable<M>>>,
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
pub(crate) struct Parts<M: Medium> {
    pub(crate) options: Options,
    pub(crate) directory: PathBuf,
    pub(crate) pool: Arc<Pool<M>>,
    pub(crate) tree: Tree<M>,
    pub(crate) jobs: Jobs,
    pub(crate) arenas: Arenas<M>,
    pub(crate) tables: Tables,
    pub(crate) catalog: Catalog,
    pub(crate) active: Option<Filling<M>>,
    pub(crate) active_from: u64,
    /// Recovered MemTables, oldest first, each with its last sequence number.
    pub(crate) recovered: Vec<Immutable<M>>,
    pub(crate) kept_back: KeptBack,
    pub(crate) last_sequence: u64,
    pub(crate) file_bytes_written: u64,
    pub(crate) events: Events,
    pub(crate) lock: Option<Box<dyn Lock>>,
}

impl<M: Medium + Clone> Store<M> {
    /// An open store; its background threads are started by the caller.
    pub(crate) fn new(parts: Parts<M>) -> Store<M> {
        let state = parts.catalog.state();
        let active = parts.active.iter().map(|active| &active.memtable);
        let recovered = parts.recovered.iter().rev().map(|immutable| &immutable.memtable);
        let memtables = active.chain(recovered).cloned().collect();
        let totals = parts.active.iter().map(|active| &active.totals);
        let totals = totals.chain(parts.recovered.iter().map(|immutable| &immutable.totals));
        let admitted = totals.fold(Totals::default(), |sum, totals| sum.plus(totals));
        let counted = Counted::default();
        counted.file_bytes_written.store(parts.file_bytes_written, Ordering::Relaxed);
        let read_only = parts.options.read_only;
        let checkpoints = Checkpoints::new(state, parts.options.checkpoint_entries);
        Store {
            env: parts.options.env.clone(),
            budget: Budget::new(&parts.options),
            uuid: state.uuid,
            files_uuid: state.files_uuid,
            view: ArcSwap::from_pointee(View { memtables }),
            publication: Publication::new(parts.last_sequence),
            group_sync: GroupSync::new(parts.last_sequence),
            kind_of_arena: KindOfArena::new(parts.options.syncs_writes),
            snapshots: Snapshots::new(parts.options.comparator.clone()),
            flushed_through: AtomicU64::new(state.flushed_through),
            file_numbers: FileNumbers::new(state.next_file_number),
            retired: Retired::default(),
            compactions: Compactions::default(),
            candidates: Candidates::new(&parts.options, state),
            lifetime_before: state.lifetime,
            traffic: Mutex::ranked(
                lock_order::TRAFFIC,
                Traffic {
                    active: parts.active,
                    next_sequence: parts.last_sequence + 1,
                    active_from: parts.active_from,
                    spare: None,
                    spare_wanted_bytes: 0,
                    spare_waited_for: false,
                    admitted,
                    granted_in_pool: Grant { totals: admitted, memtables: parts.recovered.len() as u64 + 1 },
                    space_wanted: None,
                    immutables: parts.recovered.len(),
                    queue: if read_only { VecDeque::new() } else { parts.recovered.into() },
                    setbacks: Setbacks::default(),
                    space_returned: 0,
                    flush_setback: None,
                    last_flush_end_ns: 0,
                    closing: false,
                },
            ),
            room: Condvar::new(),
            work: Condvar::new(),
            catalog: Mutex::ranked(lock_order::CATALOG, parts.catalog),
            indexing: Mutex::ranked(lock_order::INDEXING, false),
            checkpoints,
            failure: OnceLock::new(),
            closed: AtomicBool::new(false),
            threads: Mutex::ranked(lock_order::THREADS, Vec::new()),
            counted,
            events: parts.events,
            pacing: Pacing::default(),
            ballast: OnceLock::new(),
            making_ballast: Mutex::ranked(lock_order::MAKING_BALLAST, ()),
            kept_back: parts.kept_back,
            indexed_keys: Mutex::ranked(lock_order::INDEXED_KEYS, KeyLengths::in_segments(&parts.pool)),
            manifest_bytes: AtomicU64::new(0),
            options: parts.options,
            directory: parts.directory,
            pool: parts.pool,
            tree: parts.tree,
            jobs: parts.jobs,
            arenas: parts.arenas,
            tables: parts.tables,
            _lock: parts.lock,
        }
    }

    /// Whether writes are taken; if not, why.
    pub(crate) fn check_writable(&self) -> Result<()> {
        if let Some(cause) = self.failure.get() {
            return Err(Error::ReadOnly { cause: format!("after an earlier failure: {cause}") });
        }
        if self.options.read_only {
            return Err(Error::ReadOnly { cause: "it was opened for reading alone".into() });
        }
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::ReadOnly { cause: "it was closed".into() });
        }
        Ok(())
    }

    /// Something failed that must not be tried again. Writes are refused from now on; nothing is deleted; reads go on.
    pub(crate) fn fail(&self, error: Error) {
        if self.failure.set(error.clone()).is_ok() {
            tracing::error!(%error, "the store takes no more writes");
            self.notify(|| Event::Failed { cause: error });
        }
        self.compactions.stop();
        let traffic = self.traffic.lock();
        self.room.notify_all();
        self.work.notify_all();
        drop(traffic);
    }

    /// Tells the event listener; without one nothing is made. May be called anywhere, under any lock.
    pub(crate) fn notify(&self, make: impl FnOnce() -> Event) {
        self.events.notify(make);
    }

    /// How long ago that was, on the clock of the environment.
    pub(crate) fn since(&self, then_ns: u64) -> Duration {
        Duration::from_nanos(self.env.monotonic_ns().saturating_sub(then_ns))
    }

    /// Settles how much writers are slowed. The caller holds the traffic's lock.
    pub(crate) fn set_pace(&self, traffic: &Traffic<M>) {
        self.pacing.set_flush_debt(traffic.debt(&self.options));
        self.events.paced(WaitFor::Pace, self.pacing.is_limited_by(WaitFor::Pace), || self.env.monotonic_ns());
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failure.get().is_some()
    }

    /// Waits on `condition`, giving the lock away meanwhile.
    pub(crate) fn wait<'a>(condition: &Condvar, traffic: MutexGuard<'a, Traffic<M>>) -> MutexGuard<'a, Traffic<M>> {
        condition.wait(traffic)
    }

    /// Ends the background threads and seals the store. See [`slmdb_engine::Engine::close`].
    pub(crate) fn close(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::AcqRel) || self.options.read_only {
            return Ok(());
        }
        timed(&*self.env, info_span!("close", ms = Empty), || self.seal())
    }

    /// The work of [`Store::close`].
    fn seal(&self) -> Result<()> {
        self.traffic.lock().closing = true;
        self.compactions.stop();
        self.room.notify_all();
        self.work.notify_all();
        for thread in self.threads.lock().drain(..) {
            if thread.join().is_err() {
                self.fail(Error::invalid("a background thread panicked"));
            }
        }
        if let Some(cause) = self.failure.get() {
            return Err(cause.clone());
        }
        self.checkpoint_at_close()?;
        // Writers that reserved a place before the store was closed still fill it.
        let last_sequence = self.traffic.lock().next_sequence - 1;
        self.publication.wait_for(last_sequence);
        self.sync_arenas()?;
        let (active, spare) = {
            let mut traffic = self.traffic.lock();
            (traffic.active.take(), traffic.spare.take())
        };
        self.commit(|_| Edit {
            arenas_removed: spare.iter().map(|spare| spare.memtable.generation()).collect(),
            closed_at_sequence: Some(last_sequence),
            ..Edit::default()
        })?;
        if let Some(ballast) = self.ballast.get() {
            ballast.discard(&*self.env)?;
        }
        self.kept_back.discard(&*self.env)?;
        for space in active.iter().chain(&spare).filter_map(|filling| filling.space.as_ref()) {
            space.discard(&*self.env)?;
        }
        if let Some(spare) = spare {
            self.arenas.retire(spare.memtable)?;
        }
        self.arenas.tidy(active.as_ref().map(|active| &*active.memtable))?;
        if M::PERSISTENT { self.pool.seal() } else { Ok(()) }
    }
}
