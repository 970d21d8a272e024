//! The MemTable preparer: what writers will need soon, made before they need it.
//!
//! A *spare* MemTable takes an arena, whose generation must be durable in the MANIFEST before the first record; and what is
//! admitted takes space that is set aside first ([`crate::space::controller`]). Both take system calls and syncs, which are not to
//! happen under a lock that writers need. So one thread does them, asked by writers while there is still some left.
//!
//! What the process lacks for a moment, such as descriptors, is tried again a few times. Then the writers that wait get the error.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use slmdb_env::{Error, Result};
use slmdb_manifest::{ArenaRecord, Edit};
use slmdb_pmem::Medium;
use slmdb_structures::memtable::MemTable;
use slmdb_sync::scheduled::thread;

use super::memtables::Filling;
use super::write_path::WritePath;
use crate::context::StoreContext;
use crate::events::SpaceFor;
use crate::files::catalog::Catalog;
use crate::space::controller::{Awaited, Shortage, SpaceController};
use crate::space::ladder::Asker;
use crate::space::reserved_file::ReservedFile;

/// How often a lack is met again before the writer that waits hears of it, and how long after the first time; then twice as long each
/// time: 31 ms in all.
const ATTEMPTS_MAX: u32 = 5;
const PAUSE_FIRST: Duration = Duration::from_millis(1);

/// See the module.
pub struct MemTablePreparer<M: Medium> {
    context: Arc<StoreContext>,
    writes: Arc<WritePath<M>>,
    catalog: Arc<Catalog>,
    space: Arc<SpaceController<M>>,
}

impl<M: Medium + Clone> MemTablePreparer<M> {
    /// That of a store.
    pub fn new(
        context: Arc<StoreContext>,
        writes: Arc<WritePath<M>>,
        catalog: Arc<Catalog>,
        space: Arc<SpaceController<M>>,
    ) -> MemTablePreparer<M> {
        MemTablePreparer { context, writes, catalog, space }
    }

    /// The work of its thread.
    pub fn run(&self) {
        match self.catalog.fill_reserve() {
            Err(error) if !error.may_be_tried_again() => return self.context.fail(error),
            _ => {}
        }
        let mut traffic = self.writes.traffic.lock();
        loop {
            if traffic.closing || self.context.has_failed() {
                return;
            }
            let (spare_wanted_bytes, space_wanted) = (traffic.spare_wanted_bytes, traffic.space_wanted);
            let done = if spare_wanted_bytes > 0 {
                drop(traffic);
                self.patiently(|| self.provide_spare(spare_wanted_bytes))
            } else if let Some(wanted) = space_wanted {
                drop(traffic);
                self.patiently(|| self.space.provide(wanted))
            } else {
                traffic = self.writes.work.wait(traffic);
                continue;
            };
            match done {
                Ok(()) => {}
                Err(lack) if lack.is_passing_lack() => self.report_lack(lack),
                Err(error) => return self.context.fail(error),
            }
            traffic = self.writes.traffic.lock();
        }
    }

