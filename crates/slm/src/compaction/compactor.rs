//! Selective compaction: table files are merged, and only what still counts is written anew (paper, section 3.3).
//!
//! Which files, is for [`crate::selection`] to say. Here they are merged: a compaction thread goes through their entries in
//! key order, asks the index whether it still points there, and copies what it does point to into new files of
//! `table_file_bytes`. Each file that is finished and durable goes to the index thread, which moves the keys to it, while
//! the compaction thread fills the next.
//!
//! # Why no newer write is undone
//!
//! A sequence number is given out once. So a key is moved if, and only if, the index has it at that very sequence number:
//! compare and swap, under the leaf's lock. Whatever a flush has put there since has another number and stays.
//!
//! # Each file is a job
//!
//! When a file is durable, with its key segment, a job record says *moving*; then the keys are moved and one MANIFEST record
//! adds the file, with as many live entries as were moved, and takes as many from the files they were in. The
//! record of the last file also removes the inputs. So live counts are right after each file, wherever a crash comes: a
//! file that was moving is finished by the next opening, and inputs that are left are files with little in them, to be
//! picked again. Between first move and record, [`Index::indexing`] is held, as flushes hold it: an entry that was left out
//! because a flush had replaced or removed it is given up only after that flush has committed.
//!
//! # Deletes
//!
//! A delete in a table file keeps older versions of its key dead when the index has to be rebuilt. It is left out once the
//! index has the key again (then at a larger number), or once the index checkpoints cover it.
//!
//! A compaction ends at the next entry when the store closes or has failed. One that finds no space, or can't open a file for want of
//! descriptors, gives up what it was writing; for a while only such are begun that
//! [give space back](crate::space::reclaim). An input that can't be read is left alone until the next opening, for `verify`
//! to report. Any other failure stops all writing.

#[cfg(test)]
mod step_by_step;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use slmdb_engine::context::StoreContext;
use slmdb_engine::files::catalog::Catalog;
use slmdb_engine::files::obsolete_files::ObsoleteFiles;
use slmdb_engine::files::table_cache::Tables;
use slmdb_engine::observe::spans::timed;
use slmdb_engine::read::merge::{Merge, TableKeys, common_prefix};
use slmdb_engine::space::controller::READERS_PAUSE;
use slmdb_engine::space::reserve::OutputSpace;
use slmdb_engine::write::write_path::WritePath;
use slmdb_engine::{CompactionPolicy, Event};
use slmdb_env::{Error, Result};
use slmdb_manifest::StoreState;
use slmdb_pmem::Medium;
use slmdb_structures::fast_fair::SegmentSize;
use slmdb_sync::epoch;
use slmdb_sync::scheduled::mpsc::SyncSender;
use slmdb_sync::scheduled::thread;
use slmdb_table::EntryKind;
use tracing::field::Empty;
use tracing::info_span;

use crate::compaction::entry_batch::Ahead;
use crate::compaction::inputs::{self, Values};
use crate::compaction::outputs::OutputFiles;
use crate::compaction::outputs::Outputs;
use crate::compaction::pace::CompactionPace;
use crate::compaction::plan::{CompactionReason, Made, Plan, Stopped};
use crate::compaction::queue::Compactions;
use crate::compaction::queue::{Inner, Reason};
use crate::flush::finished::Finished;
use crate::index::Index;
use crate::memory::MemoryShare;
use crate::recovery::checkpoint_schedule::Checkpoints;
use crate::recovery::index_checkpoint::IndexCheckpointer;
use crate::selection as picker;
use crate::selection::candidate_list::Candidates;
use crate::selection::leaf_node_scan::LeafNodeScan;
use crate::space::flush_cost::PoolFlushCost;
use crate::space::reclaim::SpaceReclaim;
use crate::space::space_planner::SpacePlanner;

/// Of an error in writing.
impl From<Error> for Stopped {
    fn from(error: Error) -> Stopped {
        match error {
            Error::Full { .. } => Stopped::NoSpace(error),
            _ if error.is_passing_lack() => Stopped::Lacking(error),
            _ => Stopped::Failed(error),
        }
    }
}

