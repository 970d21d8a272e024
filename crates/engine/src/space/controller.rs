//! [`SpaceController`]: sets aside what a write needs before it is admitted, and finds space for writers and jobs that
//! have none.
//!
//! A write gets its place in the arena at once. What its flush will need is set aside before (INV-30): in the pool as
//! much as the engine says ([`TierSpace`]), on the disk space for its entries in the table file. So a full pool or disk
//! refuses the next write, and never jams what was accepted. A little more than puts may use is reserved for deletes,
//! which are the way out.
//!
//! Setting aside takes system calls. So a background thread does it, in steps, before writers need it; a writer only
//! adds and compares. When nothing more can be set aside, the [ladder](super::ladder) decides what is done.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use slmdb_env::{Error, Result};
use slmdb_manifest::StoreState;
use slmdb_pmem::Medium;
use slmdb_sync::scheduled::{Instant, Mutex, MutexGuard};

use super::admission::{Grant, STEP_PART, step_in_pool, table_bytes};
use super::ladder::{Asker, Flushes, Situation, Step, next_step};
use super::reserve::{Purpose, Reserve};
use super::reserved_file::ReservedFile;
use crate::batch::Totals;
use crate::context::StoreContext;
use crate::events::SpaceFor;
use crate::files::catalog::Catalog;
use crate::lock_order;
use crate::write::memtables::{BlockedFlush, Filling, MemTables};
use crate::write::write_path::WritePath;

/// The active MemTable is flushed early for its space only if at least its size divided by this is used.
const WORTH_FLUSHING_PART: u64 = 8;
/// How long a delete waits for a flush that waits for space itself, and how often it checks.
const FLUSH_PATIENCE: Duration = Duration::from_millis(250);
const FLUSH_PAUSE: Duration = Duration::from_millis(5);
/// How often a thread that waits for readers checks whether they have gone.
pub const READERS_PAUSE: Duration = Duration::from_millis(1);
/// How long a background job waits before it tries a full disk again: at first, and at most. The time doubles with each
/// try.
const JOB_PAUSE_FIRST: Duration = Duration::from_millis(1);
const JOB_PAUSE_MAX: Duration = Duration::from_millis(200);

/// What there is too little of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// Space on the disk.
    Disk,
    /// Space in the pool.
    Pool,
}

/// Where space is taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakenFrom {
    /// What is free.
    FreeSpace,
    /// Also what is reserved for deletes.
    Reserve,
}

/// The space of an engine: what a flush costs beside the table file and its record in the MANIFEST, and how space is given
/// back.
pub trait TierSpace: Send + Sync {
    /// The path of the pool, as errors name it.
    fn pool_path(&self) -> &Path;
    /// Sets aside in the pool what flushing a grant takes, and what compactions need there, in place of what was set aside
    /// before. [`Error::Full`]: there is not as much.
    /// LOCKS: pool grant (held)
    fn reserve(&self, grant: &Grant, from: TakenFrom) -> Result<()>;
    /// Takes note of the keys of a MemTable that is flushed now.
    /// LOCKS: pool grant (held)
    fn note_flushed(&self, _: &Totals) {}
    /// Sets the reserves by the table files that there are.
    fn count_files(&self, state: &StoreState, reserve: &Reserve) {
        reserve.set_files(state.files.values().map(|file| file.length_bytes));
    }
    /// How often readers have let go of space in the pool that was given up. A change is a reason to look for space again.
    fn returned_by_readers(&self) -> u64;
    /// Whether readers hold space in the pool that was given up.
    fn readers_hold(&self) -> bool;
    /// Whether a compaction may free space: one runs, or one for space alone is begun now. `at_any_cost`: even the
    /// least garbage is worth it.
    /// LOCKS: compactions
    fn compact_for(&self, resource: Resource, at_any_cost: bool) -> bool;
}

/// The result of waiting for space.
pub enum Awaited<'a, M: Medium> {
    /// There may be space now.
    TryAgain,
    /// The asker may take from the reserve.
    UseReserve,
    /// There is none.
    Refused(MutexGuard<'a, MemTables<M>>),
}

