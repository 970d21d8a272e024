//! [`TlsmState`]: what TLSM keeps of an open store.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use slmdb_engine::background::compaction_queue::{CompactionQueue, SpaceWanted};
use slmdb_engine::batch::Totals;
use slmdb_engine::files::location::Location;
use slmdb_engine::files::obsolete_files::PinnedFiles;
use slmdb_engine::read::snapshots::{Moments, Snapshots};
use slmdb_engine::space::allowance::{Grant, table_bytes};
use slmdb_engine::space::controller::{Resource, TakenFrom, TierSpace};
use slmdb_engine::space::reserve::Reserve;
use slmdb_engine::store::tier_state::TierState;
use slmdb_engine::{Memory, Options, lock_order};
use slmdb_env::{Error, Result};
use slmdb_levels::jobs::level_jobs::LevelsState;
use slmdb_levels::jobs::outputs::{OUTPUTS_FOR_SPACE, outputs};
use slmdb_levels::{LevelFiles, Levels, Plan, PlanReason, Run};
use slmdb_manifest::StoreState;
use slmdb_pmem::{AnyMedium, Claim, Medium, Pool, UNIT_BYTES};
use slmdb_sync::scheduled::Mutex;
use slmdb_sync::scheduled::atomic::{AtomicBool, AtomicU64};

use crate::compaction::pool_output::{Copied, Copying, PoolOutput, TlsmOutput};
use crate::options::{LIST_RUN_BYTES_LEAST, TlsmOptions, list_run_bytes};
use crate::persistent_skiplist::job_lists::{JobLists, PoolJob};
use crate::persistent_skiplist::pool_run::PoolRun;
use crate::persistent_skiplist::run::TlsmRun;
use crate::persistent_skiplist::segments::Segments;
use crate::space::{kept_for_a_job_bytes, reserve, with_lists_bytes};
use crate::tiering::policy::{Policy, RunKind};

/// What TLSM keeps of an open store: the levels, and what lies in the pool of them.
pub(crate) struct TlsmState {
    pub(crate) pool: Arc<Pool<AnyMedium>>,
    pub(crate) segments: Arc<Segments>,
    pub(crate) levels: Levels<TlsmRun>,
    pub(crate) policy: Policy,
    pub(crate) own: TlsmOptions,
    /// What a list and its entries should take, in bytes.
    list_run_bytes: u64,
    memtable_bytes: u64,
    /// The pool has not all that it should keep back.
    lacks_reserve: AtomicBool,
    /// No compaction that is due has space.
    pub(crate) finds_no_space: AtomicBool,
    /// The segment that is being emptied.
    pub(crate) emptied: AtomicU64,
    /// Lists that were written to files, since the store was opened.
    pub(crate) demotions: AtomicU64,
    /// The moments of snapshots and cursors. Runs keep what these see, so nothing is kept beside.
    pub(crate) snapshots: Snapshots<Location>,
    /// How long outputs of compactions should be, in bytes.
    output_bytes: AtomicU64,
    /// Which compactions run, and what is wanted of them.
    pub(crate) compactions: CompactionQueue,
    /// Held while a change of the levels is committed.
    pub(crate) commit: Mutex<()>,
}

impl TlsmState {
    /// With these levels.
    pub(crate) fn new(
        options: &Options,
        pool: Arc<Pool<AnyMedium>>,
        segments: Arc<Segments>,
        levels: Levels<TlsmRun>,
    ) -> TlsmState {
        let own: TlsmOptions = options.own();
        TlsmState {
            policy: Policy::new(&own, pool.medium().is_persistent()),
            own,
            list_run_bytes: list_run_bytes(options),
            memtable_bytes: options.memtable_bytes,
            lacks_reserve: AtomicBool::new(false),
            finds_no_space: AtomicBool::new(false),
            emptied: AtomicU64::new(0),
            demotions: AtomicU64::new(0),
            pool,
            segments,
            levels,
            snapshots: Snapshots::new(options.comparator.clone()),
            output_bytes: AtomicU64::new(options.compaction.table_file_bytes),
            compactions: CompactionQueue::default(),
            commit: Mutex::ranked(lock_order::INDEXING, ()),
        }
    }
}

impl PinnedFiles for TlsmState {
    fn pins(&self, number: u32) -> bool {
        self.levels.pins(number)
    }
}

/// A list and its entries may have this part of all that lie in the pool, or be as long as a MemTable's. As much is kept back for a
/// compaction: then lists of usual values can all be written anew.
const PART_OF_ALL: u64 = 32;