/// Compactions: a thread or several, and whoever asks for one.
pub(crate) struct Compactor<M: Medium> {
    pub(crate) context: Arc<StoreContext>,
    pub(crate) writes: Arc<WritePath<M>>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) tables: Arc<Tables>,
    pub(crate) index: Arc<Index<M>>,
    pub(crate) compactions: Arc<Compactions>,
    pub(crate) candidates: Arc<Candidates>,
    pub(crate) checkpoints: Arc<Checkpoints>,
    pub(crate) obsolete: Arc<ObsoleteFiles>,
    pub(crate) reclaim: Arc<SpaceReclaim<M>>,
    pub(crate) planner: SpacePlanner<M>,
    pub(crate) cost: Arc<PoolFlushCost<M>>,
    pub(crate) memory: Arc<MemoryShare<M>>,
    pub(crate) pace: Arc<CompactionPace<M>>,
    pub(crate) leaf_node_scan: LeafNodeScan<M>,
    pub(crate) files: Arc<OutputFiles<M>>,
    pub(crate) checkpointer: Arc<IndexCheckpointer<M>>,
}

impl<M: Medium + Clone> Compactor<M> {
    /// A compaction thread.
    pub(crate) fn run(&self, finished: SyncSender<Finished<M>>) {
        while let Some((plan, reason)) = self.next_compaction() {
            let ended = match &reason {
                Reason::Picked => self.compact_picked(&plan, &finished),
                Reason::Space => self.compact(&plan, OutputSpace::Reserve, &finished).map(|_| ()),
                Reason::Asked(asked) => self.compact_asked(asked, &plan, &finished),
            };
            if !matches!(reason, Reason::Picked) {
                // However it ended: no other that has it is under way.
                self.catalog.reserve.release();
            }
            if ended.is_err() {
                // Its outputs are deleted. That is counted before its inputs stop being busy: waiters look at both.
                self.writes.traffic.lock().space_returned += 1;
            }
            self.compactions.inner.lock().ended(&plan, &reason, &ended);
            if let Err(Stopped::Failed(error)) = &ended {
                self.context.fail(error.clone());
            }
            if let Reason::Asked(asked) = reason {
                *asked.ended.lock() = Some(ended.map_err(|stopped| stopped.cause()));
            }
            self.compactions.changed.notify_all();
            self.pace.set();
            self.reclaim.tell_who_waits();
        }
        // Whoever asked for more gets an answer.
        for asked in self.compactions.inner.lock().asked.drain(..) {
            *asked.ended.lock() = Some(Err(Error::ReadOnly { cause: "the store closes, or has failed".into() }));
        }
        self.compactions.changed.notify_all();
    }

