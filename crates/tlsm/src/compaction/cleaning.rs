//! Cleaning: a list is written anew so that its entries leave segments of which little is needed. The paper has nothing like it: one
//! live entry keeps its whole persistent buffer.
//!
//! Compactions copy such entries as they come by them. Where they come by too seldom, and segments take much more than what lists
//! name, the list by which most comes back goes alone.

use std::sync::atomic::Ordering;

use slmdb_env::Result;
use slmdb_levels::{Picked, PlanReason, Run};

use super::compactor::{Compactor, nothing_if_full};
use crate::persistent_skiplist::run::TlsmRun;

/// Segments may take so many times what lists name of them,
const TAKEN_TIMES: f64 = 1.4;
/// and so many segments more.
const SEGMENTS_MORE: u64 = 8;
/// No segment is emptied of which more is needed. What they are emptied into is fuller when it is closed: none of their entries is
/// longer than half of it. So this ends.
const EMPTIED_PART_MAX: f64 = 0.5;

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
        if !matches!(cleaned, Ok(true)) {
            self.cleaned_in_vain_at.store(changes, Ordering::Relaxed);
        }
        cleaned
    }

    /// Writes the list anew by which most comes back. Returns whether there is one.
    fn clean(&self) -> Result<bool> {
        let live_part = self.state.own.segment_live_min;
        let version = self.state.levels.current();
        let sparse = version.runs().filter_map(|(level, run)| {
            let gain_bytes = self.state.segments.gain_of_cleaning(run.list()?.list().record(), live_part);
            (gain_bytes > 0 && self.levels.unreadable.is_readable(&**run)).then_some((gain_bytes, level, run.number()))
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

    /// Empties the segment by which most comes back: each list that names it is written anew, and what they have there goes to a segment
    /// that stays open for the next. So it takes no more than that and one list. Returns whether one is empty.
    pub(crate) fn empty_segment(&self) -> Result<bool> {
        // One thread at a time: there is one open segment.
        let Some(_emptying) = self.emptying.try_lock() else { return Ok(false) };
        let live_part = self.state.own.segment_live_min.min(EMPTIED_PART_MAX);
        for segment in self.state.segments.sparse(live_part) {
            if self.empty(segment).or_else(nothing_if_full)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether all lists that name a segment were written anew. One that is not in the levels yet, is busy, or can't be read keeps it.
    fn empty(&self, segment: u64) -> Result<bool> {
        let version = self.state.levels.current();
        let names_it = |run: &TlsmRun| {
            run.list().is_some_and(|list| list.list().record().segments.iter().any(|share| share.segment == segment))
        };
        let naming: Vec<_> = version.runs().filter(|(_, run)| names_it(run)).collect();
        if naming.is_empty() || !naming.iter().all(|(_, run)| self.levels.unreadable.is_readable(&***run)) {
            return Ok(false);
        }
        let naming: Vec<_> = naming.into_iter().map(|(level, run)| (level, run.number())).collect();
        drop(version);
        self.state.emptied.store(segment, Ordering::Relaxed);
        for (level, number) in naming {
            if !self.levels.rewrite(level, number, PlanReason::Emptying)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
