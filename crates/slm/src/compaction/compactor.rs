//! Selective compaction: table files are merged, and only what is still valid is written anew (paper, section 3.3).
//!
//! [`crate::selection`] chooses the files. A compaction thread goes through their entries in key order, asks the index
//! whether it still points there, and copies what it does point to into new files of `table_file_bytes`. Each file that
//! is finished and durable goes to the index thread, which moves the keys to it while the compaction thread fills the
//! next.
//!
//! # Why no newer write is undone
//!
//! A sequence number is given out once. So a key is moved if, and only if, the index has it at that very sequence
//! number: compare and swap, under the leaf's lock (INV-15). What a flush has put there since has another number and
//! stays.
//!
//! # Each file is a job
//!
//! 1. When a file is durable, with its key segment, a job record says *repointing*.
//! 2. The keys are moved.
//! 3. One MANIFEST record adds the file, with as many live entries as were moved, and takes as many from the files they
//!    were in. The record of the last file also removes the inputs.
//!
//! So live counts are right after each file, wherever a crash comes. The next opening finishes a file whose keys were
//! moving. Inputs that are left have few live entries, and are picked again.
//!
//! From the first move to the record [`Index::indexing`] is held, as flushes hold it (INV-16). So an entry that was
//! left out because a flush had replaced it is given up only after that flush has committed.
//!
//! # Deletes
//!
//! A delete in a table file keeps older versions of its key dead when the index has to be rebuilt. It is left out once
//! the index has the key again (then at a larger number), once the index checkpoints cover it, or once it hides nothing
//! (INV-18).
//!
//! # Giving way
//!
//! A merge for order [ends early](crate::compaction::order_schedule) when writers are busy: its last file is committed
//! like the ones before, and no record removes the inputs.
//!
//! # Errors
//!
//! A compaction ends at the next entry when the store closes or has failed. One that finds no space, or no free file
//! descriptor, gives up what it was writing (INV-28); for a while only compactions that [give space
//! back](crate::space::reclaim) begin. An input that can't be read is left alone until the next opening, for `verify`
//! to report. Any other failure stops all writing.

#[cfg(test)]
mod step_by_step;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use slmdb_engine::Event;
use slmdb_engine::observe::spans::timed;
use slmdb_engine::space::controller::{READERS_PAUSE, TierSpace};
use slmdb_engine::space::reserve::{Loan, OutputSpace};
use slmdb_engine::store::parts::Parts;
use slmdb_env::{Error, Result};
use slmdb_sync::epoch;
use slmdb_sync::scheduled::mpsc::SyncSender;
use slmdb_sync::scheduled::thread;
use tracing::field::Empty;
use tracing::info_span;

use crate::compaction::inputs;
use crate::compaction::outputs::{OutputFiles, Outputs};
use crate::compaction::pace::CompactionPace;
use crate::compaction::plan::{CompactionResult, Plan, Stopped};
use crate::compaction::queue::CompactionKind;
use crate::flush::finished::Finished;
use crate::recovery::index_checkpoint::IndexCheckpointer;
use crate::space::space_planner::SpacePlanner;
use crate::state::SlmState;

/// Why a compaction stops after this error in writing.
impl From<Error> for Stopped {
    fn from(error: Error) -> Stopped {
        match error {
            Error::Full { .. } => Stopped::NoSpace(error),
            _ if error.is_passing_lack() => Stopped::Lacking(error),
            _ => Stopped::Failed(error),
        }
    }
}

/// The compaction threads, and the callers of [`slmdb_engine::Engine::compact_range`].
pub(crate) struct Compactor {
    pub(crate) store: Arc<Parts>,
    pub(crate) state: Arc<SlmState>,
    pub(crate) planner: SpacePlanner,
    pub(crate) pace: Arc<CompactionPace>,
    pub(crate) files: Arc<OutputFiles>,
    pub(crate) checkpointer: Arc<IndexCheckpointer>,
}

impl Compactor {
    /// The loop of one compaction thread.
    pub(crate) fn run(&self, finished: SyncSender<Finished>) {
        while let Some((plan, reason)) = self.next_compaction() {
            let ended = match &reason {
                CompactionKind::Picked => self.compact_picked(&plan, &finished),
                CompactionKind::Space => self.compact(&plan, OutputSpace::Reserve, &finished).map(|_| ()),
                CompactionKind::Manual(request) => self.compact_requested(request, &plan, &finished),
            };
            if ended.is_err() {
                // Its outputs are deleted. That is counted before its inputs stop being busy, because waiting threads
                // look at both.
                self.store.writes.memtables.lock().space_returned += 1;
            }
            self.state.compactions.inner.lock().record_end(&plan, &reason, &ended);
            if let Err(Stopped::Failed(error)) = &ended {
                self.store.context.fail(error.clone());
            }
            if let CompactionKind::Manual(request) = reason {
                *request.ended.lock() = Some(ended.map_err(|stopped| stopped.cause()));
            }
            self.state.compactions.changed.notify_all();
            self.store.wake_waiting();
        }
        // Requests that are left get an answer.
        for request in self.state.compactions.inner.lock().requested.drain(..) {
            *request.ended.lock() = Some(Err(Error::ReadOnly { cause: "the store closes, or has failed".into() }));
        }
        self.state.compactions.changed.notify_all();
    }

    /// Runs a compaction that the policy chose, and notes what it gained.
    /// LOCKS: catalog, compaction candidates
    fn compact_picked(&self, plan: &Plan, finished: &SyncSender<Finished>) -> Result<(), Stopped> {
        let (catalog, state) = (&self.store.catalog, &self.state);
        let taken = state.paper.as_ref().map(|paper| {
            let droppable_through = state.checkpoints.deletes_droppable_through();
            (paper, paper.candidates.take(&plan.inputs, catalog.lock().state(), droppable_through))
        });
        let made = self.compact(plan, OutputSpace::Free, finished)?;
        state.notes.compacted(plan, &made);
        if let Some((paper, taken)) = taken {
            paper.compacted(&taken, &made, catalog, &state.index);
        }
        Ok(())
    }

