//! [`SpaceController`]: what a write needs is set aside before it is admitted, and given back to whoever finds none.
//!
//! What a write needs of the arena it gets at once. What its flush will need is set aside before: in the pool, what the engine
//! says ([`FlushCost`]); on the disk, room for its entries in the table file. So a full pool or disk refuses the next write,
//! and never jams what was accepted. A little more than puts may use is kept back for deletes, which are the way out.
//!
//! Setting aside takes system calls, so a background thread of the engine does it, in steps, before writers come to need it; a
//! writer only adds and compares. What is done when nothing more can be set aside is the [ladder](super::ladder)'s to say.

use std::sync::Arc;
use std::time::Duration;

use slmdb_env::{Error, Result};
use slmdb_pmem::Medium;
use slmdb_sync::scheduled::{Instant, MutexGuard};

use super::admission::{STEP_PART, Wanted, memtables};
use super::flush_cost::{Grant, kept_back, step_in_pool, table_bytes};
use super::ladder::{Asker, Flushes, Situation, Step, next_step};
use super::reserve::{Purpose, Reserve};
use super::reserved_file::ReservedFile;
use crate::batch::Totals;
use crate::context::StoreContext;
use crate::events::SpaceFor;
use crate::write::memtables::{Filling, FlushSetback, MemTables};
use crate::write::write_path::WritePath;

/// The active MemTable is flushed early for its space only if it is filled to this part at least.
const WORTH_FLUSHING_PART: u64 = 8;
/// For so long a delete waits for a flush that waits for space, and so often it looks.
const FLUSH_PATIENCE: Duration = Duration::from_millis(250);
const FLUSH_PAUSE: Duration = Duration::from_millis(5);
/// How often somebody who waits for readers looks whether they have gone.
pub const READERS_PAUSE: Duration = Duration::from_millis(1);
/// How long a background job waits before it tries a full disk again: at first, and at most. (It doubles each time.)
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
    /// Also what is kept back for deletes.
    Reserve,
}

/// What a flush costs an engine beside the table file.
pub trait FlushCost: Send + Sync {
    /// Provides in the pool for the flush of so much more than was admitted.
    fn provide_in_pool(&self, more: Grant, from: TakenFrom) -> Result<()>;
    /// Sees to it that the MANIFEST has space for the records of the flushes to come, and that the [`Reserve`] is full.
    fn fill_reserve(&self) -> Result<()>;
    /// Sees to it that the MANIFEST has space for the records of the flushes to come.
    fn provide_for_manifest(&self) -> Result<()>;
}

/// How an engine gives space back.
pub trait Reclaim: Send + Sync {
    /// What this error says there is too little of.
    fn lacking(&self, full: &Error) -> Resource;
    /// How often readers have let go of space that was given up before: whoever found none may find some now.
    fn returned_by_readers(&self) -> u64;
    /// Whether space has been given up that readers are still in.
    fn readers_hold(&self, resource: Resource) -> bool;
    /// Whether a compaction may bring space: one is under way, or one for space alone, which then begins. `at_any_cost`: the least
    /// garbage is worth it.
    fn compact_for(&self, resource: Resource, at_any_cost: bool) -> bool;
}

/// What came of waiting for space.
pub enum Awaited<'a, M: Medium> {
    /// There may be some now.
    TryAgain,
    /// The asker may take from the reserve.
    UseReserve,
    /// There is none.
    Refused(MutexGuard<'a, MemTables<M>>),
}

/// What somebody has found who has found something full, in this order.
pub struct Had<'a> {
    /// How much had been [returned](SpaceController::returned) when it was looked for.
    pub returned: u64,
    /// What was full.
    pub full: &'a Error,
    /// Whether [readers hold](SpaceController::readers_hold) some of it. Asked before it is asked again what has been returned: they are
    /// counted before they have gone.
    pub readers_hold_space: bool,
}