/// A request that found something full. The fields are read in this order.
pub struct Shortage<'a> {
    /// The value of [returned](SpaceController::returned) before the space was asked for.
    pub returned: u64,
    /// The error.
    pub full: &'a Error,
    /// Whether [readers hold](SpaceController::readers_hold) some of it. This is read before `returned` is read again:
    /// readers are counted there before they stop holding.
    pub readers_hold_space: bool,
}

/// Sets space aside for writes, and decides what is done when there is none.
pub struct SpaceController<M: Medium> {
    pub(super) context: Arc<StoreContext>,
    /// The write path, for whose MemTables the space is.
    pub(super) writes: Arc<WritePath<M>>,
    /// The MANIFEST, and the disk space that leads out of a full disk.
    pub(super) catalog: Arc<Catalog>,
    tier: Arc<dyn TierSpace>,
    /// Held to change what is granted in the pool, and set aside there.
    pool_grant: Mutex<()>,
}

impl<M: Medium + Clone> SpaceController<M> {
    /// The controller of a store whose engine knows what a flush costs and how space is given back.
    pub fn new(
        context: Arc<StoreContext>,
        writes: Arc<WritePath<M>>,
        catalog: Arc<Catalog>,
        tier: Arc<dyn TierSpace>,
    ) -> SpaceController<M> {
        let pool_grant = Mutex::ranked(lock_order::POOL_GRANT, ());
        SpaceController { context, writes, catalog, tier, pool_grant }
    }

    /// Provides in the pool for flushing what was admitted and `more`. [`Error::Full`]: there is not as much.
    /// LOCKS: pool grant, memtables; pool grant, those of [`TierSpace::reserve`]
    fn provide_in_pool(&self, more: Grant, from: TakenFrom) -> Result<()> {
        let _changing = self.pool_grant.lock();
        let grant = self.writes.memtables.lock().begin_grant(more);
        self.tier.reserve(&grant, from)?;
        self.writes.memtables.lock().granted_in_pool = grant;
        Ok(())
    }

    /// Sets aside again what is granted and reserved in the pool, after a compaction has freed space there.
    /// LOCKS: as [`SpaceController::provide`]
    pub fn reserve_again(&self) -> Result<()> {
        let _changing = self.pool_grant.lock();
        let granted = self.writes.memtables.lock().granted_in_pool;
        self.tier.reserve(&granted, TakenFrom::FreeSpace)
    }

    /// Frees what was set aside in the pool for a flushed MemTable and not used (INV-31), and counts that as space that
    /// has come.
    /// LOCKS: as [`SpaceController::provide`]
    pub fn release_in_pool(&self, flushed: &Totals) -> Result<()> {
        let _changing = self.pool_grant.lock();
        self.tier.note_flushed(flushed);
        let granted = self.writes.memtables.lock().release(flushed);
        match self.tier.reserve(&granted, TakenFrom::FreeSpace) {
            // The bound does not know how much of the worst case has already happened. What was granted is there.
            Err(Error::Full { .. }) => Ok(()),
            done => done,
        }
    }

    /// Which resource this error is about.
    fn lacking(&self, full: &Error) -> Resource {
        match full {
            Error::Full { path, .. } if path == self.tier.pool_path() => Resource::Pool,
            _ => Resource::Disk,
        }
    }

