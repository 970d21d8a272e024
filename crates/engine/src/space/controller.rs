//! [`SpaceController`]: sets space aside for each MemTable before it takes writes, and finds space for writers and jobs that
//! have none.
//!
//! What the flush of a MemTable will need at worst is set aside when it is made (INV-30): in the pool as much as the engine
//! says ([`TierSpace`]), on the disk as much as its table file takes. So a full pool or disk refuses the next MemTable, and never
//! jams what was accepted. Before a MemTable for puts is made, the reserve is full: it leads out of a full disk
//! ([`super::reserve`]). MemTables for deletes alone may use it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use slmdb_env::{Error, Result};
use slmdb_manifest::{Excess, StoreState};
use slmdb_sync::scheduled::{Instant, Mutex, MutexGuard};

use super::allowance::{Grant, kept_for_deletes, table_bytes};
use super::ladder::{Flushes, Situation, Step, next_step};
use super::reserve::{Purpose, Reserve, longest_file};
use super::reserved_file::ReservedFile;
use crate::background::crew::blocked;
use crate::batch::Totals;
use crate::context::StoreContext;
use crate::events::SpaceFor;
use crate::files::catalog::Catalog;
use crate::write::memtables::MemTables;
use crate::write::write_path::WritePath;
use crate::{Options, lock_order};

/// How often a thread that waits for readers checks whether they have gone.
pub const READERS_PAUSE: Duration = Duration::from_millis(1);
/// How long a background job waits before it tries a full disk again: at first, and at most. The time doubles with each
/// try.
const JOB_PAUSE_FIRST: Duration = Duration::from_millis(1);
const JOB_PAUSE_MAX: Duration = Duration::from_millis(200);

/// What there is too little of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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
    /// Sets aside in the pool what flushing a grant takes, and, unless it may be taken from the reserve, what compactions need
    /// there. It takes the place of what was set aside before. [`Error::Full`]: there is not as much.
    /// LOCKS: pool grant (held)
    fn reserve(&self, grant: &Grant, from: TakenFrom) -> Result<()>;
    /// How many bytes the table file of a MemTable with this allowance takes at most, for which disk space is set aside.
    fn file_bytes(&self, options: &Options, allowance: &Totals) -> u64 {
        table_bytes(options, allowance)
    }
    /// Takes note of the keys of a MemTable that was flushed.
    /// LOCKS: pool grant (held)
    fn note_flushed(&self, _: &Totals) {}
    /// Sets the reserves by the table files that there are.
    fn count_files(&self, options: &Options, state: &StoreState, reserve: &Reserve) {
        reserve.set_outputs(1, longest_file(options, state.files.values().map(|file| file.length_bytes)));
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
pub enum Awaited<'a> {
    /// There may be space now.
    TryAgain,
    /// No more will come: less has to do.
    MakeDo,
    /// The request gets the error.
    Refused(MutexGuard<'a, MemTables>),
}

/// A request for a MemTable that found something full. The fields are read in this order.
pub struct Shortage<'a> {
    /// The value of [returned](SpaceController::returned) before the space was asked for.
    pub returned: u64,
    /// The error.
    pub full: &'a Error,
    /// Whether [readers hold](SpaceController::readers_hold) some of it. This is read before `returned` is read again:
    /// readers are counted there before they stop holding.
    pub readers_hold_space: bool,
    /// The request is one of deletes alone.
    pub is_for_deletes: bool,
}

/// Sets space aside for MemTables, and decides what is done when there is none.
pub struct SpaceController {
    pub(super) context: Arc<StoreContext>,
    /// The write path, for whose MemTables the space is.
    pub(super) writes: Arc<WritePath>,
    /// The MANIFEST, and the disk space that leads out of a full disk.
    pub(super) catalog: Arc<Catalog>,
    tier: Arc<dyn TierSpace>,
    /// The allowances of all MemTables that are not flushed, by generation. Held to change what is set aside for them in the
    /// pool.
    granted: Mutex<Vec<(u64, Totals)>>,
}

impl SpaceController {
    /// The controller of a store whose engine knows what a flush costs and how space is given back. `granted`: the recovered
    /// MemTables, for which space is set aside.
    pub fn new(
        context: Arc<StoreContext>,
        writes: Arc<WritePath>,
        catalog: Arc<Catalog>,
        tier: Arc<dyn TierSpace>,
        granted: Vec<(u64, Totals)>,
    ) -> SpaceController {
        let granted = Mutex::ranked(lock_order::POOL_GRANT, granted);
        SpaceController { context, writes, catalog, tier, granted }
    }