/// Sets space aside for writes, and says what is done when there is none.
pub struct SpaceController<M: Medium> {
    context: Arc<StoreContext>,
    /// The write path, whose MemTables the space is for.
    writes: Arc<WritePath<M>>,
    /// The disk space that leads out of a full disk.
    reserve: Arc<Reserve>,
    cost: Arc<dyn FlushCost>,
    reclaim: Arc<dyn Reclaim>,
}

impl<M: Medium + Clone> SpaceController<M> {
    /// That of a store whose engine says what a flush costs, and gives space back.
    pub fn new(
        context: Arc<StoreContext>,
        writes: Arc<WritePath<M>>,
        reserve: Arc<Reserve>,
        cost: Arc<dyn FlushCost>,
        reclaim: Arc<dyn Reclaim>,
    ) -> SpaceController<M> {
        SpaceController { context, writes, reserve, cost, reclaim }
    }

    /// Sets aside what is wanted, and a step more where that can be had. Writers that wait are told, whether it came to something or
    /// not.
    pub fn provide(&self, wanted: Wanted) -> Result<()> {
        let asker = if wanted.deletes_alone { Asker::Deletes } else { Asker::Puts };
        let mut from = TakenFrom::FreeSpace;
        loop {
            let returned = self.returned(&self.writes.traffic.lock());
            let full = match self.set_aside(from, &wanted) {
                Ok(()) => {
                    let mut traffic = self.writes.traffic.lock();
                    traffic.space_wanted = None;
                    self.context.events.space_found(SpaceFor::Write);
                    self.writes.room.notify_all();
                    return Ok(());
                }
                Err(full @ Error::Full { .. }) => full,
                Err(error) => return Err(error),
            };
            let readers_hold_space = self.readers_hold(&full)?;
            let mut traffic = self.writes.traffic.lock();
            if !wanted.is_waited_for() {
                // Somebody may have come to wait meanwhile.
                traffic.space_wanted = traffic.space_wanted.filter(Wanted::is_waited_for);
                return Ok(());
            }
            let worth_flushing = traffic.active.as_ref().is_some_and(|active| {
                let capacity_bytes = active.memtable.capacity_bytes();
                let is_filled = active.memtable.used_bytes() >= capacity_bytes / WORTH_FLUSHING_PART;
                // What is deleted is garbage once that is flushed.
                active.totals.entries > 0
                    && (is_filled || wanted.deletes_alone || self.writes.arenas.is_large(capacity_bytes))
            });
            let reserve_is_left = wanted.deletes_alone && from == TakenFrom::FreeSpace;
            let had = Had { full: &full, returned, readers_hold_space };
            match self.await_space(traffic, asker, &had, (worth_flushing, reserve_is_left)) {
                Awaited::TryAgain => return Ok(()),
                Awaited::UseReserve => from = TakenFrom::Reserve,
                Awaited::Refused(traffic) => {
                    self.refuse(traffic, wanted, full);
                    return Ok(());
                }
            }
        }
    }

    /// Sets aside what is wanted, if there is as much.
    fn set_aside(&self, from: TakenFrom, wanted: &Wanted) -> Result<()> {
        let (all, of_active, generation, space) = {
            let traffic = self.writes.traffic.lock();
            let active = traffic.active.as_ref();
            let of_active = active.map_or_else(Totals::default, |active| active.totals);
            let generation = active.map(|active| active.memtable.generation());
            (traffic.admitted, of_active, generation, active.and_then(|active| active.space.clone()))
        };
        let more = wanted.totals.plus(&kept_back(&self.context.options, wanted.deletes_alone));
        let on_disk = table_bytes(&self.context.options, &of_active.plus(&more));
        let step_bytes = match from {
            TakenFrom::FreeSpace => self.fill_reserve_for(on_disk, self.context.options.memtable_bytes / STEP_PART)?,
            TakenFrom::Reserve => self.cost.provide_for_manifest().map(|()| 0)?,
        };
        let needed = Grant { totals: more, memtables: memtables(0, wanted.deletes_alone) };
        let step = step_in_pool(&self.context.options, &all);
        let ahead = Grant { totals: more.plus(&step), memtables: needed.memtables + 1 };
        match self.cost.provide_in_pool(ahead, from) {
            Err(Error::Full { .. }) => self.cost.provide_in_pool(needed, from),
            granted => granted,
        }?;
        let Some(generation) = generation else { return Ok(()) };
        let space = space.map_or_else(|| self.begin_space(generation), Ok)?;
        match from {
            TakenFrom::FreeSpace => match space.raise(on_disk.saturating_add(step_bytes)) {
                Err(Error::Full { .. }) => match space.raise(on_disk) {
                    Err(Error::Full { .. }) if self.reserve.trim()? => space.raise(on_disk),
                    raised => raised,
                },
                raised => raised,
            },
            TakenFrom::Reserve => self.raise_from_reserve(&space, on_disk),
        }
    }