    /// Sets aside what is wanted, and a step more if there is as much. Wakes the writers that wait, whether or not
    /// there was space. After [`Awaited::TryAgain`] it returns as well: the preparer's loop reads again what is wanted.
    /// LOCKS: memtables; pool grant, memtables; those of [`TierSpace`]; reserve, reserved file
    pub fn provide(&self, wanted: Totals) -> Result<()> {
        let asker = if wanted.are_deletes() { Asker::Deletes } else { Asker::Puts };
        let mut from = TakenFrom::FreeSpace;
        loop {
            // Read before the space is asked for, so that what comes back meanwhile is noticed.
            let returned = self.returned(&self.writes.memtables.lock());
            let full = match self.set_aside(from, &wanted) {
                Ok(()) => {
                    let mut memtables = self.writes.memtables.lock();
                    memtables.space_wanted = None;
                    self.context.events.space_found(SpaceFor::Write);
                    self.writes.work_done.notify_all();
                    return Ok(());
                }
                Err(full @ Error::Full { .. }) => full,
                Err(error) => return Err(error),
            };
            let readers_hold_space = self.readers_hold(&full)?;
            let mut memtables = self.writes.memtables.lock();
            if wanted.entries == 0 {
                // Only the step ahead is not taken. A writer may have begun to wait meanwhile.
                memtables.space_wanted = memtables.space_wanted.filter(|wanted| wanted.entries > 0);
                return Ok(());
            }
            // Whether flushing the active MemTable now would help.
            let worth_flushing = memtables.active.as_ref().is_some_and(|active| {
                let capacity_bytes = active.memtable.capacity_bytes();
                let is_filled = active.memtable.used_bytes() >= capacity_bytes / WORTH_FLUSHING_PART;
                // What was deleted is garbage once this is flushed.
                active.totals.entries > 0
                    && (is_filled || asker == Asker::Deletes || self.writes.arenas.is_large(capacity_bytes))
            });
            // Deletes may take from the reserve, after all else.
            let reserve_is_left = asker == Asker::Deletes && from == TakenFrom::FreeSpace;
            let shortage = Shortage { full: &full, returned, readers_hold_space };
            match self.await_space(memtables, asker, &shortage, (worth_flushing, reserve_is_left)) {
                Awaited::TryAgain => return Ok(()),
                Awaited::UseReserve => from = TakenFrom::Reserve,
                Awaited::Refused(memtables) => {
                    self.refuse(memtables, wanted, full);
                    return Ok(());
                }
            }
        }
    }

    /// Sets aside what is wanted, in the pool and then on the disk. [`Error::Full`]: there is not as much.
    fn set_aside(&self, from: TakenFrom, wanted: &Totals) -> Result<()> {
        let (all, of_active, generation, space) = {
            let memtables = self.writes.memtables.lock();
            let active = memtables.active.as_ref();
            let of_active = active.map_or_else(Totals::default, |active| active.totals);
            let generation = active.map(|active| active.memtable.generation());
            (memtables.admitted, of_active, generation, active.and_then(|active| active.space.clone()))
        };
        // What is needed: the write, and the deletes that must still find space after it.
        let needed = Grant::for_write(&self.context.options, wanted);
        let on_disk = table_bytes(&self.context.options, &of_active.plus(&needed.totals));
        let step_bytes = match from {
            TakenFrom::FreeSpace => self.fill_reserve_for(on_disk, self.context.options.memtable_bytes / STEP_PART)?,
            TakenFrom::Reserve => self.catalog.provide_for_flushes().map(|()| 0)?,
        };
        // In the pool: a step ahead if that can be had, else just what is needed.
        let step = step_in_pool(&self.context.options, &all);
        let ahead = Grant { totals: needed.totals.plus(&step), memtables: needed.memtables + 1 };
        match self.provide_in_pool(ahead, from) {
            Err(Error::Full { .. }) => self.provide_in_pool(needed, from),
            granted => granted,
        }?;
        // On the disk, for the active MemTable's table file: likewise, and at last with what the reserve has too much.
        let Some(generation) = generation else { return Ok(()) };
        let space = space.map_or_else(|| self.begin_space(generation), Ok)?;
        match from {
            TakenFrom::FreeSpace => match space.raise(on_disk.saturating_add(step_bytes)) {
                Err(Error::Full { .. }) => match space.raise(on_disk) {
                    Err(Error::Full { .. }) if self.catalog.reserve.trim()? => space.raise(on_disk),
                    raised => raised,
                },
                raised => raised,
            },
            TakenFrom::Reserve => self.raise_from_reserve(&space, on_disk),
        }
    }

