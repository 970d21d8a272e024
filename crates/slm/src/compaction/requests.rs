//! [`slmdb_engine::Engine::compact_range`]: a requested compaction, and how it makes do with little space.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use slmdb_engine::lock_order;
use slmdb_engine::read::ordered_key::positions_in_order;
use slmdb_engine::space::reserve::OutputSpace;
use slmdb_env::{Error, Result};
use slmdb_manifest::{FileRecord, StoreState};
use slmdb_sync::scheduled::Mutex;

use crate::compaction::compactor::Compactor;
use crate::compaction::plan::{CompactionReason, Plan, Stopped};
use crate::compaction::queue::{KeyBound, ManualCompaction, QueueState};
use crate::flush::finished::ToIndex;
use crate::selection::live_key_ratio::garbage;

/// How often a caller that waits for a compaction checks whether it is stuck.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

impl Compactor {
    /// See [`slmdb_engine::Engine::compact_range`].
    /// LOCKS: memtables; compactions, end of a compaction
    pub(crate) fn compact_range(&self, from: KeyBound, to: KeyBound) -> Result<()> {
        self.store.context.check_writable()?;
        self.store.writes.flush()?;
        let request = Arc::new(ManualCompaction { from, to, ended: Mutex::ranked(lock_order::COMPACTION_ENDED, None) });
        self.make_garbage_of_deletes(&request)?;
        let space_errors = self.store.writes.memtables.lock().space_errors.count();
        let mut inner = self.state.compactions.inner.lock();
        inner.requested.push_back(request.clone());
        inner.changes += 1;
        self.state.compactions.notify();
        loop {
            if let Some(ended) = request.ended.lock().take() {
                return ended;
            }
            // No compaction thread may be left to answer: one that panicked, or one that ended before this request
            // came.
            if self.state.compactions.is_stopping() {
                self.store.context.check_writable()?;
                return Err(Error::ReadOnly { cause: "the store closes".into() });
            }
            drop(self.state.compactions.changed.wait_timeout(inner, LOOK_AGAIN));
            // The compaction goes on when there is space again, but its caller is not kept waiting for that.
            self.store.writes.memtables.lock().space_errors.check_flush(space_errors)?;
            inner = self.state.compactions.inner.lock();
        }
    }

    /// Sees to it that deletes in a range may be dropped.
    /// LOCKS: index checkpoint, memtables, indexing (tried), catalog; compactions
    fn make_garbage_of_deletes(&self, request: &ManualCompaction) -> Result<()> {
        let is_stopped = || self.state.compactions.is_stopping();
        let fail = |error: &Error| self.store.context.fail(error.clone());
        self.checkpointer.take_due(&is_stopped).inspect_err(fail)?;
        // A moment at which nothing is left that they hide is enough. On a full disk that may be all there is to gain.
        let is_short_of_space = self.is_short_of_space().map_err(|stopped| stopped.cause())?;
        if is_short_of_space && self.checkpointer.note_needless_deletes(true).inspect_err(fail)? {
            return Ok(());
        }
        match self.deletes_worth_covering(request) {
            Some(sequence) => self.checkpointer.cover_deletes(sequence, &is_stopped).inspect_err(fail),
            None => Ok(()),
        }
    }

    /// The last sequence number in those files of a range that have deletes, if these are worth two index checkpoints. A
    /// checkpoint has an entry for each key of the store. So it costs no more than compacting the range if that has as
    /// many entries. The whole store always has.
    /// LOCKS: catalog
    fn deletes_worth_covering(&self, request: &ManualCompaction) -> Option<u64> {
        let catalog = self.store.catalog.lock();
        let files = &catalog.state().files;
        let in_range = || files.values().filter(|file| self.is_in_range(request, file));
        let entries: u64 = in_range().map(|file| file.entries).sum();
        let keys: u64 = files.values().map(|file| file.live_keys).sum();
        let with_deletes = in_range().filter(|file| file.deletes > 0);
        with_deletes.map(|file| file.highest_sequence).max().filter(|_| entries >= keys)
    }

