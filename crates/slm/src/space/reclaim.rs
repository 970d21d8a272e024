//! How space is given back: compactions that are made for that alone.
//!
//! A compaction writes new files beside the old ones, which go at its end. On a disk, or in a pool, filled to the last
//! byte it could never begin, and the garbage would stay for ever. So before a put is admitted, space for *one output* is kept
//! back: on the disk in the [reserve](slmdb_engine::space::reserve), in the pool as much as the largest key segment takes. A
//! compaction *for space* writes one file, into that: of one file or of several that become one
//! ([`crate::selection::low_space_policy`]). What its inputs give back fills the reserve again, and the rest is for others.
//!
//! Whoever finds no space asks for such a compaction, waits for it, and tries again. Each leaves less garbage or fewer files, and one
//! that finds no space itself is not tried again before something has changed; so this ends.

use std::collections::BTreeMap;

use slmdb_engine::CompactionPolicy;
use slmdb_engine::space::controller::{READERS_PAUSE, Reclaim, Resource, SpaceController};
use slmdb_env::{Error, Result};
use slmdb_manifest::StoreState;
use slmdb_pmem::{Medium, UNIT_BYTES};
use slmdb_structures::fast_fair::SegmentSize;
use slmdb_sync::epoch;
use slmdb_sync::scheduled::thread;

use crate::compaction::plan::{CompactionReason, In, Plan};
use crate::compaction::queue::Inner;
use crate::selection as picker;
use crate::selection::low_space_policy::{self, Candidate, Limits};
use crate::store::Store;

/// A file is compacted for a put if less than this is needed of it. (With more, ever more would be rewritten for ever less. For
/// deletes, which are the way out, it is.)
const NEEDED_PART_MAX: f64 = 15.0 / 16.0;

/// What space is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SpaceWanted {
    pub(crate) resource: Resource,
    /// By something that must not be stuck: the least garbage is worth it.
    pub(crate) at_any_cost: bool,
}

impl<M: Medium + Clone> Reclaim for Store<M> {
    fn lacking(&self, full: &Error) -> Resource {
        match full {
            Error::Full { path, .. } if path == self.pool.path() => Resource::Pool,
            _ => Resource::Disk,
        }
    }

    fn returned_by_readers(&self) -> u64 {
        self.retired.returned()
    }

    fn readers_hold(&self, resource: Resource) -> bool {
        resource == Resource::Pool && self.retired.awaits_readers()
    }

    fn compact_for(&self, resource: Resource, at_any_cost: bool) -> bool {
        let is_manual = self.options.compaction.policy == CompactionPolicy::Manual;
        let mut inner = self.compactions.inner.lock();
        if self.compactions.is_stopping() {
            return false;
        }
        if !inner.busy.is_empty() {
            return true;
        }
        if is_manual || inner.nothing_to_gain[usize::from(at_any_cost)] {
            return false;
        }
        inner.space_wanted = Some(SpaceWanted { resource, at_any_cost });
        inner.changes += 1;
        self.compactions.changed.notify_all();
        true
    }
}

