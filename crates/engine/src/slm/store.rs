//! What an open SLM-DB store is made of, and how it is closed.
//!
//! Data goes one way: a write fills a place in the active MemTable ([`super::write`]); a full MemTable becomes an
//! Immutable MemTable and waits in the queue; the file thread writes it to a table file; the index thread swings the
//! index's words to it and commits ([`super::flush`]); then the MemTable is retired. Readers ([`super::read`]) look in the
//! same order: MemTables, newest first, then the index, then one block.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use slmdb_env::{Env, Error, Lock, Result};
use slmdb_manifest::{Counters, Edit, Manifest, MediumKind, StoreState};
use slmdb_pmem::{ExtentKind, FlushCounters, Medium, Pool};
use slmdb_structures::fast_fair::{KeyLengths, Tree};
use slmdb_structures::memtable::MemTable;
use tracing::field::Empty;
use tracing::info_span;

use super::admission::{Grant, Wanted};
use super::arenas::Arenas;
use super::checkpoint::Checkpoints;
use super::compaction::Compactions;
use super::file_numbers::FileNumbers;
use super::group_sync::GroupSync;
use super::job::Jobs;
use super::locked;
use super::memory::Budget;
use super::pacing::Pacing;
use super::picker::candidates::Candidates;
use super::publication::Publication;
use super::retired::Retired;
use super::set_aside::SetAside;
use super::setbacks::Setbacks;
use super::snapshots::Snapshots;
use super::tables::Tables;
use super::trace::timed;
use super::waits::{WaitFor, Waits};
use crate::batch::Totals;
use crate::events::{Event, Events, SpaceFor};
use crate::{FORMAT_VERSION, Options, Stats, TableFile};

/// How long a flush waits before it tries a full disk again: at first, and at most. (It doubles each time.)
const FULL_DISK_RETRY_FIRST: Duration = Duration::from_millis(1);
const FULL_DISK_RETRY_MAX: Duration = Duration::from_millis(200);

/// For so many bytes of `memtable_bytes` a MemTable takes an entry, at most.
const BYTES_PER_ENTRY_MIN: u64 = 64;

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
    pub(super) candidates: Candidates,
    /// Held from the first swing of a flush until its commit, and by whoever must see the index and the MANIFEST agree.
    pub(crate) indexing: Mutex<()>,

    pub(crate) checkpoints: Checkpoints,
    failure: OnceLock<Error>,
    closed: AtomicBool,
    pub(crate) threads: Mutex<Vec<JoinHandle<()>>>,
    pub(crate) counted: Counted,
    pub(crate) events: Events,
    pub(crate) pacing: Pacing,
    /// Disk space for the MANIFEST when there is no other.
    pub(crate) ballast: OnceLock<SetAside>,
    /// The long keys in the index, flushed ones. Held by whoever changes what is set aside in the pool.
    pub(crate) indexed_keys: Mutex<KeyLengths>,
    /// How long the MANIFEST is, in bytes.
    pub(crate) manifest_bytes: AtomicU64,
    pub(crate) lifetime_before: Counters,
    /// Released when the last cursor and the last handle are gone.
    pub(crate) _lock: Option<Box<dyn Lock>>,
}

/// The list of MemTables that readers take.
pub(crate) struct View<M: Medium> {
    pub(crate) memtables: Vec<Arc<MemTable<M>>>,
}

/// What writers and background threads share.
pub(crate) struct Traffic<M: Medium> {
    /// The MemTable that takes writes; `None` when the store is read-only, or was opened with no space for one.
    pub(crate) active: Option<Filling<M>>,
    pub(crate) next_sequence: u64,
    /// The first sequence number that the active MemTable has or would get.
    pub(crate) active_from: u64,
    /// A MemTable made ahead, so that no writer waits for the directory and the MANIFEST to be synced.
    pub(crate) spare: Option<Filling<M>>,
    /// Capacity that the next spare must have; 0: none is wanted.
    pub(crate) spare_wanted_bytes: u64,
    /// Whether somebody waits for the spare.
    pub(crate) spare_waited_for: bool,
    /// What was admitted and is not flushed yet, all MemTables together.
    pub(crate) admitted: Totals,
    /// What may be admitted, all MemTables together, as far as the pool is concerned.
    pub(crate) granted_in_pool: Grant,
    /// Set while more space is to be set aside.
    pub(crate) space_wanted: Option<Wanted>,
    /// Immutable MemTables that the file thread has not taken yet, oldest first.
    pub(crate) queue: VecDeque<Immutable<M>>,
    /// Immutable MemTables that are not retired yet.
    pub(crate) immutables: usize,
    /// What the full disk, or pool, has refused. Who waits for that gives up.
    pub(crate) setbacks: Setbacks,
    /// How many flushes have given back what they took: a reason to look for space again.
    pub(crate) flushes_ended: u64,
    /// What a flush waits for now, if it does.
    pub(crate) flush_setback: Option<Error>,
    /// When the last flush ended, on the clock of the environment.
    pub(crate) last_flush_end_ns: u64,
    pub(crate) closing: bool,
}

