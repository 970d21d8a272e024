//! Cleaning: a list is written anew so that its entries leave segments of which little is needed. The paper has nothing like it: one
//! live entry keeps its whole persistent buffer.
//!
//! Compactions copy such entries as they come by them. Where they come by too seldom, and segments take much more than what lists
//! name, the list by which most comes back goes alone.

use std::sync::atomic::Ordering;

use slmdb_env::Result;
use slmdb_levels::{Picked, PlanReason, Run};

use super::compactor::Compactor;
use crate::persistent_skiplist::segments::CleaningGain;

/// Segments may take so many times what lists name of them,
const TAKEN_TIMES: f64 = 1.4;
/// and so many segments more.
const SEGMENTS_MORE: u64 = 8;

impl Compactor {
    /// Writes one list anew, if that is due and a list has entries in sparse segments. Returns whether it did.
    pub(crate) fn clean_if_due(&self) -> Result<bool> {
        let bytes = self.state.segments.bytes();
        let may_take_bytes = (bytes.live_bytes as f64 * TAKEN_TIMES) as u64;
        let more_bytes = SEGMENTS_MORE * self.state.own.segment_bytes;
        // Where it was in vain, it is so until lists change.
        let changes = self.state.segments.changes();
        let is_due = bytes.segments_bytes > may_take_bytes + more_bytes;
        if !is_due || self.cleaned_in_vain_at.load(Ordering::Relaxed) == changes {
            return Ok(false);
        }
        let cleaned = self.clean();
        if matches!(cleaned, Ok(false)) {
            self.cleaned_in_vain_at.store(changes, Ordering::Relaxed);
        }
        cleaned
    }

    /// Writes the list anew by which most comes back. Returns whether there is one.
    pub(crate) fn clean(&self) -> Result<bool> {
        let live_part = self.state.own.segment_live_min;
        let version = self.state.levels.current();
        let sparse = version.runs().filter_map(|(level, run)| {
            let gain = self.state.segments.gain_of_cleaning(run.list()?.list().record(), live_part);
            let is_worth_it = gain > CleaningGain::default() && self.levels.unreadable.is_readable(&**run);
            is_worth_it.then_some((gain, level, run.number()))
        });
        let mut sparse: Vec<_> = sparse.collect();
        drop(version);
        sparse.sort_unstable_by(|left, right| right.cmp(left));
        for (_, level, number) in sparse {
            if let Picked::Plan(plan) = self.state.levels.plan_run_for(level, number, PlanReason::Cleaning) {
                return self.levels.compact_in_free_space(plan).map(|()| true);
            }
        }
        Ok(false)
    }
}
