//! Admission: a write is taken only when there is space to flush it.
//!
//! What a write needs of the arena it gets at once. What its flush will need is set aside before: in the pool, room for
//! its key records and for the nodes that the index may have to split at worst; on the disk, room for its entries in the
//! table file. So a full pool or disk refuses the next write, and never jams what was accepted. A little more than the
//! puts may use is kept back for deletes, which are the way out.
//!
//! Setting aside takes system calls, so the [ahead thread](crate::write::memtable_preparer) does it, in steps, before
//! writers come to need it; a writer only adds and compares. When nothing more can be set aside, what was set aside too
//! much comes first: flushes under way end, and the active MemTable is flushed early, because a flush turns the worst case
//! into what it really takes. Only then is the disk, or the pool, full. (Then, and not before, deletes get what is kept
//! back for them.)

mod smallest_pool;

use std::sync::Arc;
use std::time::Duration;

use slmdb_env::{Error, Result};
use slmdb_pmem::Medium;
use slmdb_structures::fast_fair::KeyLengths;
use slmdb_sync::epoch;
use slmdb_sync::scheduled::MutexGuard;

pub(crate) use crate::space::admission::smallest_pool::check_pool;
use crate::space::kept_back::BALLAST_STEP_BYTES;
use crate::space::kept_back::{Lacking, READERS_PAUSE};
use crate::space::pool_reserve::reserve;
use crate::store::{RecoveredStore, Store};
use slmdb_engine::batch::Totals;
use slmdb_engine::events::SpaceFor;
use slmdb_engine::space::admission::{STEP_PART, Wanted, memtables};
use slmdb_engine::space::flush_cost::{Grant, kept_back, step_in_pool, table_bytes};
use slmdb_engine::space::reserved_file::ReservedFile;
use slmdb_engine::write::memtables::{Filling, Immutable, MemTables};

/// The active MemTable is flushed early for its space only if it is filled to this part at least.
const WORTH_FLUSHING_PART: u64 = 8;

/// For so long a delete waits for a flush that waits for space, and so often it looks.
const FLUSH_PATIENCE: Duration = Duration::from_millis(250);
const FLUSH_PAUSE: Duration = Duration::from_millis(5);

/// Where space is taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TakenFrom {
    /// What is free.
    FreeSpace,
    /// Also from what is [kept back](crate::space::compaction_reserve): on the disk what is for deletes; in the pool also
    /// what is for a compaction, when there is nothing that it could be needed for.
    KeptBack,
}

impl<M: Medium + Clone> RecoveredStore<M> {
    /// Sets aside in the pool what flushing the recovered MemTables will need, before a new arena may take it. It was set
    /// aside when they were written; should there be less now, their flush waits for space.
    pub(crate) fn reserve_for_recovered(&self) -> Result<()> {
        let totals = self.recovered.iter().fold(Totals::default(), |sum, immutable| sum.plus(&immutable.totals));
        let with_deletes = totals.plus(&kept_back(&self.options, false));
        let memtables = self.recovered.len() as u64;
        let indexed = KeyLengths::in_segments(&self.pool);
        let reserve = |grant, kept_back_bytes| match reserve(&self.pool, &self.tree, &grant, indexed, kept_back_bytes) {
            Err(Error::Full { .. }) => Ok(false),
            done => done.map(|()| true),
        };
        let with_deletes = Grant { totals: with_deletes, memtables: memtables + 1 };
        let _ = reserve(with_deletes, self.kept_back.segment_bytes())?
            || reserve(with_deletes, 0)?
            || reserve(Grant { totals, memtables }, 0)?;
        Ok(())
    }

    /// The same on the disk, for their table files.
    pub(crate) fn set_aside_for_recovered(&mut self) -> Result<()> {
        let (env, directory, options) = (&*self.options.env, &self.directory, &self.options);
        for Immutable { memtable, totals, space, .. } in &mut self.recovered {
            let space_bytes = table_bytes(options, totals);
            self.kept_back.expect(options, space_bytes);
            *space = ReservedFile::if_there_is(env, directory, memtable.generation(), space_bytes)?;
        }
        Ok(())
    }
}

impl<M: Medium + Clone> Store<M> {
    /// The ahead thread's part: sets aside what is wanted, and a step more where that can be had. Writers that wait are
    /// told, whether it came to something or not.
    pub(crate) fn set_aside(&self, wanted: Wanted) -> Result<()> {
        let mut from = TakenFrom::FreeSpace;
        loop {
            let space_returned = self.space_returned(&self.writes.traffic.lock());
            let full = match self.set_aside_from(from, &wanted) {
                Ok(()) => {
                    let mut traffic = self.writes.traffic.lock();
                    traffic.space_wanted = None;
                    self.writes.events.space_found(SpaceFor::Write);
                    self.writes.room.notify_all();
                    return Ok(());
                }
                Err(full @ Error::Full { .. }) => full,
                Err(error) => return Err(error),
            };
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
            let room = (&full, wanted.deletes_alone);
            let Some(traffic) = self.await_reclaim(traffic, space_returned, worth_flushing, room) else {
                return Ok(());
            };
            if !wanted.deletes_alone || from == TakenFrom::KeptBack {
                self.refuse(traffic, wanted, full);
                return Ok(());
            }
            from = TakenFrom::KeptBack;
        }
    }

