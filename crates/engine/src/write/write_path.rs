//! The write path (paper, sections 3.1 and 4 «Put»).
//!
//! A batch comes encoded. Under one short lock it is admitted ([`crate::space::admission`]) and gets a place in the active
//! MemTable's arena and its sequence numbers; everything dear (copying, linking, writing back cache lines) happens outside,
//! in parallel with other writers, and can't fail. Then the write is published, and returns when publication covers it.
//!
//! When the place does not fit, the writer makes the spare MemTable the active one and queues the full one for its flush.
//! Spares are made ahead, by a thread of the engine. When flushes fall behind, writers are slowed before they have to wait
//! ([`crate::stall::pacing`]).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use slmdb_env::Result;
use slmdb_pmem::Medium;
use slmdb_structures::memtable::{MemTable, Payload, Reservation};
use slmdb_sync::scheduled::atomic::AtomicU64;
use slmdb_sync::scheduled::{ArcSwap, Condvar, Mutex, MutexGuard, thread};

use super::arena_kind::KindOfArena;
use super::arenas::Arenas;
use super::group_commit::GroupSync;
use super::memtables::{Filling, Immutable, MemTables, View, admission};
use super::publication::{Publication, Ticket};
use super::write_stall::WriteStall;
use crate::background::health::closed;
use crate::batch::Totals;
use crate::context::StoreContext;
use crate::space::admission::{Admission, Wanted};
use crate::space::flush_cost::Grant;
use crate::space::space_errors::SpaceErrors;
use crate::stall::pacing::Pacing;
use crate::stall::stall_stats::StallCause;
use crate::{WriteBatch, lock_order};

/// Where a write goes, and when its turn comes. See [`WritePath::place`].
pub(super) struct Place<M: Medium> {
    pub(super) memtable: Arc<MemTable<M>>,
    pub(super) reservation: Reservation,
    pub(super) ticket: Ticket,
    pub(super) first_sequence: u64,
    pub(super) last_sequence: u64,
}

/// What writes go through, and what they share with the engine's background threads.
pub struct WritePath<M: Medium> {
    pub(super) context: Arc<StoreContext>,

    /// Where MemTables' arenas come from.
    pub arenas: Arenas<M>,
    /// The kind that the next arena is to be of.
    pub kind_of_arena: KindOfArena,
    /// The MemTables that hold what is not in table files yet, newest first. A reader takes one list and keeps it.
    pub view: ArcSwap<View<M>>,
    /// What readers see.
    pub publication: Publication,
    /// What would outlive a power cut.
    pub group_sync: GroupSync,
    /// The MemTables, what is admitted to them, and who waits for what.
    pub traffic: Mutex<MemTables<M>>,
    /// Something that a writer (or a flush's caller) waits for has come: room in the queue, a spare, a failure.
    pub room: Condvar,
    /// Something that a background thread waits for has come.
    pub work: Condvar,
    /// Everything up to here is in table files, durably.
    pub flushed_through: AtomicU64,
    /// How much writers are slowed.
    pub pacing: Pacing,
}

/// What recovery found, for [`WritePath::new`].
pub struct Found<M: Medium> {
    /// The arenas of the store.
    pub arenas: Arenas<M>,
    /// The MemTable that takes writes; none in a store that is read-only, or that has no space for one.
    pub active: Option<Filling<M>>,
    /// The first sequence number that the active MemTable has or would get.
    pub active_from: u64,
    /// Recovered MemTables, oldest first, each with its last sequence number.
    pub recovered: Vec<Immutable<M>>,
    /// The last sequence number that was handed out.
    pub last_sequence: u64,
    /// The last sequence number that is in table files.
    pub flushed_through: u64,
}

