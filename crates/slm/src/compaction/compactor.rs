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

use slmdb_engine::background::crew::Next;
use slmdb_engine::space::controller::READERS_PAUSE;
use slmdb_engine::space::reserve::{Loan, OutputSpace};
use slmdb_engine::store::compaction::{CompactionDone, CompactionWork};
use slmdb_engine::store::parts::Parts;
use slmdb_env::{Error, Result};
use slmdb_sync::epoch;
use slmdb_sync::scheduled::thread;

use crate::compaction::inputs;
use crate::compaction::outputs::{OutputFiles, Outputs};
use crate::compaction::pace::CompactionPace;
use crate::compaction::plan::{CompactionResult, Plan, Stopped};
use crate::compaction::queue::{CompactionKind, NextCompaction};
use crate::flush::finished::ToIndex;
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
    /// A step of the compactions: one of them, if there is something to compact.
    pub(crate) fn step(&self, finished: &ToIndex) -> Next {
        match self.next_compaction() {
            NextCompaction::Begun(plan, reason) => self.carry_out(&plan, reason, finished),
            NextCompaction::None { look_again_in } => return Next::Wait(look_again_in),
            NextCompaction::Never => {
                // Requests that are left get an answer.
                for request in self.state.compactions.inner.lock().requested.drain(..) {
                    *request.ended.lock() =
                        Some(Err(Error::ReadOnly { cause: "the store closes, or has failed".into() }));
                }
                self.state.compactions.notify();
                return Next::End;
            }
        }
        Next::Go
    }

    fn carry_out(&self, plan: &Plan, reason: CompactionKind, finished: &ToIndex) {
        let ended = match &reason {
            CompactionKind::Picked => self.compact_picked(plan, finished),
            CompactionKind::Space => self.compact(plan, OutputSpace::Reserve, finished).map(|_| ()),
            CompactionKind::Manual(request) => self.compact_requested(request, plan, finished),
        };
        if ended.is_err() {
            // Its outputs are deleted. That is counted before its inputs stop being busy, because waiting threads
            // look at both.
            self.store.writes.memtables.lock().space_returned += 1;
        }
        self.state.compactions.inner.lock().record_end(plan, &reason, &ended);
        if let Err(Stopped::Failed(error)) = &ended {
            self.store.context.fail(error.clone());
        }
        if let CompactionKind::Manual(request) = reason {
            *request.ended.lock() = Some(ended.map_err(|stopped| stopped.cause()));
        }
        self.state.compactions.notify();
        self.store.wake_waiting();
    }

    /// Runs a compaction that the policy chose, and notes what it gained.
    /// LOCKS: catalog, compaction candidates
    fn compact_picked(&self, plan: &Plan, finished: &ToIndex) -> Result<(), Stopped> {
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
        finished: &ToIndex,
    ) -> Result<CompactionResult, Stopped> {
        let loan = match space {
            OutputSpace::Reserve => match self.store.lend_reserve(plan.inputs.len())? {
                None => return Err(self.store.catalog.reserve.taken().into()),
                lent => lent,
            },
            // Not without space for its own record in the MANIFEST (INV-34).
            OutputSpace::Free => {
                self.store.catalog.provide_for_compaction(plan.inputs.len(), space)?;
                None
            }
        };
        let (chosen_by, inputs) = (plan.reason.as_str(), plan.inputs.clone());
        let input_bytes = self.length_bytes_of(&plan.inputs);
        let work = CompactionWork { chosen_by, inputs, input_bytes };
        let mut made = CompactionResult::default();
        let began_ns = self.store.context.env.monotonic_ns();
        self.store.observe_compaction(work, Stopped::cause, |done| {
            let ended = self.merge_inputs(plan, space, finished, done);
            made = CompactionResult {
                files: done.outputs.clone(),
                input_bytes,
                bytes_written: done.bytes_written,
                has_given_way: matches!(ended, Ok(true)),
            };
            self.end(plan, ended, done, loan)
        })?;
        if plan.reason.is_garbage() {
            let removed_bytes = input_bytes.saturating_sub(made.bytes_written);
            let took_ns = self.store.context.env.monotonic_ns().saturating_sub(began_ns);
            self.store.writes.pacing.debt_paid(removed_bytes, made.bytes_written, took_ns);
        }
        Ok(made)
    }

    /// Copies what is valid, and waits until the last output is in the MANIFEST. Returns whether it has given way.
    fn merge_inputs(
        &self,
        plan: &Plan,
        space: OutputSpace,
        finished: &ToIndex,
        done: &mut CompactionDone,
    ) -> Result<bool, Stopped> {
        let mut outputs = Outputs::new(&self.files, finished, space, plan.inputs.len());
        let merged = self.merge(plan, &mut outputs, &mut done.bytes_read);
        let ended = match merged {
            Ok(()) => outputs.end(&plan.inputs).map(|()| false),
            // The inputs stay, with what was moved as garbage.
            Err(Stopped::GivesWay) => outputs.end(&[]).map(|()| true),
            Err(stopped) => Err(stopped),
        };
        outputs.abandon();
        (done.outputs, done.bytes_written) = (std::mem::take(&mut outputs.made), outputs.bytes_written);
        // Buffers for chunks and blocks, and those of the outputs: about as many bytes as went in and out.
        let budget = &self.store.context.budget;
        budget.compaction_has_ended(inputs::memory_bytes(plan.inputs.len()) + outputs.memory_bytes_max);
        budget.freed(done.bytes_read + done.bytes_written);
        self.store.share_memory();
        ended
    }

    /// Removes the inputs of a compaction that was committed, and gives back what they took.
    /// LOCKS: catalog, compactions; memtables
    fn end(
        &self,
        plan: &Plan,
        ended: Result<bool, Stopped>,
        done: &CompactionDone,
        loan: Option<Loan<'_>>,
    ) -> Result<(), Stopped> {
        let has_given_way = ended.inspect_err(|_| {
            // If an output was committed, a part of each input is garbage.
            let catalog = self.store.catalog.lock();
            if done.outputs.iter().any(|number| catalog.state().files.contains_key(number)) {
                self.state.compactions.inner.lock().left_over.extend(&plan.inputs);
            }
        })?;
        if !has_given_way {
            self.store.obsolete.retire(&plan.inputs, || self.state.index.keys.forget(&plan.inputs));
        }
        if loan.is_some() {
            // A thread waits for this space, so wait for the segments' last readers.
            while self.state.index.keys.awaits_readers() && !self.state.compactions.is_stopping() {
                thread::sleep(READERS_PAUSE);
                epoch::pin().flush();
            }
        }
        self.store.gave_space_back(loan).map_err(Stopped::Failed)
    }

    /// Total length of these table files in bytes.
    /// LOCKS: catalog
    fn length_bytes_of(&self, numbers: &[u32]) -> u64 {
        let catalog = self.store.catalog.lock();
        numbers.iter().filter_map(|number| catalog.state().files.get(number)).map(|file| file.length_bytes).sum()
    }
}
