//! The MemTable preparer: makes what writers will need soon, before they need it.
//!
//! A *spare* MemTable takes an arena, whose generation must be durable in the MANIFEST before the first record (INV-3), and
//! the space for its flush ([`crate::space::controller`]). Both take system calls and syncs, which must not happen under a lock
//! that writers need (INV-4). So they are background work; writers ask for a spare when the active MemTable is half full. A store at
//! rest gives it back ([`crate::space::rest`]).
//!
//! Where there is no space for one that somebody waits for, the [ladder](crate::space::ladder) decides.
//!
//! What the process lacks for a moment, such as file descriptors, is tried again a few times. Then the waiting writers
//! get the error.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use slmdb_env::{Error, Result};
use slmdb_manifest::{ArenaRecord, Edit};
use slmdb_pmem::AnyMedium;
use slmdb_structures::memtable::{MemTable, MemTableOptions};
use slmdb_sync::scheduled::thread;

use super::expected_prefix::expected_prefix;
use super::memtables::{Filling, Wanted};
use super::write_path::WritePath;
use crate::background::crew::Next;
use crate::batch::Totals;
use crate::context::StoreContext;
use crate::events::SpaceFor;
use crate::files::catalog::Catalog;
use crate::space::allowance::{Request, at_least, expected, kept_for_deletes, smaller};
use crate::space::controller::{Awaited, Shortage, SpaceController, TakenFrom};
use crate::space::reserved_file::ReservedFile;
use crate::space::rest::LONG_REST;

/// How often a lack is tried again before the waiting writers get the error, and the first pause, which doubles each
/// time: 31 ms in all.
const ATTEMPTS_MAX: u32 = 5;
const PAUSE_FIRST: Duration = Duration::from_millis(1);

/// For a put, a MemTable of deletes in the reserve is flushed early only if at least this part of it is used.
const WORTH_FLUSHING_PART: f64 = 1.0 / 8.0;

/// How often it looks whether the store has come to rest, until it has.
const QUIET_LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Makes MemTables.
pub struct MemTablePreparer {
    context: Arc<StoreContext>,
    writes: Arc<WritePath>,
    catalog: Arc<Catalog>,
    space: Arc<SpaceController>,
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

/// `None` after an error after which it may be tried again.
fn may_be_tried_again<T>(done: Result<T>) -> Result<Option<T>> {
    match done {
        Err(error) if error.may_be_tried_again() => Ok(None),
        done => done.map(Some),
    }
}

impl MemTablePreparer {
    /// The preparer of a store.
    pub fn new(
        context: Arc<StoreContext>,
        writes: Arc<WritePath>,
        catalog: Arc<Catalog>,
        space: Arc<SpaceController>,
    ) -> MemTablePreparer {
        MemTablePreparer { context, writes, catalog, space }
    }

    /// Its steps, until the store closes or fails.
    pub fn steps(self) -> impl FnMut() -> Next + Send + 'static {
        let mut quiet = None;
        move || {
            self.step(&mut quiet).unwrap_or_else(|error| {
                self.context.fail(error);
                Next::End
            })
        }
    }

    /// Makes what is wanted. In a store at rest, gives back what was made ahead. `quiet`: since when it may be at rest, from the second
    /// step on.
    /// LOCKS: memtables; those of [`MemTablePreparer::provide`] and of [`SpaceController::give_back_at_rest`]
    fn step(&self, quiet: &mut Option<Quiet>) -> Result<Next> {
        if quiet.is_none() {
            may_be_tried_again(self.catalog.fill_reserve())?;
        }
        let memtables = self.writes.memtables.lock();
        if memtables.closing || self.context.has_failed() {
            return Ok(Next::End);
        }
        if let Some(wanted) = memtables.wanted {
            drop(memtables);
            match self.patiently(|| self.provide(wanted)) {
                Err(lack) if lack.is_passing_lack() => self.report_lack(lack),
                provided => provided?,
            }
            return Ok(Next::Go);
        }
        let now_ns = self.context.env.monotonic_ns();
        let quiet = quiet.get_or_insert_with(|| Quiet::since(now_ns, memtables.next_sequence));
        match quiet.time_to_rest(now_ns, memtables.next_sequence) {
            Some(Duration::ZERO) => {
                drop(memtables);
                let has_given = may_be_tried_again(self.space.give_back_at_rest())?;
                quiet.tried(now_ns, has_given == Some(true));
                Ok(Next::Go)
            }
            left => Ok(Next::Wait(left.map(|left| left.min(QUIET_LOOK_AGAIN)))),
        }
    }

