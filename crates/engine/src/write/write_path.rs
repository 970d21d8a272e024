//! The write path (paper, sections 3.1 and 4 «Put»).
//!
//! 1. A batch comes encoded. Under one short lock it is admitted ([`crate::space::allowance`]) and gets a place in the
//!    active MemTable's arena, sequence numbers, and a turn to be published.
//! 2. Everything expensive (copying, linking, writing back cache lines) happens outside the lock, in parallel with
//!    other writers, and can't fail (INV-2).
//! 3. The write is published, and returns when publication covers it (INV-1).
//!
//! When the place does not fit, the writer makes the spare MemTable the active one, and queues the full one for its
//! flush. The [MemTable preparer](super::memtable_preparer) makes spares before they are needed. When flushes fall
//! behind, writers are slowed before they have to wait ([`crate::stall::pacing`]).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use slmdb_env::Result;
use slmdb_pmem::{AnyMedium, ArenaKind};
use slmdb_structures::log::{Log, Payload, Reservation};
use slmdb_structures::memtable::MemTable;
use slmdb_sync::scheduled::atomic::AtomicU64;
use slmdb_sync::scheduled::{ArcSwap, Condvar, Mutex, MutexGuard, thread};

use super::arena_kind::{KindOfArena, Step};
use super::arenas::Arenas;
use super::group_commit::GroupSync;
use super::memtables::{Filling, Immutable, MemTableView, MemTables};
use super::publication::{Publication, Ticket};
use super::write_stall::WriteStall;
use crate::background::bell::Bell;
use crate::background::crew::Next;
use crate::context::{StoreContext, closed};
use crate::read::empty_ranges::EmptyRanges;
use crate::sharing::memtables::{ActiveMemTable, ToldMemTable};
use crate::space::allowance::{Request, Taken};
use crate::space::space_errors::SpaceErrors;
use crate::stall::pacing::Pacing;
use crate::stall::stall_stats::StallCause;
use crate::{VerifyReport, WriteBatch, lock_order};

/// How often a caller that waits for a job looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Where a write goes, and its turn. See [`WritePath::place`].
pub(super) struct Place {
    pub(super) memtable: Arc<MemTable<AnyMedium>>,
    pub(super) reservation: Reservation,
    pub(super) ticket: Ticket,
    pub(super) first_sequence: u64,
    pub(super) last_sequence: u64,
}

/// What writes go through, and what they share with the engine's background threads.
pub struct WritePath {
    pub(super) context: Arc<StoreContext>,

    /// Where MemTables' arenas come from.
    pub arenas: Arenas,
    /// Chooses the kind of the next arena.
    pub kind_of_arena: KindOfArena,
    /// The MemTables whose entries are not in table files yet, newest first. A reader takes one list and keeps it
    /// (INV-9).
    pub view: ArcSwap<MemTableView>,
    /// Which sequence numbers readers see.
    pub publication: Publication,
    /// Ranges of keys that have no value, which cursors skip.
    pub empty_ranges: EmptyRanges,
    /// Which sequence numbers would survive a power cut.
    pub group_sync: GroupSync,
    /// The MemTables, what is admitted to them, and which threads wait for what. Every put takes this lock, so nothing
    /// is written, synced or allocated under it (INV-4).
    pub memtables: Mutex<MemTables>,
    /// Writers, and callers of a flush, wait here: for room in the queue, a spare, a failure.
    pub work_done: Condvar,
    /// Steps of background work wait here.
    pub work_to_do: Condvar,
    /// Rung where there may be something to do for flushes, for the preparer of MemTables, or for the engine.
    pub bell: Arc<Bell>,
    /// Everything up to here is durable in table files.
    pub flushed_through: AtomicU64,
    /// How far writers are slowed.
    pub pacing: Pacing,
    /// What stores that [share](crate::Shared) know of the active MemTable.
    told: ToldMemTable,
}

impl ActiveMemTable for WritePath {
    fn told(&self) -> &ToldMemTable {
        &self.told
    }