    /// Waits for something to compact; `None` when the store closes or has failed. Its inputs are this thread's.
    fn next_compaction(&self) -> Option<(Plan, Reason)> {
        let compactions = &self.compactions;
        loop {
            // First, because it may take the disk a while: readers that name candidates wait for the other.
            let catalog = self.catalog.lock();
            let mut inner = compactions.inner.lock();
            if compactions.is_stopping() || self.context.has_failed() {
                return None;
            }
            let changes = inner.changes;
            let pause = inner.pause_left();
            let mut next = None;
            if let Some(asked) = inner.asked.front().cloned() {
                // It waits until none of its files is being compacted, and those that were have gone; nothing else begins meanwhile.
                if !self.is_compacting_in(&asked, &inner, catalog.state()) {
                    let plan = self.plan_of_range(&asked, catalog.state());
                    inner.asked.pop_front();
                    if plan.inputs.is_empty() {
                        *asked.ended.lock() = Some(Ok(()));
                        compactions.changed.notify_all();
                        continue;
                    }
                    next = Some((plan, Reason::Asked(asked)));
                }
            } else if inner.space_wanted.is_some() || pause.is_some() {
                // One at a time: the reserve is enough for one.
                if inner.busy.is_empty() {
                    let wanted = inner.space_wanted;
                    next =
                        self.planner.plan_for_space(&inner, catalog.state(), wanted).map(|plan| (plan, Reason::Space));
                    if let (None, Some(wanted)) = (&next, wanted) {
                        inner.gains_nothing(wanted);
                        drop((inner, catalog));
                        self.reclaim.tell_who_waits();
                        continue;
                    }
                }
            } else {
                let picked = self.pick(&inner, catalog.state());
                let plan = picked.or_else(|| self.plan_of_left_over(&mut inner, catalog.state()));
                next = plan.map(|plan| (plan, Reason::Picked));
            }
            if let Some((plan, reason)) = next {
                inner.busy.extend(&plan.inputs);
                drop((inner, catalog));
                if matches!(reason, Reason::Picked) && !self.planner.seems_to_have_space_for(&plan) {
                    compactions.inner.lock().pause_for_space_of(&plan);
                    self.reclaim.tell_who_waits();
                    continue;
                }
                self.pace.set();
                return Some((plan, reason));
            }
            drop(catalog);
            let nothing_new = |inner: &mut Inner| inner.changes == changes;
            let changed = &compactions.changed;
            match pause {
                Some(left) => {
                    drop(changed.wait_timeout_while(inner, left, nothing_new));
                }
                None => drop(changed.wait_while(inner, nothing_new)),
            }
        }
    }

    /// What the picker says.
    fn pick(&self, inner: &Inner, state: &StoreState) -> Option<Plan> {
        let is_free = |number: u32| !inner.busy.contains(&number) && !inner.unfit.contains(&number);
        let deletes_droppable_through = self.checkpoints.deletes_droppable_through();
        self.candidates.refresh(state, deletes_droppable_through);
        picker::pick(&picker::Choice {
            options: &self.context.options.compaction,
            state,
            order: &self.context.options.comparator,
            candidates: &self.candidates,
            is_free: &is_free,
            running: &inner.busy,
            deletes_droppable_through,
            memtable_bytes: self.context.options.memtable_bytes,
        })
    }

    /// What compactions that were given up have left half done. (Their garbage may be too little for the picker ever to come to it.)
    fn plan_of_left_over(&self, inner: &mut Inner, state: &StoreState) -> Option<Plan> {
        let Inner { left_over, busy, unfit, .. } = inner;
        left_over.retain(|number| state.files.contains_key(number));
        if self.context.options.compaction.policy == CompactionPolicy::Manual {
            return None;
        }
        let droppable_through = self.checkpoints.deletes_droppable_through();
        let has_garbage = |number: &&u32| picker::garbage(&state.files[*number], droppable_through) > 0;
        let is_free = |number: &&u32| !busy.contains(*number) && !unfit.contains(*number);
        let inputs: Vec<u32> = left_over
            .iter()
            .filter(|number| is_free(number) && has_garbage(number))
            .take(self.context.options.compaction.files_merged_max)
            .copied()
            .collect();
        (!inputs.is_empty()).then_some(Plan { inputs, reason: CompactionReason::MostGarbage })
    }

    /// What the picker has chosen, which counts for what has named it.
    fn compact_picked(&self, plan: &Plan, finished: &SyncSender<Finished<M>>) -> Result<(), Stopped> {
        let taken = {
            let catalog = self.catalog.lock();
            self.candidates.take(&plan.inputs, catalog.state(), self.checkpoints.deletes_droppable_through())
        };
        let made = self.compact(plan, OutputSpace::Free, finished)?;
        self.candidates.compacted(&taken, plan, &made);
        self.leaf_node_scan.scan();
        Ok(())
    }

