//! The MemTable preparer: makes what writers will need soon, before they need it.
//!
//! A *spare* MemTable takes an arena, whose generation must be durable in the MANIFEST before the first record (INV-3).
//! What is admitted takes space that is set aside first ([`crate::space::controller`]). Both take system calls and
//! syncs, which must not happen under a lock that writers need (INV-4). So one thread does them; writers ask for them
//! while some is left. A store at rest gives them back ([`crate::space::rest`]).
//!
//! What the process lacks for a moment, such as file descriptors, is tried again a few times. Then the waiting writers
//! get the error.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use slmdb_env::{Error, Result};
use slmdb_manifest::{ArenaRecord, Edit};
use slmdb_pmem::Medium;
use slmdb_structures::memtable::{MemTable, MemTableOptions};
use slmdb_sync::scheduled::thread;

use super::expected_prefix::expected_prefix;
use super::memtables::Filling;
use super::write_path::WritePath;
use crate::batch::Totals;
use crate::context::StoreContext;
use crate::events::SpaceFor;
use crate::files::catalog::Catalog;
use crate::space::controller::{Awaited, Shortage, SpaceController};
use crate::space::ladder::Asker;
use crate::space::reserved_file::ReservedFile;
use crate::space::rest::LONG_REST;

/// How often a lack is tried again before the waiting writers get the error, and the first pause, which doubles each
/// time: 31 ms in all.
const ATTEMPTS_MAX: u32 = 5;
const PAUSE_FIRST: Duration = Duration::from_millis(1);

/// How often it looks whether the store has come to rest, until it has.
const QUIET_LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The thread that makes spares and sets space aside.
pub struct MemTablePreparer<M: Medium> {
    context: Arc<StoreContext>,
    writes: Arc<WritePath<M>>,
    catalog: Arc<Catalog>,
    space: Arc<SpaceController<M>>,
}

/// How long nothing has been written, on the environment's clock.
struct Quiet {
    since_ns: u64,
    /// The sequence number of the next write.
    next_sequence: u64,
    /// What a store at rest does not need has been given back.
    has_given: bool,
}

impl Quiet {
    fn since(now_ns: u64, next_sequence: u64) -> Quiet {
        Quiet { since_ns: now_ns, next_sequence, has_given: false }
    }

    /// The time until the store is at rest, if nothing is written. `None`: it has given back all that it does not need
    /// then. (Under shuttle always: a thread that goes on by itself would hide that nobody woke it.)
    fn time_to_rest(&mut self, now_ns: u64, next_sequence: u64) -> Option<Duration> {
        if next_sequence != self.next_sequence {
            *self = Quiet::since(now_ns, next_sequence);
        }
        let quiet = Duration::from_nanos(now_ns.saturating_sub(self.since_ns));
        (!self.has_given && !cfg!(shuttle)).then(|| LONG_REST.saturating_sub(quiet))
    }

    /// It was tried to give that back. Without success it is tried again after as long a time.
    fn tried(&mut self, now_ns: u64, has_given: bool) {
        (self.since_ns, self.has_given) = (now_ns, has_given);
    }
}

impl<M: Medium + Clone> MemTablePreparer<M> {
    /// The preparer of a store.
    pub fn new(
        context: Arc<StoreContext>,
        writes: Arc<WritePath<M>>,
        catalog: Arc<Catalog>,
        space: Arc<SpaceController<M>>,
    ) -> MemTablePreparer<M> {
        MemTablePreparer { context, writes, catalog, space }
    }