    /// Fills the reserve for a table file of `file_bytes`, and `step_bytes` more if there is as much. Returns how large
    /// a step it was.
    pub fn fill_reserve_for(&self, file_bytes: u64, step_bytes: u64) -> Result<u64> {
        let fill = |step_bytes| {
            let before_bytes = self.catalog.reserve.expect_file(file_bytes.saturating_add(step_bytes));
            let filled = self.catalog.fill_reserve().inspect_err(|_| self.catalog.reserve.expect_again(before_bytes));
            filled.map(|()| step_bytes)
        };
        match fill(step_bytes) {
            Err(Error::Full { .. }) if step_bytes > 0 => fill(0),
            filled => filled,
        }
    }

    /// Raises the space for a table file of deletes to `on_disk`, with what is in the reserve for deletes if need be.
    fn raise_from_reserve(&self, space: &ReservedFile, on_disk: u64) -> Result<()> {
        let more_bytes = on_disk.saturating_sub(space.length_bytes());
        if !self.catalog.reserve.has_for_deletes(more_bytes) {
            return Err(space.full("what is left is for compactions and the MANIFEST"));
        }
        self.catalog.reserve.give_while_full(more_bytes, Purpose::Deletes, || space.raise(on_disk))
    }

    /// Begins the disk space for the active MemTable's table file.
    /// LOCKS: memtables, reserved file
    fn begin_space(&self, generation: u64) -> Result<Arc<ReservedFile>> {
        let space = self.catalog.reserve.begin_file(generation)?;
        let mut memtables = self.writes.memtables.lock();
        match &mut memtables.active {
            Some(active) if active.memtable.generation() == generation => active.space = Some(space.clone()),
            // It was full meanwhile: its flush does without.
            _ => space.discard(&*self.context.env)?,
        }
        Ok(space)
    }

    /// Refuses the write: records the error, and wakes the waiting writers.
    /// LOCKS: memtables (held)
    fn refuse(&self, mut memtables: MutexGuard<'_, MemTables<M>>, wanted: Totals, cause: Error) {
        memtables.space_wanted = None;
        self.context.events.space_refused(SpaceFor::Write, &cause);
        memtables.space_errors.record_space(wanted, cause);
        let has_large_arena = |active: &Filling<M>| self.writes.arenas.is_large(active.memtable.capacity_bytes());
        if memtables.immutables == 0 && memtables.active.as_ref().is_some_and(has_large_arena) && !memtables.closing {
            // It was made for the write that is now refused, and is empty. Others need the space.
            let spare = memtables.spare.take();
            self.writes.make_immutable(&mut memtables, spare);
        }
        self.writes.work_done.notify_all();
    }

    /// How often space has been given back. A change is a reason to look for space again.
    /// LOCKS: memtables (held)
    pub fn returned(&self, memtables: &MemTables<M>) -> u64 {
        memtables.space_returned + self.tier.returned_by_readers() + self.writes.arenas.returned()
    }

    /// Whether readers hold space that was given up, of the resource that is full.
    /// LOCKS: arenas
    pub fn readers_hold(&self, full: &Error) -> Result<bool> {
        let resource = self.lacking(full);
        let arenas_take = if self.writes.arenas.are_in_pool() { Resource::Pool } else { Resource::Disk };
        let hold_arenas = resource == arenas_take && self.writes.arenas.await_readers()?;
        Ok(hold_arenas || (resource == Resource::Pool && self.tier.readers_hold()))
    }

