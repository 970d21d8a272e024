//! What is the same for each engine's compactions: the steps of their jobs, what listeners are told, the reserve, and the
//! space that comes back.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use slmdb_env::{Error, Result};
use slmdb_sync::epoch;
use slmdb_sync::scheduled::Instant;
use tracing::field::Empty;
use tracing::info_span;

use super::parts::Parts;
use crate::Event;
use crate::background::bell::Bell;
use crate::background::compaction_queue::{CompactionQueue, SpaceWanted};
use crate::background::crew::Next;
use crate::background::workers::{Task, task};
use crate::observe::spans::timed;
use crate::space::reserve::{Loan, OutputSpace};
use crate::stall::stall_stats::StallCause;

/// How long a job waits before it looks again, if nobody wakes it.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// Where nothing changes, the time doubles so often: to 400 ms.
const LONGER_ROUNDS_MAX: u32 = 3;

/// Outputs may be longer than their inputs by this part, where they are cut shorter.
const OUTPUTS_MORE_PART: u64 = 16;

/// What a compaction is to do.
pub struct CompactionWork {
    /// What chose it.
    pub chosen_by: &'static str,
    /// The numbers of its table files.
    pub inputs: Vec<u32>,
    /// Their length in bytes.
    pub input_bytes: u64,
}

/// What it has done.
#[derive(Debug, Default)]
pub struct CompactionDone {
    /// The numbers of its new table files.
    pub outputs: Vec<u32>,
    /// What it has read of table files, in bytes.
    pub bytes_read: u64,
    /// The length of its new table files in bytes.
    pub bytes_written: u64,
}

/// How long a thread is left alone whose last compaction found no space: at first, and at most. The time doubles with each try.
const IN_VAIN_PAUSE_FIRST: Duration = Duration::from_millis(50);
const IN_VAIN_PAUSE_MAX: Duration = Duration::from_secs(10);

/// A compaction that found no space.
struct InVain {
    at: Instant,
    pause: Duration,
}

impl InVain {
    /// One more, perhaps after another one.
    fn again(last: Option<InVain>) -> InVain {
        let pause = last.map_or(IN_VAIN_PAUSE_FIRST, |last| (2 * last.pause).min(IN_VAIN_PAUSE_MAX));
        InVain { at: Instant::now(), pause }
    }

    fn is_paused(&self) -> bool {
        self.at.elapsed() < self.pause
    }
}

/// What such a job remembers of its last steps.
#[derive(Default)]
pub struct Rounds {
    /// The number of changes when it looked last.
    seen: u64,
    /// How often it has looked since then.
    without_change: u32,
    in_vain: Option<InVain>,
}

impl Rounds {
    fn look(&mut self, changes: u64) {
        if changes == self.seen {
            self.without_change += 1;
        } else {
            *self = Rounds { seen: changes, without_change: 0, in_vain: None };
        }
    }
}

impl Parts {
    /// The work of as many compactions as may run at once.
    pub fn compaction_work(
        &self,
        bell: &Arc<Bell>,
        step: impl Fn(&mut Rounds) -> Next + Clone + Send + 'static,
    ) -> Vec<Task> {
        let of_one = |_| {
            let (step, mut rounds) = (step.clone(), Rounds::default());
            task(&self.context, bell, move || step(&mut rounds))
        };
        (0..self.context.options.compaction.threads_to_start()).map(of_one).collect()
    }

    /// A step of such work, until the store closes or fails. `compact` does one piece of work, and returns whether there was any.
    /// What it is given is wanted of it alone. `idle` runs before the job waits.
    /// LOCKS: those of `compact` and of `idle`; compactions; memtables
    pub fn compaction_step(
        &self,
        queue: &CompactionQueue,
        rounds: &mut Rounds,
        compact: impl Fn(Option<SpaceWanted>) -> Result<bool>,
        idle: impl Fn(),
    ) -> Next {
        let Some(changes) = queue.changes() else { return Next::End };
        rounds.look(changes);
        let is_paused = rounds.in_vain.as_ref().is_some_and(InVain::is_paused);
        let is_over = || queue.is_stopping() || self.context.has_failed();
        let compacted =
            if is_paused || is_over() { Ok(false) } else { self.compact_once(queue, queue.begin(), compact) };
        match compacted {
            Ok(true) => {
                (rounds.in_vain, rounds.without_change) = (None, 0);
                return Next::Go;
            }
            _ if self.context.has_failed() => return Next::End,
            Err(Error::ReadOnly { .. }) => return Next::End,
            // It is tried again when something has changed, or after a while, as others may give back space on the disk.
            Err(Error::Full { .. }) => rounds.in_vain = Some(InVain::again(rounds.in_vain.take())),
            Ok(false) | Err(_) => {}
        }
        idle();
        Next::Wait(Some(LOOK_AGAIN * (1 << rounds.without_change.min(LONGER_ROUNDS_MAX))))
    }

    fn compact_once(
        &self,
        queue: &CompactionQueue,
        wanted: Option<SpaceWanted>,
        compact: impl Fn(Option<SpaceWanted>) -> Result<bool>,
    ) -> Result<bool> {
        let compacted = compact(wanted);
        if queue.end(matches!(compacted, Ok(true)), wanted) {
            // Whoever waits for a compaction looks again, whether it has given anything back or not.
            self.wake_waiting();
        }
        compacted
    }