impl TlsmState {
    /// How long an output becomes that is a list, with its entries, in bytes. Where there is little, it is short, so that the pool keeps
    /// little back.
    fn list_output_bytes(&self) -> u64 {
        let part_bytes = self.segments.bytes().taken_bytes() / PART_OF_ALL;
        self.list_run_bytes.min(self.memtable_bytes.max(part_bytes).max(LIST_RUN_BYTES_LEAST))
    }

    /// What the pool keeps back for a compaction that gives space back, in bytes.
    fn kept_for_a_job_bytes(&self) -> u64 {
        let all_bytes = self.segments.bytes().taken_bytes();
        let part_bytes = (all_bytes / PART_OF_ALL).next_multiple_of(UNIT_BYTES);
        kept_for_a_job_bytes(&self.own, self.list_output_bytes().min(all_bytes)).max(part_bytes)
    }

    /// When outputs of a plan have taken so many bytes as lists, the next ones become files; `u64::MAX`: none does. It stays what it was
    /// at first.
    fn lists_bytes_max(&self, plan: &Plan<TlsmRun>) -> u64 {
        plan.decide_once(|| self.policy.lists_bytes_max(plan, || self.room_for(plan)))
    }

    /// How many bytes [`Tiering::Upper`](crate::Tiering::Upper) and the pool have for outputs of a plan. All that is to be had, if most
    /// of the inputs are lists: these are pointed at, and on a full disk there is no space for a file.
    fn room_for(&self, plan: &Plan<TlsmRun>) -> u64 {
        let bytes_of = |runs: &mut dyn Iterator<Item = &Arc<TlsmRun>>| -> u64 {
            runs.filter(|run| !run.is_file()).map(|run| run.record().bytes).sum()
        };
        let (input_bytes, given_back_bytes) = (plan.input_bytes(), bytes_of(&mut plan.inputs()));
        let grown_bytes = self.pool.maximum_bytes().saturating_sub(self.pool.length_bytes());
        let free_bytes = (grown_bytes + self.pool.free_bytes()).saturating_sub(self.pool.reserve_bytes());
        let copied_bytes = input_bytes - given_back_bytes;
        let has_room = copied_bytes == 0 || with_lists_bytes(&self.own, copied_bytes) <= free_bytes;
        if given_back_bytes >= copied_bytes && has_room {
            return u64::MAX;
        }
        if self.lacks_reserve() {
            return 0;
        }
        let version = self.levels.current();
        let deeper_bytes = bytes_of(&mut version.runs().filter(|(level, _)| *level > plan.to()).map(|(_, run)| run));
        // Lists that are deeper leave for them, and inputs go.
        let wanted_bytes = self.own.fast_tier_bytes.saturating_add(deeper_bytes + given_back_bytes);
        let room_bytes = wanted_bytes.saturating_sub(self.segments.bytes().taken_bytes()).min(free_bytes);
        room_bytes.saturating_sub(with_lists_bytes(&self.own, self.list_output_bytes()))
    }

    /// Whether the pool has not all that it should keep back.
    pub(crate) fn lacks_reserve(&self) -> bool {
        self.lacks_reserve.load(Ordering::Relaxed)
    }

    /// What a compaction may take of what the pool keeps back: all that is for one, if it gives more back than it takes.
    fn claim(&self, plan: &Plan<TlsmRun>) -> Claim {
        match plan.reason() {
            PlanReason::PoolSpace | PlanReason::Emptying => Claim::Part(self.kept_for_a_job_bytes()),
            _ => Claim::Ordinary,
        }
    }
}

impl TierSpace for TlsmState {
    fn pool_path(&self) -> &Path {
        self.pool.path()
    }

    /// Deletes leave a compaction its part, too: without it they would give nothing back. Puts leave as much for deletes: lists of
    /// few deletes take whole units, and it takes many deletes until a segment is worth cleaning.
    fn reserve(&self, grant: &Grant, from: TakenFrom) -> Result<()> {
        if self.policy.of_flush() == RunKind::Table {
            return Ok(());
        }
        let for_a_job_bytes = self.kept_for_a_job_bytes();
        if from == TakenFrom::Reserve {
            return reserve(&self.pool, &self.own, grant, for_a_job_bytes);
        }
        let reserved = reserve(&self.pool, &self.own, grant, 2 * for_a_job_bytes);
        self.lacks_reserve.store(reserved.is_err(), Ordering::Relaxed);
        reserved
    }

    /// A list needs no space on the disk.
    fn file_bytes(&self, options: &Options, allowance: &Totals) -> u64 {
        match self.policy.of_flush() {
            RunKind::Table => table_bytes(options, allowance),
            RunKind::List => 0,
        }
    }