    /// Merges files into new ones.
    pub(crate) fn compact(
        &self,
        plan: &Plan,
        space: OutputSpace,
        finished: &SyncSender<Finished<M>>,
    ) -> Result<Made, Stopped> {
        self.catalog.provide_for_compaction(plan.inputs.len(), space)?;
        let number = self.compactions.begun.fetch_add(1, Ordering::Relaxed) + 1;
        let began_ns = self.context.env.monotonic_ns();
        let span =
            info_span!("compaction", number, chosen_by = plan.reason.as_str(), files = plan.inputs.len(), ms = Empty);
        let input_bytes = self.length_bytes_of(&plan.inputs);
        self.context.notify(|| Event::CompactionBegan {
            number,
            chosen_by: plan.reason.as_str(),
            inputs: plan.inputs.clone(),
            input_bytes,
        });
        let mut outputs = Outputs::new(&self.files, finished, space, plan.inputs.len());
        let mut bytes_read = 0;
        let ended = timed(&*self.context.env, span, || {
            let merged = self.merge(plan, &mut outputs, &mut bytes_read);
            merged.and_then(|()| outputs.end(&plan.inputs))
        });
        outputs.abandon();
        let made = Made { files: std::mem::take(&mut outputs.made), bytes_written: outputs.bytes_written };
        let bytes_written = made.bytes_written;
        self.context.counted.compaction_bytes_read.fetch_add(bytes_read, Ordering::Relaxed);
        // Chunks and blocks on their way, and the outputs' own: about as much as went in and out.
        self.context.budget.compaction_has_ended(inputs::memory_bytes(plan.inputs.len()) + outputs.memory_bytes_max);
        self.context.budget.freed(bytes_read + bytes_written);
        self.memory.share();
        ended.inspect_err(|stopped| {
            let catalog = self.catalog.lock();
            if made.files.iter().any(|number| catalog.state().files.contains_key(number)) {
                self.compactions.inner.lock().left_over.extend(&plan.inputs);
            }
            drop(catalog);
            let cause = stopped.cause();
            tracing::warn!(%cause, "a compaction was given up");
            self.context.notify(|| Event::CompactionGivenUp { number, inputs: plan.inputs.clone(), cause });
        })?;
        self.context.counted.compactions.fetch_add(1, Ordering::Relaxed);
        self.obsolete.retire(&plan.inputs, || self.index.segments.retire(&plan.inputs));
        self.gave_space_back(space).map_err(Stopped::Failed)?;
        let now_ns = self.context.env.monotonic_ns();
        let last_end_ns = std::mem::replace(&mut self.compactions.inner.lock().last_end_ns, now_ns);
        let took_ns = now_ns.saturating_sub(began_ns.max(last_end_ns));
        if plan.reason.is_garbage() {
            self.writes.pacing.compacted(input_bytes.saturating_sub(bytes_written), took_ns);
        }
        self.context.notify(|| Event::CompactionEnded {
            number,
            inputs: plan.inputs.clone(),
            outputs: made.files.clone(),
            bytes_read,
            bytes_written,
            duration: Duration::from_nanos(now_ns.saturating_sub(began_ns)),
        });
        Ok(made)
    }

    /// A compaction has ended, and its inputs have gone: what is to be kept back comes first, then those who wait.
    fn gave_space_back(&self, space: OutputSpace) -> Result<()> {
        if space == OutputSpace::Reserve {
            self.catalog.reserve.release();
            // Somebody waits for it.
            while self.index.segments.awaits_readers() && !self.compactions.is_stopping() {
                thread::sleep(READERS_PAUSE);
                epoch::pin().flush();
            }
        }
        let sizes = SegmentSize::of_files(&self.index.pool);
        self.cost.pool_reserve.set_files(&sizes, self.catalog.lock().state(), &self.catalog.reserve);
        for filled in [self.catalog.fill_reserve(), self.cost.reserve_again()] {
            match filled {
                Err(error) if !error.may_be_tried_again() => return Err(error),
                _ => {}
            }
        }
        self.reclaim.space_came_back();
        Ok(())
    }

    /// How long table files are together, in bytes.
    fn length_bytes_of(&self, numbers: &[u32]) -> u64 {
        let catalog = self.catalog.lock();
        numbers.iter().filter_map(|number| catalog.state().files.get(number)).map(|file| file.length_bytes).sum()
    }