impl<M: Medium + Clone> WritePath<M> {
    /// That of a store that has just been opened.
    pub fn new(context: Arc<StoreContext>, found: Found<M>) -> WritePath<M> {
        let options = &context.options;
        let Found { arenas, active, active_from, recovered, last_sequence, flushed_through } = found;
        let memtables = active.iter().map(|active| &active.memtable);
        let memtables = memtables.chain(recovered.iter().rev().map(|immutable| &immutable.memtable)).cloned().collect();
        let totals = active.iter().map(|active| &active.totals);
        let totals = totals.chain(recovered.iter().map(|immutable| &immutable.totals));
        let admitted = totals.fold(Totals::default(), |sum, totals| sum.plus(totals));
        let traffic = MemTables {
            active,
            next_sequence: last_sequence + 1,
            active_from,
            spare: None,
            spare_wanted_bytes: 0,
            spare_waited_for: false,
            admitted,
            granted_in_pool: Grant { totals: admitted, memtables: recovered.len() as u64 + 1 },
            space_wanted: None,
            immutables: recovered.len(),
            queue: if options.read_only { VecDeque::new() } else { recovered.into() },
            setbacks: SpaceErrors::default(),
            space_returned: 0,
            flush_setback: None,
            last_flush_end_ns: 0,
            closing: false,
        };
        WritePath {
            arenas,
            kind_of_arena: KindOfArena::new(options.syncs_writes),
            view: ArcSwap::from_pointee(View { memtables }),
            publication: Publication::new(last_sequence),
            group_sync: GroupSync::new(last_sequence),
            traffic: Mutex::ranked(lock_order::TRAFFIC, traffic),
            room: Condvar::new(),
            work: Condvar::new(),
            flushed_through: AtomicU64::new(flushed_through),
            pacing: Pacing::default(),
            context,
        }
    }

    /// Whoever waits looks again: the store has failed, or closes.
    pub fn wake(&self) {
        let traffic = self.traffic.lock();
        self.room.notify_all();
        self.work.notify_all();
        drop(traffic);
    }

    /// Whether a job that finds no space is left to the next opening: the store closes, or has failed.
    pub fn gives_up(&self) -> bool {
        self.context.has_failed() || self.traffic.lock().closing
    }

    /// Settles how much writers are slowed. The caller holds the traffic's lock.
    pub fn set_pace(&self, traffic: &MemTables<M>) {
        self.pacing.set_flush_debt(traffic.debt(&self.context.options));
        self.context
            .events
            .paced(StallCause::Pace, self.pacing.is_limited_by(StallCause::Pace), || self.context.env.monotonic_ns());
    }

    /// Asks the ahead thread for more space. Of several that wait the one that wants least comes first.
    pub fn want_space(&self, traffic: &mut MemTables<M>, mine: Wanted) {
        let wanted = traffic.space_wanted.get_or_insert_default();
        if mine.is_waited_for() && (!wanted.is_waited_for() || mine.is_at_most(wanted)) {
            *wanted = mine;
        }
        self.work.notify_all();
    }

