//! What compactions are doing and what is wanted of them; [`slmdb_engine::Engine::compact_range`].

use std::collections::{BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use slmdb_env::{Error, Result};
use slmdb_manifest::{FileRecord, StoreState};
use slmdb_pmem::Medium;
use slmdb_sync::scheduled::{
    Condvar, Instant, Mutex,
    atomic::{AtomicBool, AtomicU64},
    mpsc::SyncSender,
};

use crate::compaction::plan::CompactionReason;
use crate::compaction::plan::{In, Plan, Stopped};
use crate::flush::file_creation::Finished;
use crate::selection as picker;
use crate::space::compaction_reserve::RoomWanted;
use crate::store::Store;
use slmdb_engine::lock_order;
use slmdb_engine::read::ordered_key::positions_in_order;

/// How often those who wait for a compaction look whether it is stuck.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// For how long no compaction begins but for room, once one found no space: at first, and at most. (It doubles each time.)
const NO_SPACE_PAUSE_FIRST: Duration = Duration::from_millis(10);
const NO_SPACE_PAUSE_MAX: Duration = Duration::from_secs(2);

/// A bound on keys, as [`Store::compact_range`] has them.
pub(crate) type KeyBound = Bound<Vec<u8>>;

/// What compactions are doing, and what is wanted of them.
#[derive(Debug)]
pub(crate) struct Compactions {
    pub(crate) inner: Mutex<Inner>,
    /// There may be something to do, or something was done.
    pub(crate) changed: Condvar,
    /// The store closes, or has failed.
    stopping: AtomicBool,
    /// Compactions that have begun since the store was opened.
    pub(crate) begun: AtomicU64,
}

impl Default for Compactions {
    fn default() -> Compactions {
        Compactions {
            inner: Mutex::ranked(lock_order::COMPACTIONS, Inner::default()),
            changed: Condvar::new(),
            stopping: AtomicBool::new(false),
            begun: AtomicU64::new(0),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Inner {
    /// Inputs of compactions that are running.
    pub(crate) busy: BTreeSet<u32>,
    /// Files that could not be read.
    pub(crate) unfit: BTreeSet<u32>,
    /// What room is to be made of, if somebody waits for it.
    pub(crate) room_wanted: Option<RoomWanted>,
    /// There was none to be made, and nothing has changed since; the second: not at any cost.
    pub(crate) no_room: [bool; 2],
    /// Files that were to be compacted for room and found none, since something has changed.
    pub(crate) no_space_for: BTreeSet<u32>,
    /// Several at once found none, since then: how much they need together is an estimate. One alone takes no more than it has.
    pub(crate) one_by_one: bool,
    /// Until then no compaction begins but for room.
    scarce_until: Option<Instant>,
    /// For how long, the last time.
    pause: Duration,
    /// What was asked for and has not begun.
    pub(crate) asked: VecDeque<Arc<Asked>>,
    /// Counts what may have changed what there is to do.
    pub(crate) changes: u64,
    /// When the last compaction ended, on the clock of the environment.
    pub(crate) last_end_ns: u64,
}

/// Why something is compacted.
pub(crate) enum Reason {
    /// The picker has chosen it.
    Picked,
    /// For [room](crate::space::compaction_reserve).
    Room,
    /// Somebody has asked for it.
    Asked(Arc<Asked>),
}

impl Inner {
    /// There is too little space for what was picked, which does not begin.
    pub(crate) fn pause_for_space_of(&mut self, plan: &Plan) {
        self.busy.retain(|number| !plan.inputs.contains(number));
        self.changes += 1;
        self.pause_for_space();
    }

    /// Nor does anything else for a while.
    fn pause_for_space(&mut self) {
        self.pause = (2 * self.pause).clamp(NO_SPACE_PAUSE_FIRST, NO_SPACE_PAUSE_MAX);
        self.scarce_until = Some(Instant::now() + self.pause);
    }

    /// For how long no compaction begins but for room.
    pub(crate) fn pause_left(&mut self) -> Option<Duration> {
        let now = Instant::now();
        self.scarce_until = self.scarce_until.filter(|until| *until > now);
        self.scarce_until.map(|until| until - now)
    }

    /// There is no room to be made until something changes.
    pub(crate) fn no_room(&mut self, wanted: RoomWanted) {
        self.no_room[usize::from(wanted.at_any_cost)] = true;
        self.room_wanted = None;
    }

    /// A compaction has ended.
    pub(crate) fn ended(&mut self, plan: &Plan, reason: &Reason, ended: &Result<(), Stopped>) {
        self.busy.retain(|number| !plan.inputs.contains(number));
        match (ended, reason) {
            (Ok(()), Reason::Room) => self.room_wanted = None,
            (Ok(()), _) => self.pause = Duration::ZERO,
            (Err(Stopped::Unreadable(number, _)), _) => drop(self.unfit.insert(*number)),
            (Err(Stopped::NoSpace(_)), Reason::Room) if plan.inputs.len() > 1 && !self.one_by_one => {
                self.one_by_one = true;
            }
            (Err(Stopped::NoSpace(_)), Reason::Room) => self.no_space_for.extend(&plan.inputs),
            (Err(Stopped::NoSpace(_)), Reason::Picked) | (Err(Stopped::Lacking(_)), _) => self.pause_for_space(),
            (Err(_), _) => {}
        }
        self.changes += 1;
    }
}

/// A range whose compaction was asked for.
#[derive(Debug)]
pub(crate) struct Asked {
    from: KeyBound,
    to: KeyBound,
    /// How it ended.
    pub(crate) ended: Mutex<Option<Result<()>>>,
}

impl Compactions {
    /// The files there are, or their live counts, have changed.
    pub(crate) fn wake(&self) {
        let mut inner = self.inner.lock();
        inner.changes += 1;
        inner.no_room = [false; 2];
        inner.no_space_for.clear();
        inner.one_by_one = false;
        self.changed.notify_all();
    }

    /// Ends all of them soon.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.wake();
    }

    /// Whether something is being compacted.
    pub(crate) fn is_busy(&self) -> bool {
        !self.inner.lock().busy.is_empty()
    }

    /// Whether the store closes, or has failed.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}

impl<M: Medium + Clone> Store<M> {
    /// See [`slmdb_engine::Engine::compact_range`].
    pub(crate) fn compact_range(&self, from: KeyBound, to: KeyBound) -> Result<()> {
        self.check_writable()?;
        self.writes.flush()?;
        // Deletes that it covers are garbage.
        self.take_due_checkpoint(&|| self.compactions.is_stopping()).inspect_err(|error| self.fail(error.clone()))?;
        let setbacks = self.writes.traffic.lock().setbacks.count();
        let asked = Arc::new(Asked { from, to, ended: Mutex::ranked(lock_order::COMPACTION_ENDED, None) });
        let mut inner = self.compactions.inner.lock();
        inner.asked.push_back(asked.clone());
        inner.changes += 1;
        self.compactions.changed.notify_all();
        loop {
            if let Some(ended) = asked.ended.lock().take() {
                return ended;
            }
            // Then there may be nobody left to answer: a thread that panicked, or one that ended before this was asked.
            if self.compactions.is_stopping() {
                self.check_writable()?;
                return Err(Error::ReadOnly { cause: "the store closes".into() });
            }
            drop(self.compactions.changed.wait_timeout(inner, LOOK_AGAIN));
            // The compaction goes on when there is space again; who asked for it is not kept waiting for that.
            self.writes.traffic.lock().setbacks.check_flush(setbacks)?;
            inner = self.compactions.inner.lock();
        }
    }

    /// Merges all of a range; or, where there is not the space for that, takes the garbage out of its files, in the space that is
    /// kept back, and merges what is left if that has given enough.
    pub(crate) fn compact_asked(
        &self,
        asked: &Asked,
        all: &Plan,
        finished: &SyncSender<Finished<M>>,
    ) -> Result<(), Stopped> {
        let full = if self.seems_to_have_space_for(all) {
            match self.compact(all, In::FreeSpace, finished) {
                Err(Stopped::NoSpace(full)) => full,
                ended => return ended.map(|_| ()),
            }
        } else {
            Error::Full { path: self.directory.clone(), what: "merge all files of the range".into() }
        };
        self.take_garbage_out(&all.inputs, finished)?;
        if !self.with_garbage(&all.inputs).is_empty() {
            return Err(Stopped::NoSpace(full));
        }
        let left = {
            let catalog = self.catalog.lock();
            let mut inner = self.compactions.inner.lock();
            let left = self.plan_of_range(asked, catalog.state());
            let is_ours = |number: &u32| all.inputs.contains(number) || !inner.busy.contains(number);
            if left.inputs.is_empty() || !left.inputs.iter().all(is_ours) {
                return Ok(());
            }
            inner.busy.extend(&left.inputs);
            left
        };
        let has_space = self.seems_to_have_space_for(&left);
        let merged = if has_space {
            self.compact(&left, In::FreeSpace, finished).map(drop)
        } else {
            self.merge_in_pool(&left.inputs, finished)
        };
        self.compactions.inner.lock().busy.retain(|number| !left.inputs.contains(number));
        match merged {
            Ok(()) | Err(Stopped::NoSpace(_)) => Ok(()),
            Err(stopped) => Err(stopped),
        }
    }

    /// Takes the garbage out of these files, one output at a time, as far as there is the space. (They are this thread's, so they may
    /// be tried although they are busy.)
    fn take_garbage_out(&self, files: &[u32], finished: &SyncSender<Finished<M>>) -> Result<(), Stopped> {
        let (mut tried, mut one_by_one, mut has_gained) = (BTreeSet::new(), false, false);
        loop {
            let is_free = |number| files.contains(&number) && !tried.contains(&number);
            let Some(plan) = self.plan_of_garbage(is_free, one_by_one) else {
                if tried.is_empty() || !has_gained {
                    break;
                }
                // What did not fit then may do now.
                (tried, one_by_one, has_gained) = (BTreeSet::new(), false, false);
                continue;
            };
            match self.compact(&plan, In::KeptBack, finished) {
                Ok(_) => has_gained = true,
                Err(Stopped::NoSpace(_)) if plan.inputs.len() > 1 && !one_by_one => one_by_one = true,
                Err(Stopped::NoSpace(_)) => tried.extend(plan.inputs),
                Err(stopped) => return Err(stopped),
            }
        }
        // What has more than is kept back for one (a large batch) may fit what has come back.
        for number in self.with_garbage(files) {
            let plan = Plan { inputs: vec![number], reason: CompactionReason::CompactRange };
            if self.seems_to_have_space_for(&plan) {
                match self.compact(&plan, In::FreeSpace, finished) {
                    Ok(_) | Err(Stopped::NoSpace(_)) => {}
                    Err(stopped) => return Err(stopped),
                }
            }
        }
        Ok(())
    }

    /// Merges those of these files, one output at a time, that take less of the pool together.
    fn merge_in_pool(&self, files: &[u32], finished: &SyncSender<Finished<M>>) -> Result<(), Stopped> {
        while let Some(plan) = self.plan_in_pool(|number| files.contains(&number)) {
            self.compact(&plan, In::KeptBack, finished)?;
        }
        Ok(())
    }

    /// Those of these files that have something nobody needs.
    fn with_garbage(&self, numbers: &[u32]) -> Vec<u32> {
        let droppable_through = self.checkpoints.deletes_droppable_through();
        let catalog = self.catalog.lock();
        let files = numbers.iter().filter_map(|number| Some((*number, catalog.state().files.get(number)?)));
        files.filter(|(_, file)| picker::garbage(file, droppable_through) > 0).map(|(number, _)| number).collect()
    }

    /// Whether files of a range are being compacted, or are being removed after that.
    pub(crate) fn is_compacting_in(&self, asked: &Asked, inner: &Inner, state: &StoreState) -> bool {
        let is_in_range = |number| state.files.get(number).is_none_or(|file| self.is_in_range(asked, file));
        inner.busy.iter().any(is_in_range)
    }

    fn is_in_range(&self, asked: &Asked, file: &FileRecord) -> bool {
        let order = &self.options.comparator;
        order.is_up_to(&file.smallest_key, asked.to.as_ref()) && order.is_from(&file.largest_key, asked.from.as_ref())
    }

    /// The files with keys in a range; none if there is nothing to gain: no garbage, and no two of them overlap.
    pub(crate) fn plan_of_range(&self, asked: &Asked, state: &StoreState) -> Plan {
        let order = &self.options.comparator;
        let in_range = state.files.iter().filter(|(_, file)| self.is_in_range(asked, file));
        let files: Vec<(&u32, &FileRecord)> = in_range.collect();
        let in_order = positions_in_order(files.iter().map(|(_, file)| &file.smallest_key[..]), order);
        let files: Vec<(&u32, &FileRecord)> = in_order.into_iter().map(|position| files[position]).collect();
        let droppable_through = self.checkpoints.deletes_droppable_through();
        let has_garbage = files.iter().any(|(_, file)| picker::garbage(file, droppable_through) > 0);
        let overlaps = files.windows(2).any(|two| order.compare(&two[0].1.largest_key, &two[1].1.smallest_key).is_ge());
        let inputs =
            if has_garbage || overlaps { files.iter().map(|(number, _)| **number).collect() } else { Vec::new() };
        Plan { inputs, reason: CompactionReason::CompactRange }
    }
}