    /// Sets aside what the flush of the MemTable of `generation` takes at worst: in the pool, for its record in the MANIFEST, and
    /// for its table file, if it gets one, in `space`. What it had before is part of that. [`Error::Full`]: there is not as much, and nothing has
    /// changed.
    /// LOCKS: pool grant, memtables; catalog, reserve, reserved file
    pub fn grant(
        &self,
        generation: u64,
        allowance: &Totals,
        from: TakenFrom,
        space: Option<&ReservedFile>,
    ) -> Result<()> {
        if from == TakenFrom::FreeSpace {
            // First, because a pool that can't grow without it tells no more than that it is full.
            self.catalog.fill_reserve()?;
        }
        let before = self.grant_in_pool(generation, allowance, from)?;
        let file_bytes = self.file_bytes(allowance);
        let raise = || space.map_or(Ok(()), |space| space.raise(file_bytes));
        let on_disk = match from {
            TakenFrom::FreeSpace => self.catalog.while_whole(file_bytes, raise),
            TakenFrom::Reserve => match self.take_from_reserve(file_bytes, space) {
                // The reserve keeps as much as the MANIFEST has back for a new one.
                Err(Error::Full { .. }) if self.catalog.renew_on_a_full_disk(Excess::Any)? => {
                    self.take_from_reserve(file_bytes, space)
                }
                taken => taken,
            },
        };
        if on_disk.is_err() {
            self.change_grant(generation, before)?;
        }
        on_disk
    }

    /// How many bytes the table file of a MemTable with this allowance takes at most; 0: it gets none.
    pub fn file_bytes(&self, allowance: &Totals) -> u64 {
        self.tier.file_bytes(&self.context.options, allowance)
    }

    /// Takes the disk space of a MemTable for deletes from what is reserved for these.
    /// LOCKS: catalog, reserve, reserved file
    fn take_from_reserve(&self, file_bytes: u64, space: Option<&ReservedFile>) -> Result<()> {
        self.catalog.provide_for_flushes()?;
        let Some(space) = space else { return Ok(()) };
        let more_bytes = file_bytes.saturating_sub(space.length_bytes());
        self.catalog.reserve.give_while_full(more_bytes, Purpose::Others, || space.raise(file_bytes))
    }

    /// Sets aside the part of [`SpaceController::grant`] that is in the pool. Returns what it was before.
    /// LOCKS: pool grant, memtables; pool grant, those of [`TierSpace::reserve`]
    fn grant_in_pool(&self, generation: u64, allowance: &Totals, from: TakenFrom) -> Result<Option<Totals>> {
        let mut granted = self.granted.lock();
        let before = replace(&mut granted, generation, Some(*allowance));
        let reserved = self.set_aside(&granted, from);
        if reserved.is_err() {
            replace(&mut granted, generation, before);
            // What was set aside for others is still there.
            or_part(self.set_aside(&granted, TakenFrom::FreeSpace))?;
        }
        reserved.map(|()| before)
    }

    /// Sets aside in the pool what all MemTables were granted.
    /// LOCKS: pool grant (held), memtables
    fn set_aside(&self, granted: &[(u64, Totals)], from: TakenFrom) -> Result<()> {
        let mut all = granted.iter().fold(Grant::default(), |all, (_, allowance)| all.and(allowance));
        self.writes.memtables.lock().longest_key_bytes = all.totals.longest_key_bytes;
        if from == TakenFrom::FreeSpace {
            all = all.and(&kept_for_deletes(&self.context.options));
        }
        self.tier.reserve(&all, from)
    }

    /// Changes what a MemTable is granted to no more than before; `None`: it needs nothing. Its disk space is the caller's.
    /// LOCKS: as [`SpaceController::grant`]
    pub fn change_grant(&self, generation: u64, allowance: Option<Totals>) -> Result<()> {
        let mut granted = self.granted.lock();
        replace(&mut granted, generation, allowance);
        or_part(self.set_aside(&granted, TakenFrom::FreeSpace))
    }

    /// Sets aside again what is granted and reserved in the pool, after a compaction has freed space there.
    /// [`Error::Full`]: there is only a part of it.
    /// LOCKS: as [`SpaceController::grant`]
    pub fn reserve_again(&self) -> Result<()> {
        self.set_aside(&self.granted.lock(), TakenFrom::FreeSpace)
    }

