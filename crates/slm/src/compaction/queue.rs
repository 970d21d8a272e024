//! What compactions are doing, and what is wanted of them.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use slmdb_engine::lock_order;
use slmdb_engine::space::controller::Resource;
use slmdb_env::Result;
use slmdb_sync::scheduled::atomic::{AtomicBool, AtomicU64};
use slmdb_sync::scheduled::{Condvar, Instant, Mutex};

use crate::compaction::plan::{Plan, Stopped};

/// For how long no compaction begins but for space, once one found no space: at first, and at most. (It doubles each time.)
const NO_SPACE_PAUSE_FIRST: Duration = Duration::from_millis(10);
const NO_SPACE_PAUSE_MAX: Duration = Duration::from_secs(2);

/// What space is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SpaceWanted {
    pub(crate) resource: Resource,
    /// By something that must not be stuck: the least garbage is worth it.
    pub(crate) at_any_cost: bool,
}

/// A bound on keys, as `compact_range` has them.
pub(crate) type KeyBound = Bound<Vec<u8>>;

/// What compactions are doing, and what is wanted of them.
#[derive(Debug)]
pub(crate) struct Compactions {
    pub(crate) inner: Mutex<Inner>,
    /// There may be something to do, or something was done.
    pub(crate) changed: Condvar,
    /// The store closes, or has failed.
    pub(crate) stopping: AtomicBool,
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
    /// What a compaction is to give back, if somebody waits for it.
    pub(crate) space_wanted: Option<SpaceWanted>,
    /// None gives anything back, and nothing has changed since; the second: not at any cost.
    pub(crate) nothing_to_gain: [bool; 2],
    /// Files that were to be compacted for space and found none, since something has changed.
    pub(crate) no_space_for: BTreeSet<u32>,
    /// Several at once found none, since then: how much they need together is an estimate. One alone takes no more than it has.
    pub(crate) one_by_one: bool,
    /// Inputs of compactions that were given up after some of their outputs were committed: a part of each is garbage since.
    pub(crate) left_over: BTreeSet<u32>,
    /// Until then no compaction begins but for space.
    pub(crate) scarce_until: Option<Instant>,
    /// For how long, the last time.
    pub(crate) pause: Duration,
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
    /// For [space](crate::space::reclaim).
    Space,
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
    pub(crate) fn pause_for_space(&mut self) {
        self.pause = (2 * self.pause).clamp(NO_SPACE_PAUSE_FIRST, NO_SPACE_PAUSE_MAX);
        self.scarce_until = Some(Instant::now() + self.pause);
    }

    /// For how long no compaction begins but for space.
    pub(crate) fn pause_left(&mut self) -> Option<Duration> {
        let now = Instant::now();
        self.scarce_until = self.scarce_until.filter(|until| *until > now);
        self.scarce_until.map(|until| until - now)
    }

    /// No compaction gives anything back until something changes.
    pub(crate) fn gains_nothing(&mut self, wanted: SpaceWanted) {
        self.nothing_to_gain[usize::from(wanted.at_any_cost)] = true;
        self.space_wanted = None;
    }

    /// A compaction has ended.
    pub(crate) fn ended(&mut self, plan: &Plan, reason: &Reason, ended: &Result<(), Stopped>) {
        self.busy.retain(|number| !plan.inputs.contains(number));
        match (ended, reason) {
            (Ok(()), Reason::Space) => self.space_wanted = None,
            (Ok(()), _) => self.pause = Duration::ZERO,
            (Err(Stopped::Unreadable(number, _)), _) => drop(self.unfit.insert(*number)),
            (Err(Stopped::NoSpace(_)), Reason::Space) if plan.inputs.len() > 1 && !self.one_by_one => {
                self.one_by_one = true;
            }
            (Err(Stopped::NoSpace(_)), Reason::Space) => self.no_space_for.extend(&plan.inputs),
            (Err(Stopped::NoSpace(_)), Reason::Picked) | (Err(Stopped::Lacking(_)), _) => self.pause_for_space(),
            (Err(_), _) => {}
        }
        self.changes += 1;
    }
}

/// A range whose compaction was asked for.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) from: KeyBound,
    pub(crate) to: KeyBound,
    /// How it ended.
    pub(crate) ended: Mutex<Option<Result<()>>>,
}

impl Compactions {
    /// The files there are, or their live counts, have changed.
    pub(crate) fn wake(&self) {
        let mut inner = self.inner.lock();
        inner.changes += 1;
        inner.nothing_to_gain = [false; 2];
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