    fn bytes(&self) -> u64 {
        let memtables = self.memtables.lock();
        let active = memtables.active.as_ref().filter(|active| active.totals.entries > 0);
        active.map_or(0, |Filling { memtable, .. }| {
            memtable.memory_bytes() + memtable.arena().dram_bytes(memtable.used_bytes())
        })
    }

    fn flush_early(&self) {
        let mut memtables = self.memtables.lock();
        let has_room = memtables.immutables < self.context.options.immutable_memtables_max;
        let is_worth_it = memtables.active.as_ref().is_some_and(|active| active.totals.entries > 0);
        if has_room && is_worth_it && !memtables.closing && !self.context.has_failed() {
            let next = memtables.spare.take_if(|spare| spare.does_for(&Request::default()));
            self.make_immutable(&mut memtables, next);
        }
    }
}

impl Drop for WritePath {
    fn drop(&mut self) {
        if let Some(shared) = &self.context.options.shared {
            shared.memtables().leave(self);
        }
    }
}

/// What recovery found, for [`WritePath::new`].
pub struct RecoveredWrites {
    /// The arenas of the store.
    pub arenas: Arenas,
    /// The MemTable that takes writes. `None` in a read-only store, or one that has no space for it.
    pub active: Option<Filling>,
    /// The first sequence number that the active MemTable has or would get.
    pub active_from: u64,
    /// Recovered MemTables, oldest first.
    pub recovered: Vec<Immutable>,
    /// The last sequence number that was handed out.
    pub last_sequence: u64,
    /// The last sequence number that is in table files.
    pub flushed_through: u64,
}

impl WritePath {
    /// The write path of a store that has just been opened.
    pub fn new(context: Arc<StoreContext>, found: RecoveredWrites) -> WritePath {
        let options = &context.options;
        let RecoveredWrites { arenas, active, active_from, recovered, last_sequence, flushed_through } = found;
        let newest_first = active.iter().map(|active| &active.memtable);
        let newest_first =
            newest_first.chain(recovered.iter().rev().map(|immutable| &immutable.memtable)).cloned().collect();
        let totals = active.iter().map(|active| &active.totals);
        let totals = totals.chain(recovered.iter().map(|immutable| &immutable.totals));
        let longest_key_bytes = totals.map(|totals| totals.longest_key_bytes).max();
        let taken = recovered.last().map(|last| Taken { totals: last.totals, arena_bytes: last.memtable.used_bytes() });
        let memtables = MemTables {
            active,
            next_sequence: last_sequence + 1,
            active_from,
            spare: None,
            wanted: None,
            is_short_of_space: false,
            last_taken: taken.unwrap_or_default(),
            longest_key_bytes: longest_key_bytes.unwrap_or(0),
            immutables: recovered.len(),
            is_part_under_way: false,
            queue: if options.read_only { VecDeque::new() } else { recovered.into() },
            space_errors: SpaceErrors::default(),
            space_returned: 0,
            blocked_flush: None,
            last_flush_end_ns: 0,
            closing: false,
        };
        WritePath {
            arenas,
            kind_of_arena: KindOfArena::new(options.syncs_writes),
            view: ArcSwap::from_pointee(MemTableView { memtables: newest_first }),
            publication: Publication::new(last_sequence),
            empty_ranges: EmptyRanges::new(context.options.comparator.clone()),
            group_sync: GroupSync::new(last_sequence),
            memtables: Mutex::ranked(lock_order::MEMTABLES, memtables),
            work_done: Condvar::new(),
            work_to_do: Condvar::new(),
            bell: Arc::default(),
            flushed_through: AtomicU64::new(flushed_through),
            pacing: Pacing::default(),
            told: ToldMemTable::default(),
            context,
        }
    }

    /// Wakes all waiting threads, because the store has failed or closes.
    /// LOCKS: memtables
    pub fn wake(&self) {
        let memtables = self.memtables.lock();
        self.work_done.notify_all();
        self.wake_work();
        drop(memtables);
    }

    /// Has background work look whether there is something to do.
    /// LOCKS: memtables (held)
    pub fn wake_work(&self) {
        self.work_to_do.notify_all();
        self.bell.ring();
    }

