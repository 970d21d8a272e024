//! The write path (paper, sections 3.1 and 4 «Put»; design.md section 5).
//!
//! A batch comes encoded. Under one short lock it gets a place in the active MemTable's arena and its sequence numbers;
//! everything dear (copying, linking, writing back cache lines) happens outside, in parallel with other writers, and
//! can't fail. Then the write is published, and returns when publication covers it.
//!
//! When the place does not fit, the writer makes the spare MemTable the active one and queues the full one for its flush.
//! Spares are made ahead by the arena thread, because an arena's generation must be durable in the MANIFEST before the
//! first record, and no fsync happens under a lock that writers need.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

use slmdb_env::{Error, Result};
use slmdb_manifest::{ArenaRecord, Edit};
use slmdb_pmem::Medium;
use slmdb_structures::memtable::{ARENA_HEADER_BYTES, MemTable, Payload, Reservation};

use super::locked;
use super::publication::Ticket;
use super::store::{Immutable, Store, Traffic, View};
use crate::WriteBatch;

/// Where a write goes, and when its turn comes. See [`Store::place`].
pub(super) struct Place<M: Medium> {
    pub(super) memtable: Arc<MemTable<M>>,
    pub(super) reservation: Reservation,
    pub(super) ticket: Ticket,
    pub(super) first_sequence: u64,
    pub(super) last_sequence: u64,
}

impl<M: Medium + Clone> Store<M> {
    /// See [`crate::Engine::write`].
    pub(crate) fn write(&self, batch: &WriteBatch, sync: bool) -> Result<()> {
        self.check_writable()?;
        if batch.is_empty() {
            return if sync { self.sync() } else { Ok(()) };
        }
        let payload = batch.payload();
        let place = self.place(payload)?;
        place.memtable.fill(place.reservation, payload, place.first_sequence, self.known_safe_sequence());
        self.publish(place.ticket, place.last_sequence);
        self.count_filled(payload);
        self.count_put(batch);
        if sync { self.sync_through(place.last_sequence) } else { Ok(()) }
    }

    /// Reserves what a payload needs: room in the active MemTable's arena, sequence numbers, a turn to be published. From
    /// here to [`Store::publish`] nothing may fail: a place that stays empty would end the log, and hold up all later
    /// writes.
    pub(super) fn place(&self, payload: &Payload) -> Result<Place<M>> {
        let space_bytes = MemTable::<M>::space_for(payload.len_bytes());
        let mut traffic = locked(&self.traffic);
        let setbacks = traffic.setbacks;
        let (memtable, reservation) = loop {
            self.check_writable()?;
            let Some(active) = &traffic.active else { return Err(Error::ReadOnly { cause: "it was closed".into() }) };
            if let Some(reservation) = active.try_reserve(payload.len_bytes()) {
                break (active.clone(), reservation);
            }
            traffic = self.rotate(traffic, space_bytes, setbacks)?;
        };
        let first_sequence = traffic.next_sequence;
        let last_sequence = first_sequence + u64::from(payload.count()) - 1;
        traffic.next_sequence = last_sequence + 1;
        let ticket = self.publication.begin(last_sequence);
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
        self.counted.user_bytes_put.fetch_add(batch.user_bytes(), Ordering::Relaxed);
    }

    /// Counts what a place that was filled has written.
    pub(super) fn count_filled(&self, payload: &Payload) {
        if !M::PERSISTENT {
            let space_bytes = MemTable::<M>::space_for(payload.len_bytes());
            self.counted.file_bytes_written.fetch_add(space_bytes, Ordering::Relaxed);
        }
    }

    /// What is certain to be found again after the worst that the medium promises to survive. Every record carries it: a
    /// later one thereby vouches for the earlier ones.
    pub(super) fn known_safe_sequence(&self) -> u64 {
        if M::PERSISTENT { self.publication.published() } else { self.group_sync.synced() }
    }