    /// Frees what was set aside for a flushed MemTable and not used (INV-31), and counts that as space that has come.
    /// LOCKS: as [`SpaceController::grant`]
    pub fn release(&self, generation: u64, flushed: &Totals) -> Result<()> {
        let mut granted = self.granted.lock();
        self.tier.note_flushed(flushed);
        replace(&mut granted, generation, None);
        let released = or_part(self.set_aside(&granted, TakenFrom::FreeSpace));
        let mut memtables = self.writes.memtables.lock();
        memtables.immutables -= 1;
        memtables.space_returned += 1;
        released
    }

    /// Which resource this error is about.
    fn lacking(&self, full: &Error) -> Resource {
        match full {
            Error::Full { path, .. } if path == self.tier.pool_path() => Resource::Pool,
            _ => Resource::Disk,
        }
    }

    /// Whether both errors are about the same resource.
    pub fn are_alike(&self, one: &Error, other: &Error) -> bool {
        self.lacking(one) == self.lacking(other)
    }

    /// How often space has been given back. A change is a reason to look for space again.
    /// LOCKS: memtables (held)
    pub fn returned(&self, memtables: &MemTables) -> u64 {
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

    /// Takes the next step on the [ladder](super::ladder) for a request that found something full. `is_worth_flushing`: the
    /// flush of the active MemTable may help.
    /// LOCKS: memtables (held), and what [`TierSpace::compact_for`] takes
    pub fn await_space<'t>(
        &'t self,
        mut memtables: MutexGuard<'t, MemTables>,
        shortage: &Shortage<'_>,
        is_worth_flushing: bool,
    ) -> Awaited<'t> {
        let resource = self.lacking(shortage.full);
        // Everything that the step depends on. `compaction_may_help` is asked only if the ladder comes to it, because
        // asking begins a compaction.
        let mut situation = Situation {
            has_returned: self.returned(&memtables) != shortage.returned,
            is_ending: memtables.closing || self.context.has_failed(),
            flushes: match &memtables.blocked_flush {
                Some(_) => Flushes::Blocked,
                None if memtables.immutables > 0 => Flushes::UnderWay,
                None if is_worth_flushing => Flushes::Worthwhile,
                None => Flushes::Idle,
            },
            readers_hold_space: shortage.readers_hold_space,
            compaction_may_help: true,
        };
        let mut step = next_step(&situation);
        if step == Step::AwaitCompaction && !self.tier.compact_for(resource, shortage.is_for_deletes) {
            situation.compaction_may_help = false;
            step = next_step(&situation);
        }
        // The wait gives the lock back; the caller then looks again.
        let work = &self.writes.work_to_do;
        let _blocked = matches!(step, Step::AwaitFlush | Step::AwaitCompaction).then(blocked);
        match step {
            Step::TryAgain => {}
            Step::BeginFlush => self.writes.make_immutable(&mut memtables, None),
            Step::AwaitReaders => drop(work.wait_timeout(memtables, READERS_PAUSE)),
            Step::AwaitFlush | Step::AwaitCompaction => drop(work.wait(memtables)),
            Step::MakeDo => return Awaited::MakeDo,
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
            let _blocked = blocked();
            let mut memtables = self.writes.memtables.lock();
            // Report it, and have a compaction begun if that may help.
            memtables.space_errors.record_flush(cause.clone());
            self.context.events.space_refused(SpaceFor::Job, &cause);
            memtables.blocked_flush = Some(cause.clone());
            if !cause.is_passing_lack() {
                self.tier.compact_for(self.lacking(&cause), true);
            }
            self.writes.work_done.notify_all();
            self.writes.wake_work();
            // Not at every wake-up: two jobs that wait would wake each other without end.
            let (since, returned) = (Instant::now(), self.returned(&memtables));
            let is_ending = |memtables: &MemTables| memtables.closing || self.context.has_failed();
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

/// Replaces what the MemTable of `generation` is granted. Returns what it was.
fn replace(granted: &mut Vec<(u64, Totals)>, generation: u64, allowance: Option<Totals>) -> Option<Totals> {
    let position = granted.iter().position(|(other, _)| *other == generation);
    let before = position.map(|position| granted.swap_remove(position).1);
    granted.extend(allowance.map(|allowance| (generation, allowance)));
    before
}

/// Where there is only a part of what is kept back, that has to do. (The bound does not know how much of the worst case has
/// already happened. What was granted is there.)
fn or_part(reserved: Result<()>) -> Result<()> {
    match reserved {
        Err(Error::Full { .. }) => Ok(()),
        reserved => reserved,
    }
}