    /// Whether a job that finds no space is left to the next opening: the store closes, or has failed.
    /// LOCKS: memtables
    pub fn gives_up(&self) -> bool {
        self.context.has_failed() || self.memtables.lock().closing
    }

    /// The oldest MemTable that is to be flushed, once its last place is filled (INV-5). If there is none: what follows. There will
    /// be none if the store has failed, or closes.
    /// LOCKS: memtables; publication
    pub fn next_immutable(&self) -> std::result::Result<Immutable, Next> {
        let immutable = {
            let mut memtables = self.memtables.lock();
            if self.context.has_failed() {
                return Err(Next::End);
            }
            // What its ranges come to, only the table files tell.
            let is_oldest = !memtables.is_part_under_way && memtables.immutables == memtables.queue.len();
            match memtables.queue.front() {
                // What is left of it, the next opening finds.
                Some(next) if memtables.closing && next.flushed_through > 0 => return Err(Next::End),
                Some(next) if next.range_deletes > 0 && !is_oldest => {
                    return Err(if memtables.closing { Next::End } else { Next::Wait(None) });
                }
                _ => {}
            }
            match memtables.queue.pop_front() {
                Some(immutable) => immutable,
                None if memtables.closing => return Err(Next::End),
                None => return Err(Next::Wait(None)),
            }
        };
        self.publication.wait_for(immutable.last_sequence);
        Ok(immutable)
    }

    /// All versions with numbers up to this one are in the tier, given how far it says that flushes came. They may have come in between
    /// the [parts](crate::flush::range_deletes) of a MemTable: then more deletes come with the last number.
    pub fn complete_through(&self, flushed_through: u64) -> u64 {
        let is_between = |memtable: &Arc<MemTable<AnyMedium>>| {
            memtable.deleted_ranges().is_some_and(|ranges| ranges.has_number(flushed_through))
        };
        let is_between_parts = self.view.load().memtables.iter().any(is_between);
        flushed_through - u64::from(is_between_parts)
    }

    /// Puts back what is left of a MemTable, of which a part is flushed now.
    /// LOCKS: memtables
    pub fn part_begins(&self, rest: Immutable) {
        let mut memtables = self.memtables.lock();
        memtables.is_part_under_way = true;
        memtables.queue.push_front(rest);
    }

    /// Takes note that a part of a MemTable is flushed.
    /// LOCKS: memtables
    pub fn part_ended(&self, last_sequence: u64) {
        let mut memtables = self.memtables.lock();
        memtables.is_part_under_way = false;
        memtables.space_returned += 1;
        self.flushed_through.store(last_sequence, Ordering::Release);
        self.group_sync.advance(last_sequence);
        self.work_done.notify_all();
        self.wake_work();
    }

    /// Takes a flushed MemTable from the readers' list (INV-9). What it has must be found elsewhere by now.
    /// LOCKS: memtables
    pub fn take_from_view(&self, memtable: &Arc<MemTable<AnyMedium>>) {
        let _traffic = self.memtables.lock();
        self.remove_from_view(memtable);
    }

    /// Takes a MemTable from the readers' list.
    /// LOCKS: memtables (held)
    pub fn remove_from_view(&self, memtable: &Arc<MemTable<AnyMedium>>) {
        let view = self.view.load_full();
        let rest = view.memtables.iter().filter(|other| !Arc::ptr_eq(other, memtable)).cloned().collect();
        self.view.store(Arc::new(MemTableView { memtables: rest }));
    }

    /// Takes note of the end of a flush, which took `bytes` from a MemTable if it took all of it, and wakes the threads that wait for
    /// it.
    /// LOCKS: memtables
    pub fn flush_ended(&self, last_sequence: u64, bytes: Option<u64>, began_ns: u64) {
        let now_ns = self.context.env.monotonic_ns();
        let mut memtables = self.memtables.lock();
        if let Some(bytes) = bytes {
            self.pacing.flushed(bytes, now_ns.saturating_sub(began_ns.max(memtables.last_flush_end_ns)));
        }
        memtables.last_flush_end_ns = now_ns;
        self.set_pace(&memtables);
        self.flushed_through.store(last_sequence, Ordering::Release);
        self.group_sync.advance(last_sequence);
        self.work_done.notify_all();
        self.wake_work();
    }