    /// Merges all of a range. Without the space for that, it removes the files' garbage within the reserve, and merges
    /// what is left if that has freed enough. If space is still short then, it also removes deletes that hide nothing.
    /// LOCKS: index checkpoint, indexing, catalog; compactions
    pub(crate) fn compact_requested(
        &self,
        request: &ManualCompaction,
        all: &Plan,
        finished: &ToIndex,
    ) -> Result<(), Stopped> {
        let merged = if self.planner.seems_to_have_space_for(all) {
            match self.compact(all, OutputSpace::Free, finished) {
                Err(Stopped::NoSpace(full)) => Err(full),
                ended => Ok(ended?),
            }
        } else {
            Err(Error::Full { path: self.store.context.directory.clone(), what: "merge all files of the range".into() })
        };
        if let Err(full) = &merged {
            // Too little space to merge all at once.
            self.take_garbage_out_of(&all.inputs, full, finished)?;
        }
        if self.is_short_of_space()? && self.checkpointer.note_needless_deletes(true).map_err(Stopped::Failed)? {
            self.with_rest(request, all, |rest| {
                let full = Error::Full { path: self.store.context.directory.clone(), what: "remove deletes".into() };
                self.take_garbage_out_of(&rest.inputs, &full, finished)
            })?;
        }
        let Err(full) = merged else { return Ok(()) };
        self.with_rest(request, all, |rest| {
            let has_space = self.planner.seems_to_have_space_for(rest);
            let merged = if has_space {
                self.compact(rest, OutputSpace::Free, finished).map(drop)
            } else {
                self.merge_in_pool(&rest.inputs, finished)
            };
            match merged {
                // What was moved before there was no more space is garbage where it was.
                Err(Stopped::NoSpace(_)) => self.take_garbage_out_of(&rest.inputs, &full, finished),
                merged => merged,
            }
        })
    }

    /// Does something with the files of a range that are there now, after a requested compaction has merged `all`. They
    /// are busy meanwhile. Nothing is done if there is nothing to gain, or if others compact some of them.
    /// LOCKS: catalog, compactions
    fn with_rest(
        &self,
        request: &ManualCompaction,
        all: &Plan,
        work: impl FnOnce(&Plan) -> Result<(), Stopped>,
    ) -> Result<(), Stopped> {
        let rest = {
            let catalog = self.store.catalog.lock();
            let mut inner = self.state.compactions.inner.lock();
            let rest = self.plan_of_range(request, catalog.state());
            let is_ours = |number: &u32| all.inputs.contains(number) || !inner.busy.contains(number);
            if rest.inputs.is_empty() || !rest.inputs.iter().all(is_ours) {
                return Ok(());
            }
            inner.busy.extend(&rest.inputs);
            rest
        };
        let done = work(&rest);
        self.state.compactions.inner.lock().busy.retain(|number| !rest.inputs.contains(number));
        done
    }

    /// Whether the disk or the pool has less than should be kept back, or so little that deletes take more than is free.
    /// LOCKS: indexed keys, memtables; catalog
    fn is_short_of_space(&self) -> Result<bool, Stopped> {
        match self.store.space.reserve_again() {
            Err(Error::Full { .. }) => return Ok(true),
            reserved => reserved?,
        }
        let free_bytes = self.store.context.env.available_bytes(&self.store.context.directory).unwrap_or(u64::MAX);
        let bytes_of_deletes = |file: &FileRecord| file.length_bytes / file.entries.max(1) * file.deletes;
        let deletes_bytes: u64 = self.store.catalog.lock().state().files.values().map(bytes_of_deletes).sum();
        Ok(self.store.catalog.disk_is_full() || deletes_bytes > free_bytes)
    }

    /// Removes the garbage of these files, one output at a time. `full`: what is said if there is no space for some.
    fn take_garbage_out_of(&self, files: &[u32], full: &Error, finished: &ToIndex) -> Result<(), Stopped> {
        loop {
            let droppable_through = self.state.checkpoints.deletes_droppable_through();
            self.take_garbage_out(files, finished)?;
            if self.with_garbage(files).is_empty() {
                return Ok(());
            }
            // Another thread may have found meanwhile that deletes in them are garbage, too.
            if self.state.checkpoints.deletes_droppable_through() == droppable_through {
                return Err(Stopped::NoSpace(full.clone()));
            }
        }
    }