    /// Makes what is wanted, or reports that there is no space for it. After [`Awaited::TryAgain`] it returns with the request
    /// still open, so the loop comes back.
    /// LOCKS: memtables, and those of [`SpaceController::await_space`]
    fn provide(&self, wanted: Wanted) -> Result<()> {
        let Wanted { request, is_waited_for } = wanted;
        // Read before the space is asked for, so that what comes back meanwhile is noticed.
        let returned = self.space.returned(&self.writes.memtables.lock());
        self.catalog.reserve.expect_usual_files();
        let expected = expected(self.writes.arenas.usual_bytes(), &self.writes.memtables.lock().last_taken());
        let mut full = match self.provide_one(TakenFrom::FreeSpace, &expected, &request) {
            Err(full @ Error::Full { .. }) => full,
            done => return done.map(|()| self.answer()),
        };
        let readers_hold_space = self.space.readers_hold(&full)?;
        let mut memtables = self.writes.memtables.lock();
        if memtables.wanted != Some(wanted) {
            // A writer waits for something else by now.
            return Ok(());
        }
        if !is_waited_for {
            memtables.wanted = None;
            return Ok(());
        }
        if !std::mem::replace(&mut memtables.is_short_of_space, true) {
            self.writes.work_done.notify_all();
        }
        let is_for_deletes = request.totals.are_deletes();
        // Its flush turns what was set aside at worst into what it takes. (Few deletes in what is reserved for them are left to become
        // more: a table file for each would take more than it gives. Who deletes has them flushed: then there is garbage.)
        let is_worth_flushing = memtables.active.as_ref().is_some_and(|active| {
            let is_asked_for = is_for_deletes || request.totals.entries == 0;
            let is_worth_it = !active.is_for_deletes || is_asked_for || active.filled_part() >= WORTH_FLUSHING_PART;
            active.totals.entries > 0 && is_worth_it
        });
        let shortage = Shortage { full: &full, returned, readers_hold_space, is_for_deletes };
        let mut memtables = match self.space.await_space(memtables, &shortage, is_worth_flushing) {
            Awaited::TryAgain => return Ok(()),
            Awaited::MakeDo => {
                let lack = match self.make_do(&request, &expected) {
                    Err(lack @ Error::Full { .. }) => lack,
                    done => return done.map(|()| self.answer()),
                };
                if self.space.are_alike(&lack, &full) {
                    self.writes.memtables.lock()
                } else {
                    // Nothing brings what the usual one lacks, but something may bring what the smallest one does.
                    full = lack;
                    let readers_hold_space = self.space.readers_hold(&full)?;
                    let shortage = Shortage { full: &full, returned, readers_hold_space, is_for_deletes };
                    match self.space.await_space(self.writes.memtables.lock(), &shortage, false) {
                        Awaited::TryAgain => return Ok(()),
                        Awaited::MakeDo => self.writes.memtables.lock(),
                        Awaited::Refused(memtables) => memtables,
                    }
                }
            }
            Awaited::Refused(memtables) => memtables,
        };
        // If a flush waits for space, what it lacks stands in the way.
        full = memtables.blocked_flush.clone().unwrap_or(full);
        self.context.events.space_refused(SpaceFor::Write, &full);
        memtables.space_errors.record_memtable(request, full);
        memtables.wanted = None;
        self.writes.work_done.notify_all();
        Ok(())
    }

    /// Sees to it that there is a smaller MemTable for a request; for deletes from what is reserved for them, if need be.
    /// [`Error::Full`]: what even the smallest one lacks.
    /// LOCKS: those of [`MemTablePreparer::provide_one`]
    fn make_do(&self, request: &Request, expected: &Totals) -> Result<()> {
        let less = smaller(expected).map(|less| (TakenFrom::FreeSpace, less));
        let for_deletes = kept_for_deletes(&self.context.options);
        let reserved = request.totals.are_deletes().then_some((TakenFrom::Reserve, for_deletes));
        let mut provided = Ok(());
        for (from, allowance) in less.chain(reserved) {
            provided = self.provide_one(from, &allowance, request);
            if !matches!(provided, Err(Error::Full { .. })) {
                break;
            }
        }
        provided
    }

    /// Lets waiting writers look again: a MemTable is there.
    /// LOCKS: memtables
    fn answer(&self) {
        let mut memtables = self.writes.memtables.lock();
        memtables.wanted = None;
        memtables.is_short_of_space = false;
        self.context.events.space_found(SpaceFor::Write);
        self.writes.work_done.notify_all();
    }