impl<M: Medium> Traffic<M> {
    /// How far flushes have fallen behind; see [`super::pacing`].
    pub(crate) fn debt(&self, options: &Options) -> f64 {
        let part = |active: &Filling<M>| active.memtable.used_bytes() as f64 / active.memtable.capacity_bytes() as f64;
        let waiting = self.immutables as f64 - 1.0 + self.active.as_ref().map_or(0.0, part);
        waiting / options.immutable_memtables_max as f64
    }
}

/// A MemTable that takes writes, or will, with what its flush will need.
pub(crate) struct Filling<M: Medium> {
    pub(crate) memtable: Arc<MemTable<M>>,
    /// What has been admitted to it.
    pub(crate) totals: Totals,
    /// Disk space set aside for its table file.
    pub(crate) space: Option<Arc<SetAside>>,
}

impl<M: Medium> Filling<M> {
    /// What is left of its arena, in bytes.
    pub(crate) fn room_bytes(&self) -> u64 {
        self.memtable.capacity_bytes().saturating_sub(self.memtable.used_bytes())
    }

    /// Whether it takes so many entries more, its arena aside: as many as single puts could fill an arena of the usual size
    /// with. (Batches of tiny entries are many times as dense. Their list would take more memory than the arena, and
    /// rebuilding it seconds.) A batch of more gets a MemTable to itself.
    pub(crate) fn takes_entries(&self, more: u64, usual_bytes: u64) -> bool {
        self.totals.entries == 0 || self.totals.entries + more <= usual_bytes / BYTES_PER_ENTRY_MIN
    }

    /// Disk space set aside for its table file, in bytes.
    pub(crate) fn space_bytes(&self) -> u64 {
        self.space.as_ref().map_or(0, |space| space.length_bytes())
    }
}

/// A MemTable that takes no more writes.
pub(crate) struct Immutable<M: Medium> {
    pub(crate) memtable: Arc<MemTable<M>>,
    /// The last sequence number handed out for it.
    pub(crate) last_sequence: u64,
    /// What has been admitted to it.
    pub(crate) totals: Totals,
    /// Disk space set aside for its table file.
    pub(crate) space: Option<Arc<SetAside>>,
}