    /// The thread's loop, until the store closes or fails.
    /// LOCKS: memtables
    pub fn run(&self) {
        match self.catalog.fill_reserve() {
            Err(error) if !error.may_be_tried_again() => return self.context.fail(error),
            _ => {}
        }
        let mut memtables = self.writes.memtables.lock();
        let mut quiet = Quiet::since(self.context.env.monotonic_ns(), memtables.next_sequence);
        loop {
            if memtables.closing || self.context.has_failed() {
                return;
            }
            let (spare_wanted_bytes, space_wanted) = (memtables.spare_wanted_bytes, memtables.space_wanted);
            let done = if spare_wanted_bytes > 0 {
                drop(memtables);
                self.patiently(|| self.provide_spare(spare_wanted_bytes))
            } else if let Some(wanted) = space_wanted {
                drop(memtables);
                self.patiently(|| self.space.provide(wanted))
            } else {
                let now_ns = self.context.env.monotonic_ns();
                match quiet.time_to_rest(now_ns, memtables.next_sequence) {
                    None => memtables = self.writes.work_to_do.wait(memtables),
                    Some(Duration::ZERO) => {
                        drop(memtables);
                        let given = self.space.give_back_at_rest();
                        quiet.tried(now_ns, matches!(given, Ok(true)));
                        match given {
                            Err(error) if !error.may_be_tried_again() => return self.context.fail(error),
                            _ => memtables = self.writes.memtables.lock(),
                        }
                    }
                    Some(left) => {
                        let look_again = left.min(QUIET_LOOK_AGAIN);
                        memtables = self.writes.work_to_do.wait_timeout(memtables, look_again);
                    }
                }
                continue;
            };
            match done {
                Ok(()) => {}
                Err(lack) if lack.is_passing_lack() => self.report_lack(lack),
                Err(error) => return self.context.fail(error),
            }
            memtables = self.writes.memtables.lock();
        }
    }

    /// Makes a spare with at least this capacity, or reports that there was no space for it. After
    /// [`Awaited::TryAgain`] it returns with the request still open, so the loop comes back.
    /// LOCKS: memtables, and those of [`SpaceController::await_space`]
    fn provide_spare(&self, capacity_bytes: u64) -> Result<()> {
        // 1. What there is: a spare that fits, one that is too small, or none.
        let (has_spare, too_small, returned) = {
            let mut memtables = self.writes.memtables.lock();
            let is_too_small = |spare: &mut Filling<M>| spare.memtable.capacity_bytes() < capacity_bytes;
            let too_small = memtables.spare.take_if(is_too_small);
            (memtables.spare.is_some(), too_small, self.space.returned(&memtables))
        };
        // 2. Make one, if need be. `full`: why there is none of this capacity.
        let usual_bytes = self.context.options.memtable_bytes;
        let (spare, full) = if has_spare {
            (None, None)
        } else {
            match self.make_spare(capacity_bytes, too_small.as_ref().map(|spare| &*spare.memtable)) {
                Ok(spare) => {
                    // The MANIFEST gave up the spare that was too small, together with the record of the new one.
                    if let Some(Filling { memtable, space, .. }) = too_small {
                        space.map_or(Ok(()), |space| space.discard(&*self.context.env))?;
                        self.writes.arenas.retire(memtable)?;
                    }
                    (Some(spare), None)
                }
                // Other writers may wait for a usual one.
                Err(cause @ Error::Full { .. }) if too_small.is_none() && capacity_bytes > usual_bytes => {
                    match self.make_spare(usual_bytes, None) {
                        Ok(spare) => (Some(spare), Some(cause)),
                        Err(Error::Full { .. }) => (None, Some(cause)),
                        Err(error) => return Err(error),
                    }
                }
                Err(cause @ Error::Full { .. }) => (too_small, Some(cause)),
                Err(error) => {
                    self.writes.memtables.lock().spare = too_small;
                    return Err(error);
                }
            }
        };
        let readers_hold_space = full.as_ref().map_or(Ok(false), |cause| self.space.readers_hold(cause))?;
        let mut memtables = self.writes.memtables.lock();
        // 3. Hand it over.
        if let Some(spare) = spare {
            memtables.spare = Some(spare);
            self.context.events.space_found(SpaceFor::MemTable);
        }
        // 4. No space: see what the ladder can do for the writers that wait.
        let somebody_waits = memtables.spare_waited_for;
        if let (Some(cause), true) = (full, somebody_waits) {
            // A flush gives an arena back. That will do unless the record is longer than most arenas.
            let usual = capacity_bytes <= usual_bytes;
            let worth_flushing = usual && memtables.active.as_ref().is_some_and(|active| active.totals.entries > 0);
            let shortage = Shortage { full: &cause, returned, readers_hold_space };
            match self.space.await_space(memtables, Asker::MemTable, &shortage, (worth_flushing, false)) {
                Awaited::Refused(still) => memtables = still,
                _ => return Ok(()),
            }
            self.context.events.space_refused(SpaceFor::MemTable, &cause);
            memtables.space_errors.record_memtable(capacity_bytes, cause);
        }
        // 5. Answered, with a spare or an error.
        memtables.spare_wanted_bytes = 0;
        memtables.spare_waited_for = false;
        self.writes.work_done.notify_all();
        Ok(())
    }