    /// Takes the next step on the [ladder](super::ladder) for a request that found something full.
    /// LOCKS: memtables (held), and what [`TierSpace::compact_for`] takes
    pub fn await_space<'t>(
        &'t self,
        mut memtables: MutexGuard<'t, MemTables<M>>,
        asker: Asker,
        shortage: &Shortage<'_>,
        (worth_flushing, reserve_is_left): (bool, bool),
    ) -> Awaited<'t, M> {
        let resource = self.lacking(shortage.full);
        // Everything that the step depends on. `compaction_may_help` is asked only if the ladder comes to it, because
        // asking begins a compaction.
        let mut situation = Situation {
            asker,
            has_returned: self.returned(&memtables) != shortage.returned,
            is_ending: memtables.closing || self.context.has_failed(),
            flushes: match &memtables.blocked_flush {
                Some(blocked) if blocked.since.elapsed() < FLUSH_PATIENCE => Flushes::BlockedForAMoment,
                Some(_) => Flushes::Blocked,
                None if memtables.immutables > 0 => Flushes::UnderWay,
                None if worth_flushing => Flushes::Worthwhile,
                None => Flushes::Idle,
            },
            readers_hold_space: shortage.readers_hold_space,
            compaction_may_help: true,
            reserve_is_left,
        };
        let mut step = next_step(&situation);
        if step == Step::AwaitCompaction && !self.tier.compact_for(resource, asker == Asker::Deletes) {
            situation.compaction_may_help = false;
            step = next_step(&situation);
        }
        // The wait gives the lock back; the caller then looks again.
        let work = &self.writes.work_to_do;
        match step {
            Step::TryAgain => {}
            Step::BeginFlush => {
                let spare = memtables.spare.take();
                self.writes.make_immutable(&mut memtables, spare);
            }
            Step::AwaitFlushForAMoment => drop(work.wait_timeout(memtables, FLUSH_PAUSE)),
            Step::AwaitReaders => drop(work.wait_timeout(memtables, READERS_PAUSE)),
            Step::AwaitFlush | Step::AwaitCompaction => drop(work.wait(memtables)),
            Step::UseReserve => return Awaited::UseReserve,
            Step::Refuse => return Awaited::Refused(memtables),
        }
        Awaited::TryAgain
    }

    /// Runs a step of a background job until it succeeds, or the store closes or has failed. The step may find the disk
    /// or the pool full, or lack something else for a moment ([`Error::may_be_tried_again`]); it has then done nothing
    /// that could not be done again (INV-28). Writers that wait for the job get the error.
    /// LOCKS: memtables, and what [`TierSpace::compact_for`] takes
    pub fn until_there_is_space<T>(&self, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
        let mut was_blocked = false;
        let mut pause = JOB_PAUSE_FIRST;
        loop {
            let cause = match attempt() {
                Err(cause) if cause.may_be_tried_again() => cause,
                done => {
                    if was_blocked {
                        self.writes.memtables.lock().blocked_flush = None;
                        self.context.events.space_found(SpaceFor::Job);
                    }
                    return done;
                }
            };
            was_blocked = true;
            tracing::warn!(%cause, "a flush waits for space, or whatever else it lacks");
            let mut memtables = self.writes.memtables.lock();
            // Report it, and have a compaction begun if that may help.
            memtables.space_errors.record_flush(cause.clone());
            self.context.events.space_refused(SpaceFor::Job, &cause);
            let since = memtables.blocked_flush.as_ref().map_or_else(Instant::now, |before| before.since);
            memtables.blocked_flush = Some(BlockedFlush { cause: cause.clone(), since });
            if !cause.is_passing_lack() {
                self.tier.compact_for(self.lacking(&cause), true);
            }
            self.writes.work_done.notify_all();
            self.writes.work_to_do.notify_all();
            // Not at every wake-up: two jobs that wait would wake each other without end.
            let (since, returned) = (Instant::now(), self.returned(&memtables));
            let is_ending = |memtables: &MemTables<M>| memtables.closing || self.context.has_failed();
            while !is_ending(&memtables) && self.returned(&memtables) == returned {
                let Some(left) = pause.checked_sub(since.elapsed()) else { break };
                memtables = self.writes.work_to_do.wait_timeout(memtables, left);
            }
            if is_ending(&memtables) {
                return Err(cause);
            }
            pause = (2 * pause).min(JOB_PAUSE_MAX);
        }
    }
}