    /// Sets aside what is wanted, if there is as much.
    fn set_aside_from(&self, from: TakenFrom, wanted: &Wanted) -> Result<()> {
        let (all, of_active, generation, space) = {
            let traffic = self.writes.traffic.lock();
            let active = traffic.active.as_ref();
            let of_active = active.map_or_else(Totals::default, |active| active.totals);
            let generation = active.map(|active| active.memtable.generation());
            (traffic.admitted, of_active, generation, active.and_then(|active| active.space.clone()))
        };
        let more = wanted.totals.plus(&kept_back(&self.options, wanted.deletes_alone));
        let needed = Grant { totals: more, memtables: memtables(0, wanted.deletes_alone) };
        let step = step_in_pool(&self.options, &all);
        let ahead = Grant { totals: more.plus(&step), memtables: needed.memtables + 1 };
        let kept_back_bytes = if from == TakenFrom::KeptBack { 0 } else { self.kept_back.segment_bytes() };
        let on_disk = table_bytes(&self.options, &of_active.plus(&more));
        let mut step_bytes = self.options.memtable_bytes / STEP_PART;
        if from == TakenFrom::KeptBack {
            self.ensure_ballast_for_deletes()?;
        } else {
            step_bytes = self.fill_ballast_expecting(on_disk, step_bytes)?;
        }
        match self.grant_in_pool(ahead, kept_back_bytes) {
            Err(Error::Full { .. }) => self.grant_in_pool(needed, kept_back_bytes),
            granted => granted,
        }?;
        let Some(generation) = generation else { return Ok(()) };
        let space = space.map_or_else(|| self.begin_space(generation), Ok)?;
        if from == TakenFrom::KeptBack {
            return self.raise_from_kept_back(&space, on_disk, table_bytes(&self.options, &more));
        }
        raise(on_disk, step_bytes, |bytes| space.raise(bytes))
    }

    /// Fills what is kept back for a table file of so many bytes, and a step more if that can be: says how large a step.
    pub(crate) fn fill_ballast_expecting(&self, on_disk: u64, step_bytes: u64) -> Result<u64> {
        let fill = |step_bytes| {
            let before_bytes = self.kept_back.expect(&self.options, on_disk.saturating_add(step_bytes));
            let filled = self.fill_ballast().inspect_err(|_| self.kept_back.expect_again(before_bytes));
            filled.map(|()| step_bytes)
        };
        match fill(step_bytes) {
            Err(Error::Full { .. }) => fill(0),
            filled => filled,
        }
    }

    /// Raises what a table file of deletes has to `on_disk`, also by what is kept back, but for what is for others. `more_bytes`: what
    /// these deletes alone take.
    fn raise_from_kept_back(&self, space: &ReservedFile, on_disk: u64, more_bytes: u64) -> Result<()> {
        let kept_back = &self.kept_back;
        let is_small = more_bytes <= kept_back.for_deletes_bytes();
        let spared_bytes = if is_small { kept_back.for_one_file_bytes() } else { kept_back.least_bytes() };
        let left_bytes = || kept_back.length_bytes().saturating_sub(spared_bytes);
        let free_bytes = self.env.available_bytes(&self.directory).unwrap_or(u64::MAX);
        let beside_bytes = kept_back.length_bytes().saturating_add(free_bytes).saturating_sub(spared_bytes);
        let had_bytes = beside_bytes.saturating_add(space.length_bytes());
        if had_bytes < on_disk {
            return Err(space.full("what is left is for compactions"));
        }
        // Not for this one alone, if that can be: who comes next would have it flushed to get as much.
        let with_a_step = on_disk + BALLAST_STEP_BYTES;
        let needed_bytes = if had_bytes >= with_a_step { with_a_step } else { on_disk };
        loop {
            match space.raise(needed_bytes) {
                Err(Error::Full { .. }) if left_bytes() > 0 => {
                    kept_back.lower_by(left_bytes().min(BALLAST_STEP_BYTES).min(needed_bytes))?
                }
                raised => return raised,
            };
        }
    }

    /// Disk space for the table file of the active MemTable, which has none yet.
    fn begin_space(&self, generation: u64) -> Result<Arc<ReservedFile>> {
        let space = Arc::new(ReservedFile::new(&*self.env, &self.directory, generation)?);
        let mut traffic = self.writes.traffic.lock();
        match &mut traffic.active {
            Some(active) if active.memtable.generation() == generation => active.space = Some(space.clone()),
            // It was full meanwhile: its flush does without.
            _ => space.discard(&*self.env)?,
        }
        Ok(space)
    }