    /// Runs a compaction that a caller waits for, beside those of the threads.
    /// LOCKS: those of `compact`; compactions; memtables
    pub fn run_requested<T>(&self, queue: &CompactionQueue, compact: impl FnOnce() -> Result<T>) -> Result<T> {
        queue.begin_request();
        let compacted = compact();
        queue.end(compacted.is_ok(), None);
        // Another one may still be removing what it has replaced.
        queue.wait_until_idle();
        self.wake_waiting();
        compacted
    }

    /// Runs a compaction, and tells listeners of its beginning and its end. What it gave back is there when it is told.
    /// `cause`: why it was given up.
    /// LOCKS: those of `compact`
    pub fn observe_compaction<E>(
        &self,
        work: CompactionWork,
        cause: impl Fn(&E) -> Error,
        compact: impl FnOnce(&mut CompactionDone) -> Result<(), E>,
    ) -> Result<(), E> {
        let (context, CompactionWork { chosen_by, inputs, input_bytes }) = (&self.context, work);
        let number = self.compactions_begun.fetch_add(1, Ordering::Relaxed) + 1;
        let (began_ns, mut done) = (context.env.monotonic_ns(), CompactionDone::default());
        let span = info_span!("compaction", number, chosen_by, files = inputs.len(), ms = Empty);
        context.notify(|| Event::CompactionBegan { number, chosen_by, inputs: inputs.clone(), input_bytes });
        let ended = timed(&*context.env, span, || compact(&mut done));
        let CompactionDone { outputs, bytes_read, bytes_written } = done;
        context.counted.compaction_bytes_read.fetch_add(bytes_read, Ordering::Relaxed);
        if let Err(error) = ended {
            let cause = cause(&error);
            tracing::warn!(%cause, "a compaction was given up");
            context.notify(|| Event::CompactionGivenUp { number, inputs, cause });
            return Err(error);
        }
        context.counted.compactions.fetch_add(1, Ordering::Relaxed);
        let duration = Duration::from_nanos(context.env.monotonic_ns().saturating_sub(began_ns));
        context.notify(|| Event::CompactionEnded { number, inputs, outputs, bytes_read, bytes_written, duration });
        Ok(())
    }

    /// Lends the reserve to a compaction that replaces so many table files. `None`: another one has it.
    /// LOCKS: catalog, reserve
    pub fn lend_reserve(&self, inputs: usize) -> Result<Option<Loan<'_>>> {
        // Not without space for its own record in the MANIFEST (INV-34).
        self.catalog.provide_for_compaction(inputs, OutputSpace::Reserve)?;
        self.catalog.reserve.lend()
    }

    /// Runs a compaction that may use the reserve. `false`: another one has it, or there was nothing to do. One that was
    /// in vain is no reason to look for space again: then whoever waits would ask for the next one, and so on.
    /// LOCKS: catalog, reserve; those of `compact`
    pub fn in_reserve(&self, inputs: usize, compact: impl FnOnce() -> Result<bool>) -> Result<bool> {
        let Some(loan) = self.lend_reserve(inputs)? else { return Ok(false) };
        let done = compact();
        if matches!(done, Ok(true)) {
            self.gave_space_back(Some(loan))?;
        } else {
            self.count_files();
        }
        done
    }

    /// After a compaction's inputs are gone: takes the reserve back and refills it first, then wakes the threads that wait for
    /// space.
    /// LOCKS: catalog, reserve; the engine's own; memtables; compactions
    pub fn gave_space_back(&self, loan: Option<Loan<'_>>) -> Result<()> {
        self.count_files();
        drop(loan);
        for filled in [self.catalog.fill_reserve(), self.space.reserve_again()] {
            match filled {
                Err(error) if !error.may_be_tried_again() => return Err(error),
                _ => {}
            }
        }
        // Or slots of the pool would wait until this thread takes out as much again.
        epoch::pin().flush();
        self.space_came_back();
        Ok(())
    }

    /// Tells the reserve which files there are.
    /// LOCKS: catalog
    fn count_files(&self) {
        self.state.count_files(&self.context.options, self.catalog.lock().state(), &self.catalog.reserve);
    }

    /// [`Error::Full`] if a compaction that writes so much must not begin without the reserve: it would come to no end, or take
    /// what another one was lent.
    /// LOCKS: reserve
    pub fn check_space(&self, bytes: u64) -> Result<()> {
        self.catalog.reserve.check_not_taken(bytes)?;
        if self.room_bytes() < bytes {
            return Err(Error::Full { path: self.context.directory.clone(), what: "compact".into() });
        }
        Ok(())
    }

    /// How many bytes of inputs there is space for: outputs may take a little more.
    pub fn room_bytes(&self) -> u64 {
        let free_bytes = self.context.env.available_bytes(&self.context.directory).unwrap_or(u64::MAX);
        free_bytes - free_bytes / OUTPUTS_MORE_PART
    }

    /// Sets how far compactions slow writers: to this multiple of the rate at which they pay debts. `running` of `threads` compact.
    pub fn set_compaction_pace(&self, multiple: Option<f64>, running: usize, threads: usize) {
        self.writes.pacing.set_compaction_pace(multiple, running, threads);
        let is_limited = self.writes.pacing.is_limited_by(StallCause::Compaction);
        self.context.events.paced(StallCause::Compaction, is_limited, || self.context.env.monotonic_ns());
    }
}