    /// Sets how far writers are slowed.
    /// LOCKS: memtables (held)
    pub fn set_pace(&self, memtables: &MemTables) {
        self.pacing.set_flush_debt(memtables.debt(&self.context.options));
        self.context
            .events
            .paced(StallCause::Pace, self.pacing.is_limited_by(StallCause::Pace), || self.context.env.monotonic_ns());
    }

    /// See [`crate::Engine::write`].
    pub fn write(&self, batch: &WriteBatch, sync: bool) -> Result<()> {
        if batch.is_empty() {
            return if sync { self.sync() } else { self.context.check_writable() };
        }
        self.pace(batch.user_bytes());
        let place = self.place(batch)?;
        let payload = batch.payload();
        place.memtable.fill(place.reservation, payload, place.first_sequence, self.known_safe_sequence());
        self.empty_ranges.note_puts(batch);
        self.publish(place.ticket, place.last_sequence);
        self.count_filled(&place.memtable, payload);
        self.count_put(batch);
        if sync { self.sync_through(place.last_sequence) } else { Ok(()) }
    }

    /// Sleeps if flushes or compactions have fallen behind; see [`crate::stall::pacing`].
    pub(super) fn pace(&self, bytes: u64) {
        if !self.pacing.is_limited() {
            return;
        }
        let start_ns = self.context.env.monotonic_ns();
        if let Some((pause, waits_for)) = self.pacing.pause(bytes, start_ns) {
            thread::sleep(pause);
            let slept_ns = self.context.env.monotonic_ns() - start_ns;
            self.context.counted.stalls.add(waits_for, slept_ns);
            if waits_for == StallCause::Compaction && self.pacing.has_idle_compaction_thread() {
                self.context.counted.stalls.add_compaction_idle(slept_ns);
            }
        }
    }

    /// Reserves what a batch needs: a place in the arena of a MemTable that has space for its flush, sequence numbers, a
    /// turn to be published. From here to [`WritePath::publish`] nothing may fail (INV-2): a place that stays empty
    /// would end the log, and hold up all later writes.
    /// LOCKS: memtables
    pub(super) fn place(&self, batch: &WriteBatch) -> Result<Place> {
        let payload = batch.payload();
        let mut memtables = self.memtables.lock();
        let mut stall = None;
        // Until a place is had. Each wait gives the lock back, so everything is checked again after it.
        let (memtable, reservation) = loop {
            self.context.check_writable()?;
            if memtables.closing {
                return Err(closed());
            }
            if let Some(active) = &mut memtables.active
                && active.admits(batch)
                && let Some(reservation) = active.memtable.try_reserve(payload.len_bytes(), payload.count())
            {
                active.admit(batch);
                break (active.memtable.clone(), reservation);
            }
            let stall = stall.get_or_insert_with(|| self.stall(&memtables));
            let form = self.context.options.memtable(self.arenas.are_in_pool()).links.form();
            let record_bytes = form.space_for(payload.len_bytes(), payload.count());
            let arena_bytes = record_bytes.saturating_add(form.first_record_offset());
            memtables = self.rotate(memtables, Request { arena_bytes, totals: *batch.totals() }, stall)?;
        };
        // From here on nothing fails. Sequence numbers, and turns to be published, are handed out in one order (INV-3).
        let first_sequence = memtables.next_sequence;
        let last_sequence = first_sequence + u64::from(payload.count()) - 1;
        memtables.next_sequence = last_sequence + 1;
        let ticket = self.publication.begin(last_sequence);
        if memtables.immutables > 0 {
            self.set_pace(&memtables);
        }
        // Half full: have the next MemTable made.
        if memtables.spare.is_none()
            && memtables.wanted.is_none()
            && memtables.active.as_ref().is_some_and(Filling::is_half_full)
        {
            self.want_spare(&mut memtables);
        }
        Ok(Place { memtable, reservation, ticket, first_sequence, last_sequence })
    }

    /// Publishes a filled place. Returns once readers see it and everything before it (INV-1).
    pub(super) fn publish(&self, ticket: Ticket, last_sequence: u64) {
        self.publication.complete(ticket);
        self.publication.wait_for(last_sequence);
    }

