//! [`SpacePlanner`]: which files a compaction for space takes ([`super::reclaim`]), and whether a compaction has space.

use std::collections::BTreeMap;
use std::sync::Arc;

use slmdb_engine::files::obsolete_files::PinnedFiles;
use slmdb_engine::space::controller::Resource;
use slmdb_engine::store::parts::Parts;
use slmdb_manifest::StoreState;
use slmdb_pmem::UNIT_BYTES;
use slmdb_structures::fast_fair::SegmentSize;

use crate::compaction::plan::{CompactionReason, Plan};
use crate::compaction::queue::QueueState;
use crate::selection::live_key_ratio::garbage;
use crate::selection::low_space_policy::{self, Candidate, Limits};
use crate::state::SlmState;
use slmdb_engine::background::compaction_queue::SpaceWanted;

/// A file is compacted for a put only below this needed part. Above it, ever more would be rewritten for ever less.
/// Deletes are the way out of a full disk, and have no such limit.
const NEEDED_PART_MAX: f64 = 15.0 / 16.0;

/// Plans compactions by the space that there is.
pub(crate) struct SpacePlanner {
    pub(crate) store: Arc<Parts>,
    pub(crate) state: Arc<SlmState>,
}

impl SpacePlanner {
    /// The next compaction for space. `wanted` is `None` if no thread waits for it.
    /// LOCKS: catalog (held), compactions (held), snapshots; reserve
    pub(crate) fn plan_for_space(
        &self,
        inner: &QueueState,
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
            None => self.store.context.options.compaction.live_key_threshold,
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

    /// The next compaction for space among these files, for any garbage, however little. `one_by_one`: of single files,
    /// because several don't fit.
    /// LOCKS: catalog, snapshots; reserve
    pub(crate) fn plan_of_garbage(&self, is_free: impl Fn(u32) -> bool, one_by_one: bool) -> Option<Plan> {
        let candidates = self.candidates_for_space(self.store.catalog.lock().state(), is_free);
        let inputs = low_space_policy::on_disk(&candidates, f64::INFINITY, &self.limits_for_space(one_by_one))?;
        Some(Plan { inputs, reason: CompactionReason::CompactRange })
    }

    /// The next of these files that together take less of the pool.
    /// LOCKS: catalog, snapshots; reserve
    pub(crate) fn plan_in_pool(&self, is_free: impl Fn(u32) -> bool) -> Option<Plan> {
        let candidates = self.candidates_for_space(self.store.catalog.lock().state(), is_free);
        let inputs = low_space_policy::in_pool(&candidates, &self.limits_for_space(false))?;
        Some(Plan { inputs, reason: CompactionReason::CompactRange })
    }

    fn limits_for_space(&self, one_by_one: bool) -> Limits {
        Limits {
            file_bytes: self.store.catalog.reserve.room_bytes(),
            segment_bytes: self.state.pool_reserve.segment_bytes(),
            files: if one_by_one { 1 } else { self.store.context.options.compaction.files_merged_max },
        }
    }

    /// Files that give back space at once: no snapshot sees an old version in them.
    fn candidates_for_space(&self, state: &StoreState, is_free: impl Fn(u32) -> bool) -> Vec<Candidate> {
        let numbers = state.files.keys().copied();
        let sizes = self.state.index.keys.sizes_of_files();
        self.candidates_among(
            state,
            &sizes,
            numbers.filter(|&number| is_free(number) && !self.state.index.snapshots.pins(number)),
        )
    }

    fn candidates_among(
        &self,
        state: &StoreState,
        sizes: &BTreeMap<u32, SegmentSize>,
        numbers: impl Iterator<Item = u32>,
    ) -> Vec<Candidate> {
        let droppable_through = self.state.checkpoints.deletes_droppable_through();
        let files = numbers.filter_map(|number| state.files.get(&number).map(|file| (number, file)));
        let candidates = files.map(|(number, file)| {
            let size = sizes.get(&number).copied().unwrap_or_default();
            Candidate {
                number,
                entries: file.entries,
                garbage: garbage(file, droppable_through),
                length_bytes: file.length_bytes,
                segment_bytes: size.extent_bytes,
                segment_filled_bytes: size.filled_bytes,
            }
        });
        candidates.collect()
    }

    /// Whether disk and pool seem to have space for what a compaction writes. One that is given up half done has
    /// written for nothing, and leaves its deletes in two files. Unknown counts as yes.
    /// LOCKS: catalog
    pub(crate) fn seems_to_have_space_for(&self, plan: &Plan) -> bool {
        let available_bytes = self.store.context.env.available_bytes(&self.store.context.directory).unwrap_or(u64::MAX);
        let sizes = self.state.index.keys.sizes_of_files();
        // The lock last, and briefly: readers that name candidates skip rather than wait for it.
        let inputs = self.candidates_among(self.store.catalog.lock().state(), &sizes, plan.inputs.iter().copied());
        let needed_bytes: u64 = inputs.iter().map(Candidate::needed_bytes).sum();
        let needed_segment_bytes: u64 = inputs.iter().map(Candidate::needed_segment_bytes).sum();
        let outputs = needed_bytes.div_ceil(self.store.context.options.compaction.table_file_bytes);
        let in_pool = self.state.index.pool.free_bytes().saturating_sub(self.state.index.pool.reserve_bytes());
        let in_pool =
            in_pool + self.state.index.pool.maximum_bytes().saturating_sub(self.state.index.pool.length_bytes());
        // What a compaction for space has must be there again after it.
        let may_take = self.store.catalog.reserve.check_not_taken(needed_bytes).is_ok();
        may_take && needed_bytes <= available_bytes && needed_segment_bytes + outputs * UNIT_BYTES <= in_pool
    }
}