    /// Merges files into new ones. After an error, outputs that were committed stay, and the inputs are left over.
    /// LOCKS: catalog, compactions; memtables
    pub(crate) fn compact(
        &self,
        plan: &Plan,
        space: OutputSpace,
        finished: &SyncSender<Finished>,
    ) -> Result<CompactionResult, Stopped> {
        // Not without space for its own MANIFEST record (INV-34).
        self.store.catalog.provide_for_compaction(plan.inputs.len(), space)?;
        let reserve = &self.store.catalog.reserve;
        let loan = if space == OutputSpace::Reserve { reserve.lend()? } else { None };
        if space == OutputSpace::Reserve && loan.is_none() {
            return Err(reserve.taken().into());
        }
        let number = self.state.compactions.begun.fetch_add(1, Ordering::Relaxed) + 1;
        let began_ns = self.store.context.env.monotonic_ns();
        let span =
            info_span!("compaction", number, chosen_by = plan.reason.as_str(), files = plan.inputs.len(), ms = Empty);
        let input_bytes = self.length_bytes_of(&plan.inputs);
        self.store.context.notify(|| Event::CompactionBegan {
            number,
            chosen_by: plan.reason.as_str(),
            inputs: plan.inputs.clone(),
            input_bytes,
        });
        // Copy what is valid, and wait until the last output is in the MANIFEST.
        let mut outputs = Outputs::new(&self.files, finished, space, plan.inputs.len());
        let mut bytes_read = 0;
        let ended = timed(&*self.store.context.env, span, || {
            let merged = self.merge(plan, &mut outputs, &mut bytes_read);
            match merged {
                Ok(()) => outputs.end(&plan.inputs).map(|()| false),
                // The inputs stay, with what was moved as garbage.
                Err(Stopped::GivesWay) => outputs.end(&[]).map(|()| true),
                Err(stopped) => Err(stopped),
            }
        });
        outputs.abandon();
        let has_given_way = ended.as_ref().is_ok_and(|&has_given_way| has_given_way);
        let (files, bytes_written) = (std::mem::take(&mut outputs.made), outputs.bytes_written);
        let made = CompactionResult { files, input_bytes, bytes_written, has_given_way };
        self.store.context.counted.compaction_bytes_read.fetch_add(bytes_read, Ordering::Relaxed);
        // Buffers for chunks and blocks, and those of the outputs: about as many bytes as went in and out.
        self.store
            .context
            .budget
            .compaction_has_ended(inputs::memory_bytes(plan.inputs.len()) + outputs.memory_bytes_max);
        self.store.context.budget.freed(bytes_read + bytes_written);
        self.store.share_memory();
        // Given up: if an output was committed, a part of each input is garbage.
        ended.inspect_err(|stopped| {
            let catalog = self.store.catalog.lock();
            if made.files.iter().any(|number| catalog.state().files.contains_key(number)) {
                self.state.compactions.inner.lock().left_over.extend(&plan.inputs);
            }
            drop(catalog);
            let cause = stopped.cause();
            tracing::warn!(%cause, "a compaction was given up");
            self.store.context.notify(|| Event::CompactionGivenUp { number, inputs: plan.inputs.clone(), cause });
        })?;
        self.store.context.counted.compactions.fetch_add(1, Ordering::Relaxed);
        // Committed: the inputs go, and what they took comes back.
        if !has_given_way {
            self.store.obsolete.retire(&plan.inputs, || self.state.index.segments.retire(&plan.inputs));
        }
        self.gave_space_back(loan).map_err(Stopped::Failed)?;
        let now_ns = self.store.context.env.monotonic_ns();
        if plan.reason.is_garbage() {
            let removed_bytes = input_bytes.saturating_sub(bytes_written);
            self.store.writes.pacing.debt_paid(removed_bytes, bytes_written, now_ns.saturating_sub(began_ns));
        }
        self.store.context.notify(|| Event::CompactionEnded {
            number,
            inputs: plan.inputs.clone(),
            outputs: made.files.clone(),
            bytes_read,
            bytes_written,
            duration: Duration::from_nanos(now_ns.saturating_sub(began_ns)),
        });
        Ok(made)
    }

    /// After a compaction's inputs are gone: refills the reserves first, then wakes the threads that wait for space.
    /// LOCKS: catalog; indexed keys, memtables; compactions
    fn gave_space_back(&self, loan: Option<Loan<'_>>) -> Result<()> {
        if loan.is_some() {
            // A thread waits for this space, so wait for the segments' last readers.
            while self.state.index.segments.awaits_readers() && !self.state.compactions.is_stopping() {
                thread::sleep(READERS_PAUSE);
                epoch::pin().flush();
            }
        }
        let (options, catalog) = (&self.store.context.options, &self.store.catalog);
        self.state.count_files(options, catalog.lock().state(), &catalog.reserve);
        drop(loan);
        for filled in [self.store.catalog.fill_reserve(), self.store.space.reserve_again()] {
            match filled {
                Err(error) if !error.may_be_tried_again() => return Err(error),
                _ => {}
            }
        }
        self.store.space_came_back();
        Ok(())
    }

    /// Total length of these table files in bytes.
    /// LOCKS: catalog
    fn length_bytes_of(&self, numbers: &[u32]) -> u64 {
        let catalog = self.store.catalog.lock();
        numbers.iter().filter_map(|number| catalog.state().files.get(number)).map(|file| file.length_bytes).sum()
    }
}