    /// Counts the keys and values of an applied batch.
    /// LOCKS: arenas; memtables
    pub(super) fn count_put(&self, batch: &WriteBatch) {
        self.context.counted.user_bytes_put.fetch_add(batch.user_bytes(), Ordering::Relaxed);
        if let Some(shared) = &self.context.options.shared {
            shared.memtables().wrote(self, batch.user_bytes());
        }
    }

    /// Counts the bytes written to a filled place.
    pub(super) fn count_filled(&self, log: &Log<AnyMedium>, payload: &Payload) {
        if !self.arenas.are_in_pool() {
            let record_bytes = log.form().space_for(payload.len_bytes(), payload.count());
            self.context.counted.file_bytes_written.fetch_add(record_bytes, Ordering::Relaxed);
        }
    }

    /// The sequence number up to which everything survives the worst that the medium promises to survive. Every record
    /// carries it, so later records vouch for earlier ones.
    pub(super) fn known_safe_sequence(&self) -> u64 {
        if self.arenas.are_in_pool() { self.publication.published() } else { self.group_sync.synced() }
    }

    /// The stall of a writer that may have to wait, and does not yet.
    /// LOCKS: memtables (held)
    fn stall(&self, memtables: &MemTables) -> WriteStall<'_> {
        WriteStall {
            errors_before: memtables.space_errors.count(),
            work_done: &self.work_done,
            env: &*self.context.env,
            events: &self.context.events,
            counters: &self.context.counted.stalls,
            waits_for: None,
        }
    }

    /// Replaces the active MemTable by one that does for a request, or waits for what that needs. The caller then
    /// tries again. An error, if what it waits for was refused since its stall began.
    /// LOCKS: memtables (held)
    fn rotate<'a>(
        &'a self,
        mut memtables: MutexGuard<'a, MemTables>,
        request: Request,
        stall: &mut WriteStall<'_>,
    ) -> Result<MutexGuard<'a, MemTables>> {
        if memtables.closing {
            return Err(closed());
        }
        let has_room = memtables.immutables < self.context.options.immutable_memtables_max;
        if has_room && let Some(spare) = memtables.spare.take_if(|spare| spare.does_for(&request)) {
            self.make_immutable(&mut memtables, Some(spare));
            return Ok(memtables);
        }
        let waits_for = if !has_room {
            memtables.space_errors.check_flush(stall.errors_before)?;
            StallCause::Flush
        } else {
            memtables.space_errors.check_memtable(stall.errors_before, &request)?;
            memtables.want(request, true);
            if memtables.is_short_of_space { StallCause::Space } else { StallCause::MemTable }
        };
        self.wake_work();
        Ok(stall.wait(memtables, waits_for))
    }

    /// Makes the active MemTable an Immutable MemTable. `next` takes the writes from then on. Without one, writers wait
    /// until the flush has given the arena back.
    /// LOCKS: memtables (held)
    pub fn make_immutable(&self, memtables: &mut MemTables, next: Option<Filling>) {
        if let Some(next) = &next {
            let view = self.view.load();
            let newest_first = std::iter::once(next.memtable.clone()).chain(view.memtables.iter().cloned()).collect();
            self.view.store(Arc::new(MemTableView { memtables: newest_first }));
        }
        if let Some(full) = std::mem::replace(&mut memtables.active, next) {
            if full.totals.entries > 0 {
                memtables.last_taken = full.taken();
            }
            memtables.queue.push_back(Immutable::new(full, memtables.next_sequence - 1));
            memtables.immutables += 1;
        }
        memtables.active_from = memtables.next_sequence;
        self.wake_work();
    }

    /// Asks the MemTable preparer for a spare, for which no writer waits yet.
    /// LOCKS: memtables (held)
    pub fn want_spare(&self, memtables: &mut MemTables) {
        memtables.want(Request::default(), false);
        self.wake_work();
    }

    /// Takes what flushes and compactions hold, as soon as they let go of it. `take` tries that. Fails if one of them finds
    /// no space meanwhile, because it may wait for that without end.
    /// LOCKS: memtables; those of `take` (tried)
    pub fn take_from_jobs<T>(&self, take: impl Fn() -> Result<Option<T>>) -> Result<T> {
        let mut memtables = self.memtables.lock();
        let space_errors = memtables.space_errors.count();
        loop {
            if let Some(taken) = take()? {
                return Ok(taken);
            }
            memtables.space_errors.check_flush(space_errors)?;
            // Another caller may hold it, and the end of that wakes nobody.
            memtables = self.work_done.wait_timeout(memtables, LOOK_AGAIN);
        }
    }

    /// See [`crate::Engine::flush`].
    pub fn flush(&self) -> Result<()> {
        self.context.check_writable()?;
        let mut memtables = self.memtables.lock();
        let target = memtables.next_sequence - 1;
        let mut stall = self.stall(&memtables);
        loop {
            self.context.check_writable()?;
            if self.flushed_through.load(Ordering::Acquire) >= target {
                return Ok(());
            }
            if memtables.active.is_some() && memtables.active_from <= target {
                memtables = self.rotate(memtables, Request::default(), &mut stall)?;
                continue;
            }
            memtables.space_errors.check_flush(stall.errors_before)?;
            memtables = self.work_done.wait(memtables);
        }
    }

    /// Checks that everything that was acknowledged and is in MemTables is there as it was written.
    pub fn verify_memtables(&self, report: &mut VerifyReport) {
        let through = self.publication.published();
        for memtable in &self.view.load().memtables {
            report.memtable_entries += memtable.entries();
            report.findings.extend(memtable.verify(through).err());
        }
    }

    /// See [`crate::Engine::sync`].
    pub fn sync(&self) -> Result<()> {
        self.context.check_writable()?;
        self.sync_through(self.publication.published())
    }

    /// Returns once everything up to `sequence` would survive a power cut.
    /// LOCKS: group sync
    pub(super) fn sync_through(&self, sequence: u64) -> Result<()> {
        if self.arenas.are_in_pool() {
            return Ok(());
        }
        let sync = || {
            self.context.check_writable()?;
            self.sync_arenas()
        };
        let clock_ns = || self.context.env.monotonic_ns();
        self.group_sync.through(sequence, || self.publication.published(), clock_ns, sync)
    }

    /// Syncs every arena with records that are not on the device. A failure stops all writing, because what a failed
    /// fsync has left behind is unknown (INV-27).
    pub fn sync_arenas(&self) -> Result<()> {
        let synced = self.group_sync.synced();
        self.suit_arena_to_syncs();
        for memtable in &self.view.load().memtables {
            if memtable.last_sequence().is_some_and(|last| last > synced) {
                memtable.sync().inspect_err(|error| self.context.fail(error.clone()))?;
            }
        }
        Ok(())
    }

    /// Counts a sync. A store that has begun to sync gets an arena for that, and the one that it has ends early; see
    /// [`super::arena_kind`].
    /// LOCKS: memtables, if something is to be done
    fn suit_arena_to_syncs(&self) {
        let Some(kind) = self.view.load().memtables.first().map(|newest| newest.arena().kind()) else { return };
        let bytes_put = self.context.counted.user_bytes_put.load(Ordering::Relaxed);
        let step = self.kind_of_arena.synced(kind, bytes_put);
        if step == Step::Stay {
            return;
        }
        let mut memtables = self.memtables.lock();
        if memtables.closing || memtables.active.is_none() {
            return;
        }
        match memtables.spare.as_ref().map(|spare| spare.memtable.arena().kind()) {
            Some(ArenaKind::Synced) => {
                let is_empty = memtables.active_from >= memtables.next_sequence;
                if !is_empty && memtables.immutables < self.context.options.immutable_memtables_max {
                    let spare = memtables.spare.take();
                    self.make_immutable(&mut memtables, spare);
                }
            }
            // It is being made.
            None if memtables.wanted.is_some() => {}
            None if step == Step::Ask => self.want_spare(&mut memtables),
            // One was made before, or there was no space for it.
            _ => self.kind_of_arena.begin_anew(),
        }
    }
}
