//! [`ChameleonState`]: what ChameleonDB keeps of an open store.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use slmdb_engine::background::compaction_queue::{CompactionQueue, SpaceWanted};
use slmdb_engine::context::StoreContext;
use slmdb_engine::files::location::Location;
use slmdb_engine::files::obsolete_files::PinnedFiles;
use slmdb_engine::read::snapshots::{Moments, Snapshots};
use slmdb_engine::space::allowance::Grant;
use slmdb_engine::space::controller::{Resource, TakenFrom, TierSpace};
use slmdb_engine::space::reserve::{Reserve, is_usual};
use slmdb_engine::store::tier_state::TierState;
use slmdb_engine::{Memory, Options};
use slmdb_env::Result;
use slmdb_manifest::StoreState;
use slmdb_pmem::{AnyMedium, Pool};
use slmdb_structures::hash::{FinishedTable, Identity, Slot, TableBuilder, TableOptions, table_bytes};

use crate::operations::file_keys::ChunkKeys;
use crate::shards::Index;
use crate::shards::section::Level;
use crate::shards::tables::HashTables;

/// How full tables are that are written once, in percent. (A bypass has a load factor of its shard's, section 2.5 of the paper: so
/// shards do not fill all at the same time. Tables need none.)
pub(crate) const TABLE_LOAD_PERCENT: u32 = 85;

/// What ChameleonDB keeps of an open store: the index.
pub(crate) struct ChameleonState {
    pub(crate) pool: Arc<Pool<AnyMedium>>,
    pub(crate) index: Index,
    /// Where the index's tables lie that are not in DRAM.
    pub(crate) hash_tables: HashTables,
    /// The moments of snapshots and cursors. Table files keep what these see, so nothing is kept beside.
    pub(crate) snapshots: Snapshots<Location>,
    /// Where chunks of key sections begin.
    pub(crate) chunk_keys: ChunkKeys,
    /// Which compactions run, and what is wanted of them.
    pub(crate) compactions: CompactionQueue,
}

impl ChameleonState {
    /// With this index.
    pub(crate) fn new(
        options: &Options,
        pool: Arc<Pool<AnyMedium>>,
        index: Index,
        hash_tables: HashTables,
    ) -> ChameleonState {
        let snapshots = Snapshots::new(options.comparator.clone());
        ChameleonState {
            pool,
            index,
            hash_tables,
            snapshots,
            chunk_keys: ChunkKeys::default(),
            compactions: CompactionQueue::default(),
        }
    }

    /// A hash table of the upper levels, with no part yet.
    pub(crate) fn new_upper(&self, number: u32) -> Result<TableBuilder> {
        let shards = self.index.hasher().shards();
        let uuid = self.hash_tables.uuid();
        // Its epoch is told when it is committed, and the MANIFEST has it.
        TableBuilder::new(TableOptions { number, uuid, level: Level::Upper as u8, epoch: 0, shards, range: 0..shards })
    }

    /// A hash table of the upper levels with these slots, in the order of their identities.
    pub(crate) fn upper_table(&self, number: u32, slots: &[(Identity, Slot)]) -> Result<FinishedTable> {
        let mut builder = self.new_upper(number)?;
        let mut slots = slots.iter().peekable();
        for shard in self.index.shards() {
            builder.begin_part(shard, TABLE_LOAD_PERCENT)?;
            while let Some((_, slot)) = slots.next_if(|(identity, _)| identity.shard() == shard) {
                builder.add(*slot)?;
            }
        }
        builder.finish()
    }

    /// Whether a hash table with so many slots is so much shorter than the table files that they lead to that an opening should have it.
    pub(crate) fn is_worth_writing(&self, slots: usize, file_bytes: u64) -> bool {
        self.table_bytes(slots as u64) <= file_bytes / 2
    }

    /// About how long a hash table of all shards with so many slots is, in bytes.
    fn table_bytes(&self, slots: u64) -> u64 {
        table_bytes(slots, u64::from(self.index.hasher().shards()), TABLE_LOAD_PERCENT)
    }

    /// Takes note that a hash table was written.
    pub(crate) fn count_written(&self, context: &StoreContext, bytes: u64) {
        if self.hash_tables.are_files() {
            context.counted.file_bytes_written.fetch_add(bytes, Ordering::Relaxed);
        }
    }
}

impl PinnedFiles for ChameleonState {
    /// Who reads a file that has gone looks again: its entries are in another one.
    fn pins(&self, _: u32) -> bool {
        false
    }
}

impl TierSpace for ChameleonState {
    fn pool_path(&self) -> &Path {
        self.pool.path()
    }

    /// A flush takes nothing of the pool.
    fn reserve(&self, _: &Grant, _: TakenFrom) -> Result<()> {
        Ok(())
    }

    /// A collection writes a hash table beside its output.
    fn count_files(&self, options: &Options, state: &StoreState, reserve: &Reserve) {
        let hash_table_bytes = |entries| if self.hash_tables.are_files() { self.table_bytes(entries) } else { 0 };
        let bytes = state.files.values().filter(|file| is_usual(options, file.length_bytes));
        let longest = bytes.map(|file| file.length_bytes + hash_table_bytes(file.entries)).max().unwrap_or(0);
        reserve.set_outputs(1, longest);
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

impl TierState for ChameleonState {
    fn pool(&self) -> &Arc<Pool<AnyMedium>> {
        &self.pool
    }

    fn moments(&self) -> &dyn Moments {
        &self.snapshots
    }

    fn count_memory(&self, memory: &mut Memory) {
        memory.index_bytes += self.index.memory_bytes();
    }

    fn wake_compactions(&self) {
        self.compactions.wake();
    }

    fn stop_compactions(&self) {
        self.compactions.stop();
    }
}