    /// Sees to it that there is a MemTable for a request which may take so much: the spare, or the active one if nothing was
    /// written to it since the opening, or nothing at all. [`Error::Full`]: there is no space for it.
    /// LOCKS: memtables; those of [`SpaceController::grant`]; catalog; arenas
    fn provide_one(&self, from: TakenFrom, allowance: &Totals, request: &Request) -> Result<()> {
        let (has_spare, grants_active) = {
            let memtables = self.writes.memtables.lock();
            let is_new = |active: &Filling| {
                let left_bytes = active.memtable.capacity_bytes() - active.memtable.used_bytes();
                let is_unused = !active.is_granted || active.totals.entries == 0;
                is_unused && request.totals.entries > 0 && left_bytes >= request.arena_bytes
            };
            let has_spare = memtables.spare.as_ref().is_some_and(|spare| spare.does_for(request));
            (has_spare, memtables.active.as_ref().is_some_and(is_new))
        };
        if has_spare {
            return Ok(());
        }
        // One that does not do takes the space.
        self.space.give_back_spare()?;
        let allowance = at_least(allowance, request);
        match grants_active {
            true => self.grant_active(&allowance, from),
            false => self.make_spare(&allowance, request.arena_bytes, from),
        }
    }

    /// Lets the active MemTable take so much more. REQUIRES: there is no spare, so it stays the active one.
    /// LOCKS: memtables; those of [`SpaceController::grant`]
    fn grant_active(&self, more: &Totals, from: TakenFrom) -> Result<()> {
        let (generation, totals, space) = match &self.writes.memtables.lock().active {
            Some(active) => (active.memtable.generation(), active.totals, active.space.clone()),
            None => return Ok(()),
        };
        let allowance = totals.plus(more);
        let space = match space {
            Some(space) => Some(space),
            None => self.begin_space(generation, &allowance)?,
        };
        self.space.grant(generation, &allowance, from, space.as_deref())?;
        if let Some(active) = &mut self.writes.memtables.lock().active {
            active.allow(more);
            active.space = space;
            active.is_for_deletes = from == TakenFrom::Reserve;
        }
        Ok(())
    }

    /// Makes a spare that may take so much. After an error that may be tried again nothing has changed.
    /// LOCKS: memtables; those of [`SpaceController::grant`]; reserve; catalog; arenas
    fn make_spare(&self, allowance: &Totals, arena_bytes: u64, from: TakenFrom) -> Result<()> {
        let capacity_bytes = arena_bytes.max(self.context.options.memtable_bytes);
        self.catalog.reserve.check_not_taken(capacity_bytes)?;
        let generation = self.catalog.lock().state().next_generation;
        let space = self.begin_space(generation, allowance)?;
        let granted = self.space.grant(generation, allowance, from, space.as_deref());
        match granted.and_then(|()| self.make_memtable(generation, capacity_bytes)) {
            Ok(memtable) => {
                let mut spare = Filling::new(memtable, Totals::default(), space);
                spare.allow(allowance);
                spare.is_for_deletes = from == TakenFrom::Reserve;
                self.writes.memtables.lock().spare = Some(spare);
                Ok(())
            }
            Err(error) => {
                if error.may_be_tried_again() && !self.context.has_failed() {
                    self.space.change_grant(generation, None)?;
                    space.map_or(Ok(()), |space| space.discard(&*self.context.env))?;
                }
                Err(error)
            }
        }
    }

    /// Begins to set aside disk space for the table file of a MemTable, if it gets one.
    fn begin_space(&self, generation: u64, allowance: &Totals) -> Result<Option<Arc<ReservedFile>>> {
        if self.space.file_bytes(allowance) == 0 {
            return Ok(None);
        }
        ReservedFile::new(&*self.context.env, &self.context.directory, generation).map(|space| Some(Arc::new(space)))
    }

    /// Makes a MemTable whose generation is durable in the MANIFEST. After an error that may be tried again nothing has changed.
    ///
    /// On `Dram` its header is not synced. A recycled file is full of dirty pages, which a sync would write for nothing
    /// (80 % more device writes in a random fill), and a replay can do without the header.
    /// LOCKS: catalog; arenas
    fn make_memtable(&self, generation: u64, capacity_bytes: u64) -> Result<MemTable<AnyMedium>> {
        let bytes_put = self.context.counted.user_bytes_put.load(Ordering::Relaxed);
        let kind = self.writes.kind_of_arena.next(bytes_put, self.context.options.memtable_bytes);
        let arena = self.writes.arenas.make(generation, capacity_bytes, kind)?;
        let memtable = MemTable::create(arena, generation, self.context.uuid, &self.memtable_options());
        let length_bytes = memtable.capacity_bytes();
        let edit = Edit {
            arenas_added: vec![(generation, ArenaRecord { sealed_last_sequence: None, length_bytes })],
            next_generation: Some(generation + 1),
            ..Edit::default()
        };
        match self.catalog.commit(|_| edit) {
            Ok(()) => Ok(memtable),
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
        memtables.wanted = None;
        self.writes.work_done.notify_all();
    }
}