impl<M: Medium + Clone> Store<M> {
    /// What sets space aside for writes, and says what is done when there is none.
    pub(crate) fn space(&self) -> SpaceController<'_, M> {
        SpaceController {
            options: &self.options,
            writes: &self.writes,
            reserve: &self.reserve,
            cost: self,
            reclaim: self,
        }
    }

    /// The next compaction for space; `wanted` is `None` if nobody waits for it.
    pub(crate) fn plan_for_space(
        &self,
        inner: &Inner,
        state: &StoreState,
        wanted: Option<SpaceWanted>,
    ) -> Option<Plan> {
        let is_free = |number: u32| {
            let is_taken = inner.busy.contains(&number) || inner.unfit.contains(&number);
            !is_taken && !inner.no_space_for.contains(&number)
        };
        let candidates = self.candidates_for_space(state, is_free);
        let limits = self.limits_for_space(inner.one_by_one);
        let threshold = match wanted {
            None => self.options.compaction.live_key_threshold,
            Some(wanted) if wanted.at_any_cost => f64::INFINITY,
            Some(_) => NEEDED_PART_MAX,
        };
        let pooled = if wanted.is_some_and(|wanted| wanted.resource == Resource::Pool) {
            low_space_policy::in_pool(&candidates, &limits)
        } else {
            None
        };
        let inputs = pooled.or_else(|| low_space_policy::on_disk(&candidates, threshold, &limits))?;
        Some(Plan { inputs, reason: CompactionReason::Space })
    }

    /// The next of these files that a compaction for space takes garbage from, however little it is; `one_by_one` if several don't fit.
    pub(crate) fn plan_of_garbage(&self, is_free: impl Fn(u32) -> bool, one_by_one: bool) -> Option<Plan> {
        let candidates = self.candidates_for_space(self.catalog.lock().state(), is_free);
        let inputs = low_space_policy::on_disk(&candidates, f64::INFINITY, &self.limits_for_space(one_by_one))?;
        Some(Plan { inputs, reason: CompactionReason::CompactRange })
    }

    /// The next of these files that take less of the pool together.
    pub(crate) fn plan_in_pool(&self, is_free: impl Fn(u32) -> bool) -> Option<Plan> {
        let candidates = self.candidates_for_space(self.catalog.lock().state(), is_free);
        let inputs = low_space_policy::in_pool(&candidates, &self.limits_for_space(false))?;
        Some(Plan { inputs, reason: CompactionReason::CompactRange })
    }

    fn limits_for_space(&self, one_by_one: bool) -> Limits {
        Limits {
            file_bytes: self.reserve.output_bytes_max(),
            segment_bytes: self.pool_reserve.segment_bytes(),
            files: if one_by_one { 1 } else { self.options.compaction.files_merged_max },
        }
    }

    /// Files that would give back space at once: nobody sees an old version in them.
    fn candidates_for_space(&self, state: &StoreState, is_free: impl Fn(u32) -> bool) -> Vec<Candidate> {
        let numbers = state.files.keys().copied();
        let sizes = SegmentSize::of_files(&self.pool);
        self.candidates_among(state, &sizes, numbers.filter(|&number| is_free(number) && !self.snapshots.pins(number)))
    }

    fn candidates_among(
        &self,
        state: &StoreState,
        sizes: &BTreeMap<u32, SegmentSize>,
        numbers: impl Iterator<Item = u32>,
    ) -> Vec<Candidate> {
        let droppable_through = self.checkpoints.deletes_droppable_through();
        let files = numbers.filter_map(|number| state.files.get(&number).map(|file| (number, file)));
        let candidates = files.map(|(number, file)| {
            let size = sizes.get(&number).copied().unwrap_or_default();
            Candidate {
                number,
                entries: file.entries,
                garbage: picker::garbage(file, droppable_through),
                length_bytes: file.length_bytes,
                segment_bytes: size.extent_bytes,
                segment_filled_bytes: size.filled_bytes,
            }
        });
        candidates.collect()
    }

    /// Whether disk and pool seem to have space for what a compaction writes. What has to be given up half done has been written for
    /// nothing, and leaves its deletes in two files. (Who does not know says yes.)
    pub(crate) fn seems_to_have_space_for(&self, plan: &Plan) -> bool {
        let available_bytes = self.env.available_bytes(&self.directory).unwrap_or(u64::MAX);
        let sizes = SegmentSize::of_files(&self.pool);
        // Last, and not for long: readers that name candidates don't wait for it, but pass by.
        let inputs = self.candidates_among(self.catalog.lock().state(), &sizes, plan.inputs.iter().copied());
        let needed_bytes: u64 = inputs.iter().map(Candidate::needed_bytes).sum();
        let needed_segment_bytes: u64 = inputs.iter().map(Candidate::needed_segment_bytes).sum();
        let outputs = needed_bytes.div_ceil(self.options.compaction.table_file_bytes);
        let in_pool = self.pool.free_bytes().saturating_sub(self.pool.reserve_bytes());
        let in_pool = in_pool + self.pool.maximum_bytes().saturating_sub(self.pool.length_bytes());
        needed_bytes <= available_bytes && needed_segment_bytes + outputs * UNIT_BYTES <= in_pool
    }

    /// A compaction has ended, and its inputs have gone: what is to be kept back comes first, then those who wait.
    pub(crate) fn compaction_gave_space_back(&self, space: In) -> Result<()> {
        if space == In::Reserve {
            self.reserve.release();
            // Somebody waits for it.
            while self.retired.awaits_readers() && !self.compactions.is_stopping() {
                thread::sleep(READERS_PAUSE);
                epoch::pin().flush();
            }
        }
        let sizes = SegmentSize::of_files(&self.pool);
        self.pool_reserve.set_files(&sizes, self.catalog.lock().state(), &self.reserve);
        for filled in [self.fill_reserve(), self.reserve_again()] {
            match filled {
                Err(error) if !error.may_be_tried_again() => return Err(error),
                _ => {}
            }
        }
        self.space_came_back();
        Ok(())
    }

    /// A compaction has ended, or there will be none.
    pub(crate) fn tell_who_waits_for_space(&self) {
        let _traffic = self.writes.traffic.lock();
        self.writes.work.notify_all();
    }
}
