//! [`LabState`]: what LAB-DB keeps of an open store.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use slmdb_engine::background::compaction_queue::{CompactionQueue, SpaceWanted};
use slmdb_engine::files::obsolete_files::PinnedFiles;
use slmdb_engine::read::snapshots::Moments;
use slmdb_engine::space::allowance::Grant;
use slmdb_engine::space::controller::{Resource, TakenFrom, TierSpace};
use slmdb_engine::space::reserve::Reserve;
use slmdb_engine::store::tier_state::TierState;
use slmdb_engine::{Memory, Options};
use slmdb_env::Result;
use slmdb_levels::jobs::level_jobs::LevelsState;
use slmdb_levels::jobs::outputs::{OUTPUTS_FOR_SPACE, outputs};
use slmdb_levels::{LevelFiles, Levels, Plan, TableOutput, TableRun};
use slmdb_manifest::StoreState;
use slmdb_pmem::{AnyMedium, Pool};
use slmdb_sync::epoch;
use slmdb_sync::scheduled::atomic::AtomicU64;

use crate::level_zero::{LevelZero, deletes_below};
use crate::options::LabOptions;
use crate::space::reserve;

/// Level 1 has so many runs at least, when it is full,
const RUNS_OF_LEVEL_ONE: u64 = 32;
/// if they are so long.
const RUN_BYTES_LEAST: u64 = 1 << 20;

/// What LAB-DB keeps of an open store: level 0, and the levels below.
pub(crate) struct LabState {
    pub(crate) options: LabOptions,
    pub(crate) level_zero: LevelZero,
    pub(crate) levels: Levels<TableRun>,
    /// How long outputs of compactions should be, in bytes.
    pub(crate) output_bytes: AtomicU64,
    /// Which compactions run, and what is wanted of them.
    pub(crate) compactions: CompactionQueue,
}

impl PinnedFiles for LabState {
    /// Old versions of level 0, and runs of old versions of the levels.
    fn pins(&self, number: u32) -> bool {
        self.level_zero.snapshots.pins(number) || self.levels.pins(number)
    }
}

impl TierSpace for LabState {
    fn pool_path(&self) -> &Path {
        self.level_zero.pool.path()
    }

    fn reserve(&self, grant: &Grant, _: TakenFrom) -> Result<()> {
        reserve(&self.level_zero.pool, grant, self.level_zero.mutable().size().leaves)
    }

    fn count_files(&self, options: &Options, state: &StoreState, reserve: &Reserve) {
        let (each_bytes, output_bytes) = outputs(options, state.files.values().map(|file| file.length_bytes));
        reserve.set_outputs(OUTPUTS_FOR_SPACE, each_bytes);
        self.output_bytes.store(output_bytes, Ordering::Relaxed);
    }

    fn returned_by_readers(&self) -> u64 {
        self.level_zero.slots.returned()
    }

    fn readers_hold(&self) -> bool {
        if self.level_zero.slots.retiring() == 0 {
            return false;
        }
        // What nobody reads any more is given back by whoever asks next.
        epoch::pin().flush();
        self.level_zero.slots.retiring() > 0
    }

    /// LOCKS: compactions
    fn compact_for(&self, resource: Resource, at_any_cost: bool) -> bool {
        self.compactions.want_space(SpaceWanted { resource, at_any_cost })
    }
}

impl LevelsState for LabState {
    type Run = TableRun;
    type Output<'s> = TableOutput<'s>;

    fn output<'s>(&'s self, files: LevelFiles<'s>, _: &Plan<TableRun>) -> TableOutput<'s> {
        TableOutput::new(files)
    }

    fn give_up(&self, files: LevelFiles<'_>, run: &TableRun) {
        files.give_up(run);
    }

    fn levels(&self) -> &Levels<TableRun> {
        &self.levels
    }

    fn compactions(&self) -> &CompactionQueue {
        &self.compactions
    }

    fn moments(&self) -> Vec<u64> {
        self.level_zero.snapshots.moments()
    }

    fn deletes_below(&self, state: &StoreState) -> u64 {
        deletes_below(state)
    }

    /// Runs of level 1 are short, so that a chunk of level 0 meets few keys that it has not.
    fn output_bytes(&self, plan: &Plan<TableRun>) -> u64 {
        let output_bytes = self.output_bytes.load(Ordering::Relaxed);
        let short_bytes = (self.levels.target_bytes(1) / RUNS_OF_LEVEL_ONE).max(RUN_BYTES_LEAST);
        if plan.to() == 1 { output_bytes.min(short_bytes) } else { output_bytes }
    }

    /// A verification holds the lock, and sees a MANIFEST that does not change.
    /// LOCKS: indexing; those of `commit`
    fn in_agreement(&self, commit: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let _indexing = self.level_zero.indexing.lock();
        commit()
    }
}

impl TierState for LabState {
    fn pool(&self) -> &Arc<Pool<AnyMedium>> {
        &self.level_zero.pool
    }

    fn moments(&self) -> &dyn Moments {
        &self.level_zero.snapshots
    }

    fn count_memory(&self, memory: &mut Memory) {
        memory.index_bytes += self.level_zero.directory_bytes();
        memory.catalog_bytes += self.levels.memory_bytes() as u64;
    }

    fn wake_compactions(&self) {
        self.compactions.wake();
    }

    fn stop_compactions(&self) {
        self.compactions.stop();
    }
}
