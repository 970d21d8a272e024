//! [`Policy`]: which runs are lists, and which of them leaves the pool first.

use std::cmp::Reverse;

use slmdb_levels::{Plan, PlanReason, Run};

use crate::options::{Tiering, TlsmOptions};
use crate::persistent_skiplist::run::TlsmRun;

/// What a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunKind {
    /// A list in the pool.
    List,
    /// A table file.
    Table,
}

/// Decides what outputs become. It belongs to an opening, not to a store.
#[derive(Debug, Clone)]
pub(crate) struct Policy {
    tiering: Tiering,
    /// The store has a pool that keeps what is in it.
    has_pool: bool,
}

impl Policy {
    /// That of an opening. `has_pool`: whether there is a pool that keeps what is in it. On `Dram` all runs are table files.
    pub(crate) fn new(options: &TlsmOptions, has_pool: bool) -> Policy {
        Policy { tiering: options.tiering, has_pool }
    }

    /// What a flush makes.
    pub(crate) fn of_flush(&self) -> RunKind {
        if self.has_pool { RunKind::List } else { RunKind::Table }
    }

    /// Whether runs of this level may lie in the pool.
    pub(crate) fn may_be_list(&self, level: u8) -> bool {
        match self.tiering {
            _ if !self.has_pool => false,
            Tiering::None | Tiering::Upper | Tiering::Lru => true,
            Tiering::Leveled { last_in_pool } => level <= last_in_pool,
        }
    }

    /// Whether lists may leave the pool because others need its space.
    pub(crate) fn may_demote(&self) -> bool {
        self.has_pool && self.tiering != Tiering::None
    }

    /// Whether lists leave as soon as they take more than they may.
    pub(crate) fn is_bounded(&self) -> bool {
        self.has_pool && self.tiering.is_bounded()
    }

    /// How many bytes outputs of a plan may take as lists; the others become files. `unused_bytes`: how many [`Tiering::Upper`] has for
    /// them.
    pub(crate) fn lists_bytes_max(&self, plan: &Plan<TlsmRun>, unused_bytes: impl FnOnce() -> u64) -> u64 {
        match plan.reason() {
            // Of a run that stays where it lies nothing is needed elsewhere.
            PlanReason::Demotion | PlanReason::DiskSpace => 0,
            PlanReason::PoolSpace | PlanReason::Emptying => u64::MAX,
            _ if !self.may_be_list(plan.to()) => 0,
            PlanReason::Cleaning => u64::MAX,
            // A file that is written later, or never, is no worse than one that is written now.
            _ if self.tiering == Tiering::Upper => unused_bytes(),
            _ => u64::MAX,
        }
    }

    /// Which list leaves first, by its level and the time when it was made: the one with the largest rank. Those of deeper levels are
    /// needed for compactions least often.
    pub(crate) fn rank(&self, level: u8, created_unix_ns: u64) -> (u8, Reverse<u64>) {
        let depth = if self.tiering == Tiering::Lru { 0 } else { level };
        (depth, Reverse(created_unix_ns))
    }

    /// Whether a run may go to this level as it is.
    pub(crate) fn may_move(&self, run: &TlsmRun, to: u8) -> bool {
        run.is_file() || self.may_be_list(to)
    }
}