    fn count_files(&self, options: &Options, state: &StoreState, reserve: &Reserve) {
        let lengths = state.files.values().map(|file| file.length_bytes);
        let (each_bytes, output_bytes) = outputs(options, lengths);
        reserve.set_outputs(OUTPUTS_FOR_SPACE, each_bytes);
        self.output_bytes.store(output_bytes, Ordering::Relaxed);
    }

    fn returned_by_readers(&self) -> u64 {
        self.segments.returned()
    }

    fn readers_hold(&self) -> bool {
        self.segments.readers_hold()
    }

    /// LOCKS: compactions
    fn compact_for(&self, resource: Resource, at_any_cost: bool) -> bool {
        let is_without_lists = self.policy.of_flush() == RunKind::Table;
        if resource == Resource::Pool && is_without_lists {
            return false;
        }
        self.compactions.want_space(SpaceWanted { resource, at_any_cost })
    }
}

impl LevelsState for TlsmState {
    type Run = TlsmRun;
    type Output<'s> = TlsmOutput<'s>;

    fn levels(&self) -> &Levels<TlsmRun> {
        &self.levels
    }

    fn output<'s>(&'s self, files: LevelFiles<'s>, plan: &Plan<TlsmRun>) -> TlsmOutput<'s> {
        let copied = match plan.reason() {
            PlanReason::Emptying => Copied::Of(self.emptied.load(Ordering::Relaxed)),
            _ if !self.own.points_at_entries => Copied::All,
            // Copies take space before anything comes back.
            PlanReason::PoolSpace => Copied::OfSparse(0.0),
            _ => Copied::OfSparse(self.own.segment_live_min),
        };
        let job =
            PoolJob { claim: self.claim(plan), given: None, fills_open_segment: plan.reason() == PlanReason::Emptying };
        let lists = JobLists::new(files.context, files.numbers, self, job);
        let lists = PoolOutput::new(lists, Copying::new(copied, &self.segments));
        TlsmOutput::new(files, lists, self.lists_bytes_max(plan), (self.list_output_bytes(), self.output_bytes(plan)))
    }

    fn give_up(&self, files: LevelFiles<'_>, run: &TlsmRun) {
        match run {
            TlsmRun::Table(table) => files.give_up(table),
            // The MANIFEST may have it after all: the next opening finds out.
            TlsmRun::List(_) if files.context.has_failed() => {}
            TlsmRun::List(list) => {
                list.leave();
                files.numbers.end(run.number());
            }
        }
    }

    fn left(&self, removed: &[Arc<TlsmRun>]) {
        removed.iter().filter_map(|run| run.list()).for_each(PoolRun::leave);
    }

    fn may_move(&self, plan: &Plan<TlsmRun>) -> bool {
        plan.upper().iter().all(|run| self.policy.may_move(run, plan.to()))
    }

    fn file_bytes(&self, plan: &Plan<TlsmRun>) -> u64 {
        if self.lists_bytes_max(plan) == u64::MAX { 0 } else { plan.input_bytes() }
    }

    /// What was kept back is whole before anything else takes of the pool.
    fn check_space(&self, plan: &Plan<TlsmRun>) -> Result<()> {
        if self.lists_bytes_max(plan) > 0 && self.lacks_reserve() {
            let what = "keep what deletes, and compactions that give space back, may take of the pool";
            return Err(Error::Full { path: self.pool.path().to_owned(), what: what.into() });
        }
        // Unless it finds out otherwise.
        self.finds_no_space.store(false, Ordering::Relaxed);
        Ok(())
    }

    fn compactions(&self) -> &CompactionQueue {
        &self.compactions
    }

    fn moments(&self) -> Vec<u64> {
        self.snapshots.moments()
    }

    /// There is nothing above the levels.
    fn deletes_below(&self, _: &StoreState) -> u64 {
        u64::MAX
    }

    fn output_bytes(&self, plan: &Plan<TlsmRun>) -> u64 {
        match self.lists_bytes_max(plan) {
            u64::MAX => self.list_output_bytes(),
            _ => self.output_bytes.load(Ordering::Relaxed),
        }
    }

    /// A verification holds the lock, and sees a MANIFEST that does not change.
    /// LOCKS: indexing; those of `commit`
    fn in_agreement(&self, commit: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let _agreement = self.commit.lock();
        commit()
    }
}

impl TierState for TlsmState {
    fn pool(&self) -> &Arc<Pool<AnyMedium>> {
        &self.pool
    }

    fn moments(&self) -> &dyn Moments {
        &self.snapshots
    }

    fn count_memory(&self, memory: &mut Memory) {
        memory.catalog_bytes += self.levels.memory_bytes() as u64 + self.segments.memory_bytes();
    }

    fn wake_compactions(&self) {
        self.compactions.wake();
    }

    fn stop_compactions(&self) {
        self.compactions.stop();
    }
}