    /// Sees to it that there is a spare with this capacity; or says that there was no space for it.
    fn provide_spare(&self, capacity_bytes: u64) -> Result<()> {
        let (has_spare, too_small, returned) = {
            let mut traffic = self.writes.traffic.lock();
            let is_too_small = |spare: &mut Filling<M>| spare.memtable.capacity_bytes() < capacity_bytes;
            let too_small = traffic.spare.take_if(is_too_small);
            (traffic.spare.is_some(), too_small, self.space.returned(&traffic))
        };
        let usual_bytes = self.context.options.memtable_bytes;
        let (spare, setback) = if has_spare {
            (None, None)
        } else {
            match self.make_spare(capacity_bytes, too_small.as_ref().map(|spare| &*spare.memtable)) {
                Ok(spare) => {
                    if let Some(Filling { memtable, space, .. }) = too_small {
                        space.map_or(Ok(()), |space| space.discard(&*self.context.env))?;
                        self.writes.arenas.retire(memtable)?;
                    }
                    (Some(spare), None)
                }
                // Others may wait for a usual one.
                Err(cause @ Error::Full { .. }) if too_small.is_none() && capacity_bytes > usual_bytes => {
                    match self.make_spare(usual_bytes, None) {
                        Ok(spare) => (Some(spare), Some(cause)),
                        Err(Error::Full { .. }) => (None, Some(cause)),
                        Err(error) => return Err(error),
                    }
                }
                Err(cause @ Error::Full { .. }) => (too_small, Some(cause)),
                Err(error) => {
                    self.writes.traffic.lock().spare = too_small;
                    return Err(error);
                }
            }
        };
        let readers_hold_space = setback.as_ref().map_or(Ok(false), |cause| self.space.readers_hold(cause))?;
        let mut traffic = self.writes.traffic.lock();
        if let Some(spare) = spare {
            traffic.spare = Some(spare);
            self.context.events.space_found(SpaceFor::MemTable);
        }
        let somebody_waits = traffic.spare_waited_for;
        if let (Some(cause), true) = (setback, somebody_waits) {
            // A flush gives an arena back, which will do unless it is for a record longer than most arenas.
            let usual = capacity_bytes <= usual_bytes;
            let worth_flushing = usual && traffic.active.as_ref().is_some_and(|active| active.totals.entries > 0);
            let shortage = Shortage { full: &cause, returned, readers_hold_space };
            match self.space.await_space(traffic, Asker::MemTable, &shortage, (worth_flushing, false)) {
                Awaited::Refused(still) => traffic = still,
                _ => return Ok(()),
            }
            self.context.events.space_refused(SpaceFor::MemTable, &cause);
            traffic.setbacks.record_memtable(capacity_bytes, cause);
        }
        traffic.spare_wanted_bytes = 0;
        traffic.spare_waited_for = false;
        self.writes.room.notify_all();
        Ok(())
    }

    /// A new MemTable, its generation durable in the MANIFEST, which gives up `instead_of`. Nothing has happened of what may be
    /// tried again.
    ///
    /// On `Dram` its header is not synced: a recycled file is full of dirty pages, which a sync would write for nothing
    /// (80 % more to the device in a random fill), and a replay can do without it.
    fn make_spare(&self, capacity_bytes: u64, instead_of: Option<&MemTable<M>>) -> Result<Filling<M>> {
        self.catalog.reserve.check_not_taken(capacity_bytes)?;
        let generation = self.catalog.lock().state().next_generation;
        let bytes_put = self.context.counted.user_bytes_put.load(Ordering::Relaxed);
        let kind = self.writes.kind_of_arena.next(bytes_put, self.context.options.memtable_bytes);
        let arena = self.writes.arenas.make(generation, capacity_bytes, kind, true)?;
        let memtable = MemTable::create(arena, generation, self.context.uuid, &self.context.options.memtable::<M>());
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
                Ok(Filling { memtable: Arc::new(memtable), totals: Default::default(), space })
            }
            Err(cause) if cause.may_be_tried_again() && !self.context.has_failed() => {
                // The next attempt has the same generation: recovery must not find two arenas of it.
                drop(memtable);
                self.writes.arenas.discard(generation)?;
                Err(cause)
            }
            Err(error) => Err(error),
        }
    }

    /// Sets disk space aside for what usually goes into a MemTable, if there is as much: without, admission asks for it
    /// once a write needs it.
    fn first_space(&self, generation: u64, arena_bytes: u64) -> Result<Option<Arc<ReservedFile>>> {
        let space_bytes = arena_bytes + arena_bytes / 8;
        match self.space.fill_reserve_for(space_bytes, 0) {
            Ok(_) => ReservedFile::if_there_is(&*self.context.env, &self.context.directory, generation, space_bytes),
            Err(Error::Full { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Tries a few times more what lacks something. The caller holds no lock.
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

    /// Gives this error to the writers that wait. There is nothing to do until the next asks.
    fn report_lack(&self, lack: Error) {
        let mut traffic = self.writes.traffic.lock();
        tracing::warn!(%lack, "writers that wait get this error");
        traffic.setbacks.record_lack(lack);
        traffic.spare_wanted_bytes = 0;
        traffic.spare_waited_for = false;
        traffic.space_wanted = None;
        self.writes.room.notify_all();
    }
}