    /// Provides in the pool for the flush of so much more than what was admitted, and keeps back so much beside it.
    fn grant_in_pool(&self, more: Grant, kept_back_bytes: u64) -> Result<()> {
        let indexed = self.indexed_keys.lock();
        let grant = {
            let mut traffic = self.writes.traffic.lock();
            let totals = traffic.admitted.plus(&more.totals);
            let grant = Grant { totals, memtables: traffic.immutables as u64 + more.memtables };
            // Less than before, perhaps; and writers are at work meanwhile.
            traffic.granted_in_pool = traffic.granted_in_pool.at_most(&grant);
            grant
        };
        reserve(&self.pool, &self.tree, &grant, *indexed, kept_back_bytes)?;
        self.writes.traffic.lock().granted_in_pool = grant;
        Ok(())
    }

    /// Tells those who wait that it is full.
    fn refuse(&self, mut traffic: MutexGuard<'_, MemTables<M>>, wanted: Wanted, cause: Error) {
        traffic.space_wanted = None;
        self.writes.events.space_refused(SpaceFor::Write, &cause);
        traffic.setbacks.record_space(wanted, cause);
        let has_large_arena = |active: &Filling<M>| self.writes.arenas.is_large(active.memtable.capacity_bytes());
        if traffic.immutables == 0 && traffic.active.as_ref().is_some_and(has_large_arena) && !traffic.closing {
            // Made for what is refused now, and nothing is in it: others need the space.
            let spare = traffic.spare.take();
            self.writes.make_immutable(&mut traffic, spare);
        }
        self.writes.room.notify_all();
    }

    /// How often space has been given back: who found none before may find some now.
    pub(crate) fn space_returned(&self, traffic: &MemTables<M>) -> u64 {
        traffic.space_returned + self.retired.returned()
    }

    /// Returns `None` if the caller should try again: space was given back since `space_returned`, or something that may bring some
    /// was waited for. That is a flush, which begins now if the active MemTable is worth one; or a compaction, which begins
    /// if there is garbage; or a reader that is still in what a compaction gave back. The last argument: what was full, and
    /// whether the least garbage is worth a compaction, as it is for deletes.
    pub(crate) fn await_reclaim<'a>(
        &'a self,
        mut traffic: MutexGuard<'a, MemTables<M>>,
        space_returned: u64,
        worth_flushing: bool,
        (full, at_any_cost): (&Error, bool),
    ) -> Option<MutexGuard<'a, MemTables<M>>> {
        // Before it is asked what has been given back: they are counted before they have gone.
        let awaits_readers = self.lacking(full) == Lacking::Pool && self.retired.awaits_readers();
        if self.space_returned(&traffic) != space_returned {
            return None;
        }
        if traffic.closing || self.has_failed() {
            return Some(traffic);
        }
        if let Some(setback) = &traffic.flush_setback {
            // Compactions are committed after this flush, so they bring nothing before it goes on. It may do so in a moment: a
            // delete, the way out, is not refused for that.
            if !at_any_cost || setback.since.elapsed() >= FLUSH_PATIENCE {
                return Some(traffic);
            }
            drop(self.writes.work.wait_timeout(traffic, FLUSH_PAUSE));
            return None;
        }
        if traffic.immutables == 0 && worth_flushing {
            let spare = traffic.spare.take();
            self.writes.make_immutable(&mut traffic, spare);
        }
        if awaits_readers {
            // Nobody tells when they have gone.
            drop(self.writes.work.wait_timeout(traffic, READERS_PAUSE));
            epoch::pin().flush();
            return None;
        }
        if traffic.immutables == 0 && !self.may_make_room(full, at_any_cost) {
            return Some(traffic);
        }
        drop(self.writes.work.wait(traffic));
        None
    }

    /// A compaction has given back space in the pool: what is granted and kept back is set aside as far as it was not.
    pub(crate) fn reserve_again(&self) -> Result<()> {
        let indexed = self.indexed_keys.lock();
        let granted = self.writes.traffic.lock().granted_in_pool;
        reserve(&self.pool, &self.tree, &granted, *indexed, self.kept_back.segment_bytes())
    }

    /// A MemTable has been flushed: what was set aside for it in the pool and not used is free again.
    pub(crate) fn release_in_pool(&self, flushed: &Totals) -> Result<()> {
        let mut indexed = self.indexed_keys.lock();
        indexed.add_all(flushed.long_keys);
        let granted = {
            let mut traffic = self.writes.traffic.lock();
            traffic.admitted = traffic.admitted.minus(flushed);
            traffic.immutables -= 1;
            traffic.space_returned += 1;
            traffic.granted_in_pool = traffic.granted_in_pool.minus(flushed);
            traffic.granted_in_pool
        };
        match reserve(&self.pool, &self.tree, &granted, *indexed, self.kept_back.segment_bytes()) {
            // The bound does not know how much of the worst has happened already. What was granted is there.
            Err(Error::Full { .. }) => Ok(()),
            done => done,
        }
    }
}

/// Raises to `bytes` and a `step`, or at least to `bytes`.
fn raise(bytes: u64, step: u64, to: impl Fn(u64) -> Result<()>) -> Result<()> {
    match to(bytes.saturating_add(step)) {
        Err(Error::Full { .. }) => to(bytes),
        done => done,
    }
}