    /// Copies what still counts.
    fn merge(&self, plan: &Plan, outputs: &mut Outputs<'_, M>, bytes_read: &mut u64) -> Result<(), Stopped> {
        let _held = self.context.budget.background.hold(inputs::memory_bytes(plan.inputs.len()));
        let unreadable = |(input, error): (usize, Error)| Stopped::of_input(plan.inputs[input], error);
        let (mut keys, mut values, mut bounds) = (Vec::new(), Vec::new(), Vec::new());
        for (input, &number) in plan.inputs.iter().enumerate() {
            let reader = self.tables.reader(number).map_err(|error| unreadable((input, error)))?;
            keys.push(TableKeys::new(number, &reader, &self.tables));
            values.push(Values::new(&reader, inputs::window_bytes(plan.inputs.len())));
            bounds.extend([reader.properties().smallest_key.clone(), reader.properties().largest_key.clone()]);
        }
        let prefix = common_prefix(bounds.iter().map(Vec::as_slice));
        let mut merge =
            Merge::new(keys, self.context.options.comparator.clone(), prefix, (None, None)).map_err(unreadable)?;
        let copied = self.copy_merged(plan, &mut merge, &mut values, outputs);
        *bytes_read += merge.sources().map(TableKeys::read_bytes).sum::<u64>();
        *bytes_read += values.iter().map(|values| values.read_bytes).sum::<u64>();
        copied
    }

    fn copy_merged(
        &self,
        plan: &Plan,
        merge: &mut Merge<TableKeys<'_>>,
        values: &mut [Values],
        outputs: &mut Outputs<'_, M>,
    ) -> Result<(), Stopped> {
        let unreadable = |(input, error): (usize, Error)| Stopped::of_input(plan.inputs[input], error);
        let (mut ahead, mut counts) = (Ahead::default(), Vec::new());
        // The key that was copied last. What comes of it after that is older.
        let (mut copied, mut has_copied) = (Vec::new(), false);
        while ahead.fill(merge).map_err(unreadable)? {
            let dropped_through = &mut outputs.deletes_dropped_through;
            self.what_counts(plan, &ahead, &mut counts, dropped_through).map_err(Stopped::Failed)?;
            for ((input, entry), &counts) in ahead.entries().zip(&counts) {
                if self.compactions.is_stopping() {
                    return Err(Stopped::Closing);
                }
                if !counts || (has_copied && copied == entry.key) {
                    continue;
                }
                match entry.kind {
                    EntryKind::Delete => outputs.add(&entry, &[])?,
                    EntryKind::Put => {
                        let value = values[input].value(&entry).map_err(|error| unreadable((input, error)))?;
                        outputs.add(&entry, &value)?;
                    }
                }
                copied.clear();
                copied.extend_from_slice(entry.key);
                has_copied = true;
            }
        }
        Ok(())
    }

    /// Which of these entries of table files are to be kept. `deletes_dropped_through` rises to the sequence numbers of deletes
    /// that are not, because index checkpoints cover them.
    fn what_counts(
        &self,
        plan: &Plan,
        ahead: &Ahead,
        counts: &mut Vec<bool>,
        deletes_dropped_through: &mut u64,
    ) -> Result<()> {
        counts.clear();
        let keys: Vec<&[u8]> = ahead.entries().map(|(_, entry)| entry.key).collect();
        let mut entries = ahead.entries();
        let droppable_through = self.checkpoints.deletes_droppable_through();
        let guard = epoch::pin();
        self.index.tree.get_each(&keys, &guard, |_, current| {
            let Some((input, entry)) = entries.next() else { return Ok(()) };
            counts.push(match (entry.kind, current) {
                (EntryKind::Put, current) => current.is_some_and(|current| {
                    (current.file(), current.sequence()) == (plan.inputs[input], entry.sequence)
                }),
                (EntryKind::Delete, Some(_)) => false,
                (EntryKind::Delete, None) => {
                    let is_covered = entry.sequence <= droppable_through;
                    if is_covered {
                        *deletes_dropped_through = entry.sequence.max(*deletes_dropped_through);
                    }
                    !is_covered
                }
            });
            Ok(())
        })
    }
}
