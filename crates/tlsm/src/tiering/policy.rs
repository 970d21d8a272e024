//! [`Policy`]: whether an output becomes a list or a table file.

use slmdb_levels::{Plan, PlanReason, Run};

use crate::options::{Promote, Tiering, TlsmOptions};
use crate::persistent_skiplist::run::TlsmRun;

/// What a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunKind {
    /// A list in the pool.
    List,
    /// A table file.
    Table,
}

impl RunKind {
    /// What this run is.
    pub(crate) fn of(run: &TlsmRun) -> RunKind {
        if run.is_file() { RunKind::Table } else { RunKind::List }
    }
}

/// How much of the inputs is in the pool, or in files, in bytes.
fn bytes_of(plan: &Plan<TlsmRun>, kind: RunKind) -> u64 {
    plan.inputs().filter(|run| RunKind::of(run) == kind).map(|run| run.record().bytes).sum()
}

/// Decides what outputs become. It belongs to an opening, not to a store.
#[derive(Debug, Clone)]
pub(crate) struct Policy {
    tiering: Tiering,
    promote: Promote,
    /// The store has a pool that keeps what is in it.
    has_pool: bool,
}

impl Policy {
    /// That of an opening. `has_pool`: whether there is a pool that keeps what is in it. On `Dram` all runs are table files.
    pub(crate) fn new(options: &TlsmOptions, has_pool: bool) -> Policy {
        Policy { tiering: options.tiering, promote: options.promote, has_pool }
    }

    /// What a flush makes.
    pub(crate) fn of_flush(&self) -> RunKind {
        if self.has_pool { RunKind::List } else { RunKind::Table }
    }

    /// Whether runs of this level may lie in the pool.
    pub(crate) fn may_be_list(&self, level: u8) -> bool {
        match self.tiering {
            _ if !self.has_pool => false,
            Tiering::None | Tiering::Lru => true,
            Tiering::Leveled { last_in_pool } => level <= last_in_pool,
        }
    }

    /// Whether lists may leave the pool because others need its space.
    pub(crate) fn may_demote(&self) -> bool {
        self.has_pool && self.tiering != Tiering::None
    }

    /// Whether lists leave as soon as they take more than they may.
    pub(crate) fn is_bounded(&self) -> bool {
        self.has_pool && self.tiering == Tiering::Lru
    }

    /// What the outputs of a plan become.
    pub(crate) fn of_plan(&self, plan: &Plan<TlsmRun>) -> RunKind {
        let is_list = match plan.reason() {
            PlanReason::Demotion => false,
            // It gives back where the run lies, and needs nothing elsewhere.
            PlanReason::DiskSpace => false,
            PlanReason::PoolSpace | PlanReason::Emptying => true,
            _ => self.may_be_list(plan.to()) && (self.tiering != Tiering::Lru || self.promotes(plan)),
        };
        if is_list { RunKind::List } else { RunKind::Table }
    }

    /// Whether so much of the inputs is in the pool that the outputs should be. The paper makes lists of all outputs, and so pulls
    /// up what has just left.
    fn promotes(&self, plan: &Plan<TlsmRun>) -> bool {
        self.promote == Promote::Always || bytes_of(plan, RunKind::List) >= bytes_of(plan, RunKind::Table)
    }

    /// Whether a run may go to this level as it is.
    pub(crate) fn may_move(&self, run: &TlsmRun, to: u8) -> bool {
        run.is_file() || self.may_be_list(to)
    }
}