    /// Fills the reserve for a table file of so many bytes, and of a step more if that can be: says how large a step.
    pub fn fill_reserve_for(&self, file_bytes: u64, step_bytes: u64) -> Result<u64> {
        let fill = |step_bytes| {
            let before_bytes = self.reserve.expect_file(file_bytes.saturating_add(step_bytes));
            let filled = self.cost.fill_reserve().inspect_err(|_| self.reserve.expect_again(before_bytes));
            filled.map(|()| step_bytes)
        };
        match fill(step_bytes) {
            Err(Error::Full { .. }) if step_bytes > 0 => fill(0),
            filled => filled,
        }
    }

    /// Raises what a table file of deletes has to `on_disk`, also by what is in the reserve for deletes.
    fn raise_from_reserve(&self, space: &ReservedFile, on_disk: u64) -> Result<()> {
        let more_bytes = on_disk.saturating_sub(space.length_bytes());
        if !self.reserve.has_for_deletes(more_bytes) {
            return Err(space.full("what is left is for compactions and the MANIFEST"));
        }
        self.reserve.give_while_full(more_bytes, Purpose::Deletes, || space.raise(on_disk))
    }

    /// Disk space for the table file of the active MemTable, which has none yet.
    fn begin_space(&self, generation: u64) -> Result<Arc<ReservedFile>> {
        let space = self.reserve.begin_file(generation)?;
        let mut traffic = self.writes.traffic.lock();
        match &mut traffic.active {
            Some(active) if active.memtable.generation() == generation => active.space = Some(space.clone()),
            // It was full meanwhile: its flush does without.
            _ => space.discard(&*self.context.env)?,
        }
        Ok(space)
    }

    /// Tells those who wait that it is full.
    fn refuse(&self, mut traffic: MutexGuard<'_, MemTables<M>>, wanted: Wanted, cause: Error) {
        traffic.space_wanted = None;
        self.context.events.space_refused(SpaceFor::Write, &cause);
        traffic.setbacks.record_space(wanted, cause);
        let has_large_arena = |active: &Filling<M>| self.writes.arenas.is_large(active.memtable.capacity_bytes());
        if traffic.immutables == 0 && traffic.active.as_ref().is_some_and(has_large_arena) && !traffic.closing {
            // Made for what is refused now, and nothing is in it: others need the space.
            let spare = traffic.spare.take();
            self.writes.make_immutable(&mut traffic, spare);
        }
        self.writes.room.notify_all();
    }

    /// How often space has been given back: whoever found none before may find some now.
    pub fn returned(&self, traffic: &MemTables<M>) -> u64 {
        traffic.space_returned + self.reclaim.returned_by_readers() + self.writes.arenas.returned()
    }

    /// Whether readers are still in space of this kind that was given up.
    pub fn readers_hold(&self, full: &Error) -> Result<bool> {
        let resource = self.reclaim.lacking(full);
        let arenas_take = if M::PERSISTENT { Resource::Pool } else { Resource::Disk };
        let hold_arenas = resource == arenas_take && self.writes.arenas.await_readers()?;
        Ok(hold_arenas || self.reclaim.readers_hold(resource))
    }