    /// Removes the garbage of these files, one output at a time, as far as there is space. They are this thread's own,
    /// so they may be tried although they are busy.
    fn take_garbage_out(&self, files: &[u32], finished: &ToIndex) -> Result<(), Stopped> {
        let (mut tried, mut one_by_one, mut has_gained) = (BTreeSet::new(), false, false);
        loop {
            let is_free = |number| files.contains(&number) && !tried.contains(&number);
            let Some(plan) = self.planner.plan_of_garbage(is_free, one_by_one) else {
                if tried.is_empty() || !has_gained {
                    break;
                }
                // What did not fit before may fit now.
                (tried, one_by_one, has_gained) = (BTreeSet::new(), false, false);
                continue;
            };
            match self.compact(&plan, OutputSpace::Reserve, finished) {
                Ok(_) => has_gained = true,
                Err(Stopped::NoSpace(_)) if plan.inputs.len() > 1 && !one_by_one => one_by_one = true,
                Err(Stopped::NoSpace(_)) => tried.extend(plan.inputs),
                Err(stopped) => return Err(stopped),
            }
        }
        // A file with more than the reserve takes (a large batch) may fit the space that has been freed.
        for number in self.with_garbage(files) {
            let plan = Plan { inputs: vec![number], reason: CompactionReason::CompactRange };
            if self.planner.seems_to_have_space_for(&plan) {
                match self.compact(&plan, OutputSpace::Free, finished) {
                    Ok(_) | Err(Stopped::NoSpace(_)) => {}
                    Err(stopped) => return Err(stopped),
                }
            }
        }
        Ok(())
    }

    /// Merges those of these files, one output at a time, that together take less of the pool.
    fn merge_in_pool(&self, files: &[u32], finished: &ToIndex) -> Result<(), Stopped> {
        while let Some(plan) = self.planner.plan_in_pool(|number| files.contains(&number)) {
            self.compact(&plan, OutputSpace::Reserve, finished)?;
        }
        Ok(())
    }

    /// The files among these that have garbage.
    /// LOCKS: catalog
    fn with_garbage(&self, numbers: &[u32]) -> Vec<u32> {
        let droppable_through = self.state.checkpoints.deletes_droppable_through();
        let catalog = self.store.catalog.lock();
        let files = numbers.iter().filter_map(|number| Some((*number, catalog.state().files.get(number)?)));
        files.filter(|(_, file)| garbage(file, droppable_through) > 0).map(|(number, _)| number).collect()
    }

    /// Whether files of a range are being compacted, or removed after that.
    pub(crate) fn is_compacting_in(&self, request: &ManualCompaction, inner: &QueueState, state: &StoreState) -> bool {
        let is_in_range = |number| state.files.get(number).is_none_or(|file| self.is_in_range(request, file));
        inner.busy.iter().any(is_in_range)
    }

    fn is_in_range(&self, request: &ManualCompaction, file: &FileRecord) -> bool {
        let order = &self.store.context.options.comparator;
        order.is_up_to(&file.smallest_key, request.to.as_ref())
            && order.is_from(&file.largest_key, request.from.as_ref())
    }

    /// The files with keys in a range. None if there is nothing to gain: no garbage, and no two of them overlap.
    pub(crate) fn plan_of_range(&self, request: &ManualCompaction, state: &StoreState) -> Plan {
        let order = &self.store.context.options.comparator;
        let in_range = state.files.iter().filter(|(_, file)| self.is_in_range(request, file));
        let files: Vec<(&u32, &FileRecord)> = in_range.collect();
        let in_order = positions_in_order(files.iter().map(|(_, file)| &file.smallest_key[..]), order);
        let files: Vec<(&u32, &FileRecord)> = in_order.into_iter().map(|position| files[position]).collect();
        let droppable_through = self.state.checkpoints.deletes_droppable_through();
        let has_garbage = files.iter().any(|(_, file)| garbage(file, droppable_through) > 0);
        let overlaps = files.windows(2).any(|two| order.compare(&two[0].1.largest_key, &two[1].1.smallest_key).is_ge());
        let inputs =
            if has_garbage || overlaps { files.iter().map(|(number, _)| **number).collect() } else { Vec::new() };
        Plan { inputs, reason: CompactionReason::CompactRange }
    }
}