    /// Replaces the active MemTable by one with room for `space_bytes`, or waits for what that needs. The caller tries again
    /// either way. When a background job has been set back since the caller came, its error is the caller's.
    fn rotate<'a>(
        &'a self,
        mut traffic: MutexGuard<'a, Traffic<M>>,
        space_bytes: u64,
        setbacks: u64,
    ) -> Result<MutexGuard<'a, Traffic<M>>> {
        if traffic.closing {
            return Err(Error::ReadOnly { cause: "it was closed".into() });
        }
        let needed_bytes = ARENA_HEADER_BYTES + space_bytes;
        let has_room = traffic.immutables < self.options.immutable_memtables_max;
        if has_room {
            if let Some(spare) = traffic.spare.take_if(|spare| spare.capacity_bytes() >= needed_bytes) {
                self.activate(&mut traffic, spare);
                return Ok(traffic);
            }
        }
        give_up_after_setback(&traffic, setbacks)?;
        if has_room {
            self.want_spare(&mut traffic, needed_bytes);
        }
        self.work.notify_all();
        Ok(self.delay(traffic))
    }

    /// Waits until something changes that may let the writer go on.
    fn delay<'a>(&'a self, traffic: MutexGuard<'a, Traffic<M>>) -> MutexGuard<'a, Traffic<M>> {
        let start = self.env.monotonic_ns();
        let traffic = Self::wait(&self.room, traffic);
        self.counted.delay_ns.fetch_add(self.env.monotonic_ns() - start, Ordering::Relaxed);
        traffic
    }

    /// Makes `spare` the active MemTable; the one that was becomes an Immutable MemTable.
    fn activate(&self, traffic: &mut Traffic<M>, spare: Arc<MemTable<M>>) {
        let view = self.view.load();
        let memtables = std::iter::once(spare.clone()).chain(view.memtables.iter().cloned()).collect();
        self.view.store(Arc::new(View { memtables }));
        if let Some(memtable) = traffic.active.replace(spare) {
            traffic.queue.push_back(Immutable { memtable, last_sequence: traffic.next_sequence - 1 });
            traffic.immutables += 1;
        }
        traffic.active_from = traffic.next_sequence;
        self.work.notify_all();
    }

    /// Asks the arena thread for a spare with at least this capacity.
    fn want_spare(&self, traffic: &mut Traffic<M>, capacity_bytes: u64) {
        traffic.spare_wanted_bytes = traffic.spare_wanted_bytes.max(capacity_bytes).max(self.options.memtable_bytes);
        self.work.notify_all();
    }

    /// See [`crate::Engine::flush`].
    pub(crate) fn flush(&self) -> Result<()> {
        self.check_writable()?;
        let mut traffic = locked(&self.traffic);
        let setbacks = traffic.setbacks;
        let target = traffic.next_sequence - 1;
        loop {
            self.check_writable()?;
            if self.flushed_through.load(Ordering::Acquire) >= target {
                return Ok(());
            }
            if traffic.active_from <= target {
                traffic = self.rotate(traffic, 0, setbacks)?;
                continue;
            }
            give_up_after_setback(&traffic, setbacks)?;
            traffic = Self::wait(&self.room, traffic);
        }
    }

    /// See [`crate::Engine::sync`].
    pub(crate) fn sync(&self) -> Result<()> {
        self.check_writable()?;
        self.sync_through(self.publication.published())
    }

    /// Returns once everything up to `sequence` would outlive a power cut.
    pub(super) fn sync_through(&self, sequence: u64) -> Result<()> {
        if M::PERSISTENT {
            return Ok(());
        }
        self.group_sync.through(sequence, || {
            self.check_writable()?;
            let reached = self.publication.published();
            self.sync_arenas().map(|()| reached)
        })
    }

    /// Syncs every arena that has something not on the device yet. A failure stops all writing: what an fsync that
    /// failed has left behind can't be known.
    pub(crate) fn sync_arenas(&self) -> Result<()> {
        let synced = self.group_sync.synced();
        for memtable in &self.view.load().memtables {
            if memtable.last_sequence().is_some_and(|last| last > synced) {
                memtable.sync().inspect_err(|error| self.fail(error.clone()))?;
            }
        }
        Ok(())
    }

    /// The arena thread: makes the spares.
    pub(crate) fn run_arena_thread(&self) {
        let mut traffic = locked(&self.traffic);
        loop {
            if traffic.closing || self.has_failed() {
                return;
            }
            let wanted_bytes = traffic.spare_wanted_bytes;
            if wanted_bytes == 0 {
                traffic = Self::wait(&self.work, traffic);
                continue;
            }
            let too_small = traffic.spare.take_if(|spare| spare.capacity_bytes() < wanted_bytes);
            if traffic.spare.is_none() {
                drop(traffic);
                let made = self.make_spare(wanted_bytes, too_small.as_deref());
                let (spare, setback) = match made {
                    Ok(spare) => {
                        if let Err(error) = too_small.map_or(Ok(()), |given_up| self.arenas.retire(given_up)) {
                            return self.fail(error);
                        }
                        (Some(spare), None)
                    }
                    Err(cause @ Error::Full { .. }) => (too_small, Some(cause)),
                    Err(error) => return self.fail(error),
                };
                traffic = locked(&self.traffic);
                traffic.spare = spare;
                if let Some(cause) = setback {
                    traffic.set_back(cause);
                }
            }
            traffic.spare_wanted_bytes = 0;
            self.room.notify_all();
        }
    }

    /// A new MemTable, its generation durable in the MANIFEST, which gives up `instead_of`. [`Error::Full`]: nothing has
    /// happened.
    ///
    /// On `Dram` its header is not synced: a recycled file is full of dirty pages, which a sync would write for nothing
    /// (80 % more to the device in a random fill), and a replay can do without it.
    fn make_spare(&self, capacity_bytes: u64, instead_of: Option<&MemTable<M>>) -> Result<Arc<MemTable<M>>> {
        let generation = locked(&self.catalog).state().next_generation;
        let arena = self.arenas.make(generation, capacity_bytes)?;
        let memtable = MemTable::create(arena, generation, self.uuid);
        let length_bytes = memtable.capacity_bytes();
        let edit = Edit {
            arenas_added: vec![(generation, ArenaRecord { sealed_last_sequence: None, length_bytes })],
            arenas_removed: instead_of.iter().map(|memtable| memtable.generation()).collect(),
            next_generation: Some(generation + 1),
            ..Edit::default()
        };
        match self.commit(|_| edit) {
            Ok(()) => Ok(Arc::new(memtable)),
            Err(cause @ Error::Full { .. }) if !self.has_failed() => {
                // The next attempt has the same generation: recovery must not find two arenas of it.
                drop(memtable);
                self.arenas.discard(generation)?;
                Err(cause)
            }
            Err(error) => Err(error),
        }
    }
}

/// The error of the last setback, if there was one since there were `setbacks`.
pub(super) fn give_up_after_setback<M: Medium>(traffic: &Traffic<M>, setbacks: u64) -> Result<()> {
    match &traffic.setback {
        Some(cause) if traffic.setbacks > setbacks => Err(cause.clone()),
        _ => Ok(()),
    }
}