impl<M: Medium> Immutable<M> {
    /// What was filled up to `last_sequence`.
    pub(crate) fn new(full: Filling<M>, last_sequence: u64) -> Immutable<M> {
        let Filling { memtable, totals, space } = full;
        Immutable { memtable, last_sequence, totals, space }
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

/// Counters since the store was opened.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    pub(crate) user_bytes_put: AtomicU64,
    pub(crate) file_bytes_written: AtomicU64,
    pub(crate) flushes: AtomicU64,
    pub(crate) compactions: AtomicU64,
    pub(crate) compaction_bytes_read: AtomicU64,
    pub(crate) compaction_bytes_written: AtomicU64,
    pub(crate) waits: Waits,
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
            snapshots: Snapshots::new(parts.options.comparator.clone()),
            flushed_through: AtomicU64::new(state.flushed_through),
            file_numbers: FileNumbers::new(state.next_file_number),
            retired: Retired::default(),
            compactions: Compactions::default(),
            candidates: Candidates::new(&parts.options, state),
            lifetime_before: state.lifetime,
            traffic: Mutex::new(Traffic {
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
                flushes_ended: 0,
                flush_setback: None,
                last_flush_end_ns: 0,
                closing: false,
            }),
            room: Condvar::new(),
            work: Condvar::new(),
            catalog: Mutex::new(parts.catalog),
            indexing: Mutex::new(()),
            checkpoints,
            failure: OnceLock::new(),
            closed: AtomicBool::new(false),
            threads: Mutex::new(Vec::new()),
            counted,
            events: parts.events,
            pacing: Pacing::default(),
            ballast: OnceLock::new(),
            indexed_keys: Mutex::new(KeyLengths::in_segments(&parts.pool)),
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
        let traffic = locked(&self.traffic);
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
        condition.wait(traffic).unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends to the MANIFEST. [`Error::Full`]: nothing has happened, and it may be tried again; any other failure stops
    /// all writing.
    pub(crate) fn commit(&self, make: impl FnOnce(&StoreState) -> Edit) -> Result<()> {
        let mut catalog = locked(&self.catalog);
        let Catalog::Manifest(manifest) = &mut *catalog else {
            return Err(Error::ReadOnly { cause: "it was opened for reading alone".into() });
        };
        let mut edit = make(manifest.state());
        let before = manifest.length_bytes();
        edit.lifetime = Some(self.lifetime());
        self.candidates.before_commit(manifest.state(), &mut edit, self.checkpoints.deletes_droppable_through());
        let mut appended = manifest.append(&edit);
        while matches!(appended, Err(Error::Full { .. })) && self.lower_ballast()? {
            appended = manifest.append(&edit);
        }
        self.candidates.after_commit(&edit, appended.is_ok());
        self.counted.file_bytes_written.fetch_add(manifest.length_bytes().saturating_sub(before), Ordering::Relaxed);
        self.manifest_bytes.store(manifest.length_bytes(), Ordering::Relaxed);
        let may_be_tried_again = matches!(appended, Err(Error::Full { .. })) && manifest.check_writable().is_ok();
        drop(catalog);
        if let (Err(error), false) = (&appended, may_be_tried_again) {
            self.fail(error.clone());
        }
        appended
    }

    /// A step of a background job that may find the disk or the pool full, and has then done nothing that could not be done
    /// again: tried until there is space, or the store closes or has failed. Those who wait for the job are told.
    pub(crate) fn when_there_is_space<T>(&self, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
        let mut was_set_back = false;
        let mut pause = FULL_DISK_RETRY_FIRST;
        loop {
            let cause = match attempt() {
                Err(cause @ Error::Full { .. }) => cause,
                done => {
                    if was_set_back {
                        locked(&self.traffic).flush_setback = None;
                        self.events.space_found(SpaceFor::Job);
                    }
                    return done;
                }
            };
            was_set_back = true;
            tracing::warn!(%cause, "a flush waits for space");
            let mut traffic = locked(&self.traffic);
            traffic.setbacks.of_flush(cause.clone());
            self.events.space_refused(SpaceFor::Job, &cause);
            traffic.flush_setback = Some(cause.clone());
            self.room.notify_all();
            self.work.notify_all();
            // Not at every word: two jobs that wait would wake each other without end.
            let (since, flushes_ended) = (Instant::now(), traffic.flushes_ended);
            while !traffic.closing && !self.has_failed() && traffic.flushes_ended == flushes_ended {
                let Some(left) = pause.checked_sub(since.elapsed()) else { break };
                let waited = self.work.wait_timeout(traffic, left);
                traffic = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            if traffic.closing || self.has_failed() {
                return Err(cause);
            }
            pause = (2 * pause).min(FULL_DISK_RETRY_MAX);
        }
    }

    /// Ends the background threads and seals the store. See [`crate::Engine::close`].
    pub(crate) fn close(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::AcqRel) || self.options.read_only {
            return Ok(());
        }
        timed(&*self.env, info_span!("close", ms = Empty), || self.seal())
    }

    /// The work of [`Store::close`].
    fn seal(&self) -> Result<()> {
        locked(&self.traffic).closing = true;
        self.compactions.stop();
        self.room.notify_all();
        self.work.notify_all();
        for thread in locked(&self.threads).drain(..) {
            if thread.join().is_err() {
                self.fail(Error::invalid("a background thread panicked"));
            }
        }
        if let Some(cause) = self.failure.get() {
            return Err(cause.clone());
        }
        self.checkpoint_at_close()?;
        // Writers that reserved a place before the store was closed still fill it.
        let last_sequence = locked(&self.traffic).next_sequence - 1;
        self.publication.wait_for(last_sequence);
        self.sync_arenas()?;
        let (active, spare) = {
            let mut traffic = locked(&self.traffic);
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
        for space in active.iter().chain(&spare).filter_map(|filling| filling.space.as_ref()) {
            space.discard(&*self.env)?;
        }
        if let Some(spare) = spare {
            self.arenas.retire(spare.memtable)?;
        }
        self.arenas.tidy(active.as_ref().map(|active| &*active.memtable))?;
        if M::PERSISTENT { self.pool.seal() } else { Ok(()) }
    }

    /// Counters since the store was opened.
    fn since_open(&self) -> Counters {
        let FlushCounters { persists, lines_flushed, media_bytes, bytes_asked } = self.pool.medium().counters();
        Counters {
            user_bytes_put: self.counted.user_bytes_put.load(Ordering::Relaxed),
            file_bytes_written: self.counted.file_bytes_written.load(Ordering::Relaxed),
            persists,
            lines_flushed,
            media_bytes,
            fast_tier_bytes_asked: bytes_asked,
            flushes: self.counted.flushes.load(Ordering::Relaxed),
            compactions: self.counted.compactions.load(Ordering::Relaxed),
            compaction_bytes_read: self.counted.compaction_bytes_read.load(Ordering::Relaxed),
            compaction_bytes_written: self.counted.compaction_bytes_written.load(Ordering::Relaxed),
            delay_us: self.counted.waits.total_ns() / 1000,
        }
    }

    /// Counters since the store was made.
    fn lifetime(&self) -> Counters {
        self.lifetime_before.plus(&self.since_open())
    }

    /// See [`crate::Engine::table_files`].
    pub(crate) fn table_files(&self) -> Vec<TableFile> {
        let catalog = locked(&self.catalog);
        let files = catalog.state().files.iter().map(|(&number, file)| TableFile {
            number,
            bytes: file.length_bytes,
            entries: file.entries,
            live: file.live,
            deletes: file.deletes,
            smallest_key: file.smallest_key.clone(),
            largest_key: file.largest_key.clone(),
            lowest_sequence: file.lowest_sequence,
            highest_sequence: file.highest_sequence,
            created_unix_ns: file.created_unix_ns,
        });
        files.collect()
    }

    /// See [`crate::Engine::stats`].
    pub(crate) fn stats(&self) -> Stats {
        let view = self.view.load_full();
        let (medium, index_keys, table_bytes, live_bytes, table_files) = {
            let catalog = locked(&self.catalog);
            let medium = match catalog.state().medium.kind {
                MediumKind::Dram => "dram",
                MediumKind::Emulated => "emulated",
                MediumKind::Dax => "dax",
            };
            let files = &catalog.state().files;
            let live: u64 = files.values().map(|file| file.live).sum();
            let bytes: u64 = files.values().map(|file| file.length_bytes).sum();
            let share = |file: &slmdb_manifest::FileRecord| {
                (u128::from(file.length_bytes) * u128::from(file.live) / u128::from(file.entries.max(1))) as u64
            };
            (medium, live, bytes, files.values().map(share).sum::<u64>(), files.len() as u64)
        };
        let extents = self.pool.extents();
        let taken_by =
            |kind| extents.iter().filter(|extent| extent.kind == kind).map(|extent| extent.length_bytes).sum::<u64>();
        let (node_bytes, key_segment_bytes) = (taken_by(ExtentKind::Blocks), taken_by(ExtentKind::KeySegment));
        let memtable_bytes = view.memtables.iter().map(|m| m.used_bytes()).sum();
        let memory = self.memory();
        let kept = self.snapshots.kept();
        let since_open = self.since_open();
        let (immutable_memtables, flush_waits_for) = {
            let traffic = locked(&self.traffic);
            (traffic.immutables as u64, traffic.flush_setback.as_ref().map(|cause| cause.to_string()))
        };
        Stats {
            format_version: FORMAT_VERSION,
            medium,
            index_keys,
            memtable_entries: view.memtables.iter().map(|m| m.entries()).sum(),
            memtable_bytes,
            immutable_memtables,
            table_files,
            table_bytes,
            live_bytes,
            fast_tier_bytes: self.pool.used_bytes(),
            fast_tier_node_bytes: node_bytes,
            fast_tier_key_segment_bytes: key_segment_bytes,
            fast_tier_index_bytes_per_key: match index_keys {
                0 => 0.0,
                keys => (node_bytes + key_segment_bytes) as f64 / keys as f64,
            },
            // A tree whose root can't be read is for `verify` to report.
            index_height: self.tree.height().unwrap_or(0),
            memory_budget_bytes: self.options.memory_budget_bytes,
            memory_bytes: memory.total_bytes(),
            memory,
            last_sequence_number: self.publication.published(),
            replaced_records_kept: kept.records,
            replaced_records_bytes: kept.bytes,
            open_cursors: kept.cursors,
            open_snapshots: kept.snapshots,
            waits: self.counted.waits.told(),
            flush_waits_for,
            choices: self.candidates.choices(),
            since_open,
            lifetime: self.lifetime(),
        }
    }
}
