//! [`TlsmState`]: what TLSM keeps of an open store.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use slmdb_engine::background::compaction_queue::{CompactionQueue, SpaceWanted};
use slmdb_engine::files::location::Location;
use slmdb_engine::files::obsolete_files::PinnedFiles;
use slmdb_engine::read::snapshots::{Moments, Snapshots};
use slmdb_engine::space::allowance::Grant;
use slmdb_engine::space::controller::{Resource, TakenFrom, TierSpace};
use slmdb_engine::space::reserve::Reserve;
use slmdb_engine::store::tier_state::TierState;
use slmdb_engine::{Memory, Options, lock_order};
use slmdb_env::Result;
use slmdb_levels::jobs::level_jobs::LevelsState;
use slmdb_levels::jobs::outputs::{OUTPUTS_FOR_SPACE, outputs};
use slmdb_levels::{LevelFiles, Levels, Plan, TableOutput, TableRun};
use slmdb_manifest::StoreState;
use slmdb_pmem::{AnyMedium, Pool};
use slmdb_sync::scheduled::Mutex;
use slmdb_sync::scheduled::atomic::AtomicU64;

/// What TLSM keeps of an open store: the levels.
pub(crate) struct TlsmState {
    pub(crate) pool: Arc<Pool<AnyMedium>>,
    pub(crate) levels: Levels<TableRun>,
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
    pub(crate) fn new(options: &Options, pool: Arc<Pool<AnyMedium>>, levels: Levels<TableRun>) -> TlsmState {
        TlsmState {
            pool,
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

/// The pool has nothing but the MemTables' arenas.
impl TierSpace for TlsmState {
    fn pool_path(&self) -> &Path {
        self.pool.path()
    }

    fn reserve(&self, _: &Grant, _: TakenFrom) -> Result<()> {
        Ok(())
    }

    fn count_files(&self, options: &Options, state: &StoreState, reserve: &Reserve) {
        let (each_bytes, output_bytes) = outputs(options, state);
        reserve.set_outputs(OUTPUTS_FOR_SPACE, each_bytes);
        self.output_bytes.store(output_bytes, Ordering::Relaxed);
    }

    fn returned_by_readers(&self) -> u64 {
        0
    }

    fn readers_hold(&self) -> bool {
        false
    }

    /// LOCKS: compactions
    fn compact_for(&self, resource: Resource, at_any_cost: bool) -> bool {
        resource == Resource::Disk && self.compactions.want_space(SpaceWanted { resource, at_any_cost })
    }
}

impl LevelsState for TlsmState {
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
        self.snapshots.moments()
    }

    /// There is nothing above the levels.
    fn deletes_below(&self, _: &StoreState) -> u64 {
        u64::MAX
    }

    fn output_bytes(&self, _: u8) -> u64 {
        self.output_bytes.load(Ordering::Relaxed)
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
        memory.catalog_bytes += self.levels.memory_bytes() as u64;
    }

    fn wake_compactions(&self) {
        self.compactions.wake();
    }

    fn stop_compactions(&self) {
        self.compactions.stop();
    }
}