    /// Goes down the [ladder](super::ladder) for somebody who has found something full.
    pub fn await_space<'t>(
        &'t self,
        mut traffic: MutexGuard<'t, MemTables<M>>,
        asker: Asker,
        had: &Had<'_>,
        (worth_flushing, reserve_is_left): (bool, bool),
    ) -> Awaited<'t, M> {
        let resource = self.reclaim.lacking(had.full);
        let mut situation = Situation {
            asker,
            has_returned: self.returned(&traffic) != had.returned,
            is_ending: traffic.closing || self.context.has_failed(),
            flushes: match &traffic.flush_setback {
                Some(setback) if setback.since.elapsed() < FLUSH_PATIENCE => Flushes::SetBackForAMoment,
                Some(_) => Flushes::SetBack,
                None if traffic.immutables > 0 => Flushes::UnderWay,
                None if worth_flushing => Flushes::Worthwhile,
                None => Flushes::Idle,
            },
            readers_hold_space: had.readers_hold_space,
            compaction_may_help: true,
            reserve_is_left,
        };
        let mut step = next_step(&situation);
        if step == Step::AwaitCompaction && !self.reclaim.compact_for(resource, asker == Asker::Deletes) {
            situation.compaction_may_help = false;
            step = next_step(&situation);
        }
        let work = &self.writes.work;
        match step {
            Step::TryAgain => {}
            Step::BeginFlush => {
                let spare = traffic.spare.take();
                self.writes.make_immutable(&mut traffic, spare);
            }
            Step::AwaitFlushForAMoment => drop(work.wait_timeout(traffic, FLUSH_PAUSE)),
            Step::AwaitReaders => drop(work.wait_timeout(traffic, READERS_PAUSE)),
            Step::AwaitFlush | Step::AwaitCompaction => drop(work.wait(traffic)),
            Step::UseReserve => return Awaited::UseReserve,
            Step::Refuse => return Awaited::Refused(traffic),
        }
        Awaited::TryAgain
    }

    /// A step of a background job that may find the disk or the pool full, or lack something else for a moment
    /// ([`Error::may_be_tried_again`]), and has then done nothing that could not be done again. It is tried until there is what it
    /// takes, or the store closes or has failed. Those who wait for the job are told.
    pub fn until_there_is_space<T>(&self, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
        let mut was_set_back = false;
        let mut pause = JOB_PAUSE_FIRST;
        loop {
            let cause = match attempt() {
                Err(cause) if cause.may_be_tried_again() => cause,
                done => {
                    if was_set_back {
                        self.writes.traffic.lock().flush_setback = None;
                        self.context.events.space_found(SpaceFor::Job);
                    }
                    return done;
                }
            };
            was_set_back = true;
            tracing::warn!(%cause, "a flush waits for space, or whatever else it lacks");
            let mut traffic = self.writes.traffic.lock();
            traffic.setbacks.record_flush(cause.clone());
            self.context.events.space_refused(SpaceFor::Job, &cause);
            let since = traffic.flush_setback.as_ref().map_or_else(Instant::now, |before| before.since);
            traffic.flush_setback = Some(FlushSetback { cause: cause.clone(), since });
            if !cause.is_passing_lack() {
                self.reclaim.compact_for(self.reclaim.lacking(&cause), true);
            }
            self.writes.room.notify_all();
            self.writes.work.notify_all();
            // Not at every word: two jobs that wait would wake each other without end.
            let (since, returned) = (Instant::now(), self.returned(&traffic));
            let is_ending = |traffic: &MemTables<M>| traffic.closing || self.context.has_failed();
            while !is_ending(&traffic) && self.returned(&traffic) == returned {
                let Some(left) = pause.checked_sub(since.elapsed()) else { break };
                traffic = self.writes.work.wait_timeout(traffic, left);
            }
            if is_ending(&traffic) {
                return Err(cause);
            }
            pause = (2 * pause).min(JOB_PAUSE_MAX);
        }
    }
}