    /// See [`crate::Engine::write`].
    pub fn write(&self, batch: &WriteBatch, sync: bool) -> Result<()> {
        self.context.check_writable()?;
        if batch.is_empty() {
            return if sync { self.sync() } else { Ok(()) };
        }
        self.pace(batch.user_bytes());
        let place = self.place(batch)?;
        let payload = batch.payload();
        place.memtable.fill(place.reservation, payload, place.first_sequence, self.known_safe_sequence());
        self.publish(place.ticket, place.last_sequence);
        self.count_filled(payload);
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
            self.context.counted.stalls.add(waits_for, self.context.env.monotonic_ns() - start_ns);
        }
    }

    /// Reserves what a batch needs: space for its flush, room in the active MemTable's arena, sequence numbers, a turn to be
    /// published. From here to [`WritePath::publish`] nothing may fail: a place that stays empty would end the log, and hold up
    /// all later writes.
    pub(super) fn place(&self, batch: &WriteBatch) -> Result<Place<M>> {
        let payload = batch.payload();
        let links = self.context.options.memtable::<M>().links;
        let space_bytes = links.space_for(payload.len_bytes(), payload.count());
        let arena_bytes = links.arena_bytes_for(payload.len_bytes(), payload.count());
        let totals = batch.totals();
        let deletes_alone = totals.puts == 0;
        let mut traffic = self.traffic.lock();
        let setbacks = traffic.setbacks.count();
        let mut stall = self.stall();
        let (memtable, reservation) = loop {
            self.context.check_writable()?;
            if traffic.closing {
                return Err(closed());
            }
            let active = traffic.active.as_ref();
            let active = active.filter(|active| {
                active.room_bytes() >= space_bytes
                    && active.takes_entries(totals.entries, self.context.options.memtable_bytes)
            });
            let Some(active) = active else {
                traffic = self.rotate(traffic, arena_bytes, setbacks, &mut stall)?;
                continue;
            };
            match admission(&self.context.options, &traffic, active, totals, deletes_alone) {
                Admission::Granted => {}
                Admission::Scarce if traffic.space_wanted.is_some() => {}
                Admission::Scarce => self.want_space(&mut traffic, Wanted::default()),
                Admission::Refused => {
                    let wanted = Wanted::new(totals, deletes_alone);
                    traffic.setbacks.check_space(setbacks, &wanted)?;
                    self.want_space(&mut traffic, wanted);
                    traffic = stall.wait(traffic, StallCause::Space);
                    continue;
                }
            }
            let Some(active) = &mut traffic.active else { continue };
            if let Some(reservation) = active.memtable.try_reserve(payload.len_bytes(), payload.count()) {
                active.totals = active.totals.plus(totals);
                break (active.memtable.clone(), reservation);
            }
        };
        traffic.admitted = traffic.admitted.plus(totals);
        let first_sequence = traffic.next_sequence;
        let last_sequence = first_sequence + u64::from(payload.count()) - 1;
        traffic.next_sequence = last_sequence + 1;
        let ticket = self.publication.begin(last_sequence);
        if traffic.immutables > 0 {
            self.set_pace(&traffic);
        }
        if traffic.spare.is_none()
            && traffic.spare_wanted_bytes == 0
            && memtable.used_bytes() > memtable.capacity_bytes() / 2
        {
            self.want_spare(&mut traffic, 0);
        }
        Ok(Place { memtable, reservation, ticket, first_sequence, last_sequence })
    }

    /// Publishes a place that has been filled, and returns once readers see it, and all before it.
    pub(super) fn publish(&self, ticket: Ticket, last_sequence: u64) {
        self.publication.complete(ticket);
        self.publication.wait_for(last_sequence);
    }

    /// Counts what a batch that was applied has put.
    pub(super) fn count_put(&self, batch: &WriteBatch) {
        self.context.counted.user_bytes_put.fetch_add(batch.user_bytes(), Ordering::Relaxed);
    }

    /// Counts what a place that was filled has written.
    pub(super) fn count_filled(&self, payload: &Payload) {
        if !M::PERSISTENT {
            let space_bytes =
                self.context.options.memtable::<M>().links.space_for(payload.len_bytes(), payload.count());
            self.context.counted.file_bytes_written.fetch_add(space_bytes, Ordering::Relaxed);
        }
    }

    /// What is certain to be found again after the worst that the medium promises to survive. Every record carries it: a
    /// later one thereby vouches for the earlier ones.
    pub(super) fn known_safe_sequence(&self) -> u64 {
        if M::PERSISTENT { self.publication.published() } else { self.group_sync.synced() }
    }

    /// A writer that does not wait yet.
    fn stall(&self) -> WriteStall<'_> {
        WriteStall {
            room: &self.room,
            env: &*self.context.env,
            events: &self.context.events,
            counters: &self.context.counted.stalls,
            waits_for: None,
        }
    }

    /// Replaces the active MemTable by one of at least `needed_bytes`, or waits for what that needs. The caller tries again
    /// either way; or gets an error, if since it came what it waits for could not be had.
    fn rotate<'a>(
        &'a self,
        mut traffic: MutexGuard<'a, MemTables<M>>,
        needed_bytes: u64,
        setbacks: u64,
        stall: &mut WriteStall<'_>,
    ) -> Result<MutexGuard<'a, MemTables<M>>> {
        if traffic.closing {
            return Err(closed());
        }
        let has_room = traffic.immutables < self.context.options.immutable_memtables_max;
        if has_room {
            if let Some(spare) = traffic.spare.take_if(|spare| spare.memtable.capacity_bytes() >= needed_bytes) {
                self.make_immutable(&mut traffic, Some(spare));
                return Ok(traffic);
            }
        }
        if has_room {
            traffic.setbacks.check_memtable(setbacks, needed_bytes.max(self.context.options.memtable_bytes))?;
            self.want_spare(&mut traffic, needed_bytes);
            traffic.spare_waited_for = true;
        } else {
            traffic.setbacks.check_flush(setbacks)?;
        }
        self.work.notify_all();
        Ok(stall.wait(traffic, if has_room { StallCause::MemTable } else { StallCause::Flush }))
    }

    /// The active MemTable becomes an Immutable MemTable. `next` takes the writes from then on; without, they wait until its
    /// flush has given its arena back.
    pub fn make_immutable(&self, traffic: &mut MemTables<M>, next: Option<Filling<M>>) {
        if let Some(next) = &next {
            let view = self.view.load();
            let memtables = std::iter::once(next.memtable.clone()).chain(view.memtables.iter().cloned()).collect();
            self.view.store(Arc::new(View { memtables }));
        }
        if let Some(full) = std::mem::replace(&mut traffic.active, next) {
            traffic.queue.push_back(Immutable::new(full, traffic.next_sequence - 1));
            traffic.immutables += 1;
        }
        traffic.active_from = traffic.next_sequence;
        self.work.notify_all();
    }

    /// Asks the ahead thread for a spare with at least this capacity.
    pub fn want_spare(&self, traffic: &mut MemTables<M>, capacity_bytes: u64) {
        traffic.spare_wanted_bytes =
            traffic.spare_wanted_bytes.max(capacity_bytes).max(self.context.options.memtable_bytes);
        self.work.notify_all();
    }

    /// See [`crate::Engine::flush`].
    pub fn flush(&self) -> Result<()> {
        self.context.check_writable()?;
        let mut traffic = self.traffic.lock();
        let setbacks = traffic.setbacks.count();
        let target = traffic.next_sequence - 1;
        let mut stall = self.stall();
        loop {
            self.context.check_writable()?;
            if self.flushed_through.load(Ordering::Acquire) >= target {
                return Ok(());
            }
            if traffic.active.is_some() && traffic.active_from <= target {
                traffic = self.rotate(traffic, 0, setbacks, &mut stall)?;
                continue;
            }
            traffic.setbacks.check_flush(setbacks)?;
            traffic = self.room.wait(traffic);
        }
    }

    /// See [`crate::Engine::sync`].
    pub fn sync(&self) -> Result<()> {
        self.context.check_writable()?;
        self.sync_through(self.publication.published())
    }

    /// Returns once everything up to `sequence` would outlive a power cut.
    pub(super) fn sync_through(&self, sequence: u64) -> Result<()> {
        if M::PERSISTENT {
            return Ok(());
        }
        let sync = || {
            self.context.check_writable()?;
            self.sync_arenas()
        };
        self.group_sync.through(sequence, || self.publication.published(), sync)
    }

    /// Syncs every arena that has something not on the device yet. A failure stops all writing: what an fsync that
    /// failed has left behind can't be known.
    pub fn sync_arenas(&self) -> Result<()> {
        let synced = self.group_sync.synced();
        self.kind_of_arena.synced();
        for memtable in &self.view.load().memtables {
            if memtable.last_sequence().is_some_and(|last| last > synced) {
                memtable.sync().inspect_err(|error| self.context.fail(error.clone()))?;
            }
        }
        Ok(())
    }
}
