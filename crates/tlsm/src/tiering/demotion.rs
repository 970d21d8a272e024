//! Demotion: lists become table files of the same level when they take more of the pool than they may (paper, IV-D).
//!
//! A list gives back its own extent, and the segments that no other list names. Where lists share all segments that is little: then the
//! next one follows. Each demotion leaves one list less, so this ends.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use slmdb_env::Result;
use slmdb_levels::{Picked, PlanReason, Run};

use crate::compaction::compactor::Compactor;
use crate::persistent_skiplist::run::TlsmRun;

/// Lists are far above their bound if they take this part of it more.
const FAR_PART: u64 = 8;

impl Compactor {
    /// Writes a list to a file, if lists take more than they may. Returns whether it did.
    pub(crate) fn demote_if_due(&self) -> Result<bool> {
        if self.is_above_bound(self.state.own.fast_tier_bytes) { self.demote() } else { Ok(false) }
    }

    /// Whether lists take so much more than they may that levels have to wait.
    pub(crate) fn is_far_above_bound(&self) -> bool {
        let bound_bytes = self.state.own.fast_tier_bytes;
        self.is_above_bound(bound_bytes.saturating_add(bound_bytes / FAR_PART))
    }

    fn is_above_bound(&self, bound_bytes: u64) -> bool {
        self.state.policy.is_bounded() && self.state.segments.bytes().taken_bytes() > bound_bytes
    }

    /// Writes the first list that is free to a file. Returns whether it did. It takes nothing of what the disk keeps back: it would
    /// not come back, and no puts would be taken without it.
    pub(crate) fn demote(&self) -> Result<bool> {
        for (level, run) in self.lists_by_rank() {
            let picked = self.state.levels.plan_run_for(level, run.number(), PlanReason::Demotion);
            let Picked::Plan(plan) = picked else { continue };
            if !self.levels.unreadable.is_readable(&*run) {
                continue;
            }
            drop(run);
            self.levels.compact_in_free_space(plan)?;
            self.state.demotions.fetch_add(1, Ordering::Relaxed);
            return Ok(true);
        }
        Ok(false)
    }

    /// The lists of all levels, that first which leaves first.
    fn lists_by_rank(&self) -> Vec<(u8, Arc<TlsmRun>)> {
        let version = self.state.levels.current();
        let lists = version.runs().filter(|(_, run)| !run.is_file());
        let mut lists: Vec<_> = lists.map(|(level, run)| (level, run.clone())).collect();
        lists.sort_by_key(|(level, run)| Reverse(self.state.policy.rank(*level, run.record().created_unix_ns)));
        lists
    }
}
