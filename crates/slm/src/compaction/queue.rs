//! [`CompactionQueue`]: which compactions run, and what is wanted of them.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use slmdb_engine::background::bell::Bell;
use slmdb_engine::background::compaction_queue::{FoundNothing, SpaceWanted};
use slmdb_engine::lock_order;
use slmdb_env::Result;
use slmdb_sync::scheduled::atomic::AtomicBool;
use slmdb_sync::scheduled::{Condvar, Instant, Mutex};

use crate::compaction::order_schedule::OrderSchedule;
use crate::compaction::plan::{CompactionReason, Plan, Stopped};

/// How long only compactions for space begin after one found none: at first, and at most. The time doubles with each
/// failure.
const NO_SPACE_PAUSE_FIRST: Duration = Duration::from_millis(10);
const NO_SPACE_PAUSE_MAX: Duration = Duration::from_secs(2);

/// A bound on keys of [`slmdb_engine::Engine::compact_range`].
pub(crate) type KeyBound = Bound<Vec<u8>>;

/// Which compactions run, and what is wanted of them.
#[derive(Debug)]
pub(crate) struct CompactionQueue {
    pub(crate) inner: Mutex<QueueState>,
    /// Rung where there may be something to do.
    pub(crate) bell: Arc<Bell>,
    /// Signals that something was done.
    pub(crate) changed: Condvar,
    /// The store closes, or has failed.
    pub(crate) stopping: AtomicBool,
}

impl Default for CompactionQueue {
    fn default() -> CompactionQueue {
        CompactionQueue {
            inner: Mutex::ranked(lock_order::COMPACTIONS, QueueState::default()),
            bell: Arc::default(),
            changed: Condvar::new(),
            stopping: AtomicBool::new(false),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct QueueState {
    /// Inputs of compactions that are running.
    pub(crate) busy: BTreeSet<u32>,
    /// Files that could not be read.
    pub(crate) unfit: BTreeSet<u32>,
    /// The space that a thread waits for.
    pub(crate) space_wanted: Option<SpaceWanted>,
    /// No compaction gives this space back until something changes.
    pub(crate) nothing_to_gain: FoundNothing,
    /// Files that a compaction for space found no space for, since the last change.
    pub(crate) no_space_for: BTreeSet<u32>,
    /// A compaction of several files found no space since the last change, because its needs are an estimate. One file
    /// alone takes no more than it has.
    pub(crate) one_by_one: bool,
    /// Inputs of compactions that were given up after some outputs were committed. A part of each is garbage since.
    pub(crate) left_over: BTreeSet<u32>,
    /// Until then only compactions for space begin.
    pub(crate) scarce_until: Option<Instant>,
    /// The length of the last such pause.
    pub(crate) pause: Duration,
    /// Requests that have not begun.
    pub(crate) requested: VecDeque<Arc<ManualCompaction>>,
    /// Counts events that may have changed what there is to do.
    pub(crate) changes: u64,
    /// Number of compactions that are running.
    pub(crate) running: usize,
    /// The newest sequence number that a compaction thread has seen, and when it saw it first.
    pub(crate) written_until: Option<(u64, Instant)>,
    /// When files are merged for order.
    pub(crate) order: OrderSchedule,
}

/// What a compaction was begun for.
pub(crate) enum CompactionKind {
    /// The policy's choice.
    Picked,
    /// [Space](crate::space::reclaim).
    Space,
    /// A caller's request.
    Manual(Arc<ManualCompaction>),
}

/// What is compacted next.
pub(crate) enum NextCompaction {
    /// This compaction, whose inputs are marked busy.
    Begun(Plan, CompactionKind),
    /// Nothing before a change, or before this time: the end of a pause, or quiet.
    None { look_again_in: Option<Duration> },
    /// Nothing any more: the store closes, or has failed.
    Never,
}

impl QueueState {
    /// Takes back a choice of the policy for which there is too little space, and pauses.
    pub(crate) fn pause_for_space_of(&mut self, plan: &Plan) {
        self.runs_no_more(plan);
        self.changes += 1;
        self.pause_for_space();
    }

    fn runs_no_more(&mut self, plan: &Plan) {
        self.running -= 1;
        if plan.reason == CompactionReason::Order {
            self.order.ended();
        }
        self.busy.retain(|number| !plan.inputs.contains(number));
    }

    /// Pauses all compactions but those for space.
    pub(crate) fn pause_for_space(&mut self) {
        self.pause = (2 * self.pause).clamp(NO_SPACE_PAUSE_FIRST, NO_SPACE_PAUSE_MAX);
        self.scarce_until = Some(Instant::now() + self.pause);
    }

    /// The rest of the pause, if there is one.
    pub(crate) fn pause_left(&mut self) -> Option<Duration> {
        let now = Instant::now();
        self.scarce_until = self.scarce_until.filter(|until| *until > now);
        self.scarce_until.map(|until| until - now)
    }

    /// Notes that no compaction gives anything back until something changes.
    pub(crate) fn record_nothing_to_gain(&mut self, wanted: SpaceWanted) {
        self.nothing_to_gain.record(wanted);
        self.space_wanted = None;
    }

    /// Notes how a compaction has ended.
    pub(crate) fn record_end(&mut self, plan: &Plan, reason: &CompactionKind, ended: &Result<(), Stopped>) {
        self.runs_no_more(plan);
        match (ended, reason) {
            (Ok(()), CompactionKind::Space) => self.space_wanted = None,
            (Ok(()), _) => self.pause = Duration::ZERO,
            (Err(Stopped::Unreadable(number, _)), _) => drop(self.unfit.insert(*number)),
            (Err(Stopped::NoSpace(_)), CompactionKind::Space) if plan.inputs.len() > 1 && !self.one_by_one => {
                self.one_by_one = true;
            }
            (Err(Stopped::NoSpace(_)), CompactionKind::Space) => self.no_space_for.extend(&plan.inputs),
            (Err(Stopped::NoSpace(_)), CompactionKind::Picked) | (Err(Stopped::Lacking(_)), _) => {
                self.pause_for_space()
            }
            (Err(_), _) => {}
        }
        self.changes += 1;
    }
}

/// A requested compaction of a range.
#[derive(Debug)]
pub(crate) struct ManualCompaction {
    pub(crate) from: KeyBound,
    pub(crate) to: KeyBound,
    /// Its end, once there.
    pub(crate) ended: Mutex<Option<Result<()>>>,
}

impl CompactionQueue {
    /// Notes that the files or their live counts have changed.
    /// LOCKS: compactions
    pub(crate) fn wake(&self) {
        let mut inner = self.inner.lock();
        inner.changes += 1;
        inner.nothing_to_gain.forget();
        inner.no_space_for.clear();
        inner.one_by_one = false;
        self.notify();
    }

    /// Has all look who wait for something to do, or for something to be done.
    pub(crate) fn notify(&self) {
        self.changed.notify_all();
        self.bell.ring();
    }

    /// Makes all compactions end soon.
    /// LOCKS: compactions
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.wake();
    }

    /// Whether the store closes, or has failed.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}