    /// Makes a MemTable whose generation is durable in the MANIFEST, whose record gives up `instead_of`. After an error
    /// that may be tried again nothing has changed.
    ///
    /// On `Dram` its header is not synced. A recycled file is full of dirty pages, which a sync would write for nothing
    /// (80 % more device writes in a random fill), and a replay can do without the header.
    /// LOCKS: reserve; catalog
    fn make_spare(&self, capacity_bytes: u64, instead_of: Option<&MemTable<M>>) -> Result<Filling<M>> {
        self.catalog.reserve.check_not_taken(capacity_bytes)?;
        // What lacks of the reserve comes first: no arena leads out of a full disk.
        match self.catalog.fill_reserve() {
            Err(error) if !error.may_be_tried_again() => return Err(error),
            _ => {}
        }
        let generation = self.catalog.lock().state().next_generation;
        let bytes_put = self.context.counted.user_bytes_put.load(Ordering::Relaxed);
        let kind = self.writes.kind_of_arena.next(bytes_put, self.context.options.memtable_bytes);
        let arena = self.writes.arenas.make(generation, capacity_bytes, kind)?;
        let memtable = MemTable::create(arena, generation, self.context.uuid, &self.memtable_options());
        let length_bytes = memtable.capacity_bytes();
        let edit = Edit {
            arenas_added: vec![(generation, ArenaRecord { sealed_last_sequence: None, length_bytes })],
            arenas_removed: instead_of.iter().map(|memtable| memtable.generation()).collect(),
            next_generation: Some(generation + 1),
            ..Edit::default()
        };
        match self.catalog.commit(|_| edit) {
            Ok(()) => {
                let space = self.first_space(generation, length_bytes)?;
                Ok(Filling::new(memtable, Totals::default(), space))
            }
            Err(cause) if cause.may_be_tried_again() && !self.context.has_failed() => {
                // The next attempt has the same generation, and recovery must not find two arenas of it.
                drop(memtable);
                self.writes.arenas.discard(generation)?;
                Err(cause)
            }
            Err(error) => Err(error),
        }
    }

    /// What the next MemTable is made with.
    /// LOCKS: catalog
    fn memtable_options(&self) -> MemTableOptions {
        let view = self.writes.view.load_full();
        let expected_prefix = expected_prefix(&view.memtables, &self.catalog.lock().state().files);
        MemTableOptions { expected_prefix, ..self.context.options.memtable(self.writes.arenas.are_in_pool()) }
    }

    /// Sets disk space aside for what usually goes into a MemTable, if there is as much. Without it, admission asks for
    /// space once a write needs it.
    fn first_space(&self, generation: u64, arena_bytes: u64) -> Result<Option<Arc<ReservedFile>>> {
        let space_bytes = arena_bytes + arena_bytes / 8;
        match self.space.fill_reserve_for(space_bytes, 0) {
            Ok(_) => ReservedFile::if_there_is(&*self.context.env, &self.context.directory, generation, space_bytes),
            Err(Error::Full { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Tries an attempt that lacks something a few times more.
    /// LOCKS: none may be held
    fn patiently<T>(&self, attempt: impl Fn() -> Result<T>) -> Result<T> {
        for number in 0..ATTEMPTS_MAX {
            match attempt() {
                Err(lack) if lack.is_passing_lack() && !self.writes.gives_up() => {
                    tracing::warn!(%lack, "trying again soon");
                    thread::sleep(PAUSE_FIRST * 2_u32.pow(number));
                }
                done => return done,
            }
        }
        attempt()
    }

    /// Gives this error to the waiting writers, and drops their requests.
    /// LOCKS: memtables
    fn report_lack(&self, lack: Error) {
        let mut memtables = self.writes.memtables.lock();
        tracing::warn!(%lack, "writers that wait get this error");
        memtables.space_errors.record_lack(lack);
        memtables.spare_wanted_bytes = 0;
        memtables.spare_waited_for = false;
        memtables.space_wanted = None;
        self.writes.work_done.notify_all();
    }
}
