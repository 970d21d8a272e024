//! [`SlmState`]: what SLM-DB keeps of an open store.

use std::sync::Arc;

use slmdb_engine::files::obsolete_files::PinnedFiles;
use slmdb_engine::read::snapshots::Moments;
use slmdb_engine::store::tier_state::TierState;
use slmdb_engine::{CompactionPolicy, Memory, Options};
use slmdb_env::Result;
use slmdb_manifest::{Edit, StoreState};
use slmdb_pmem::{AnyMedium, Pool};

use crate::compaction::queue::CompactionQueue;
use crate::index::Index;
use crate::manifest_section::Section;
use crate::paper::PaperPolicy;
use crate::recovery::checkpoint_schedule::Checkpoints;
use crate::selection::file_notes::FileNotes;
use crate::space::pool_reserve::PoolReserve;

/// What SLM-DB keeps of an open store: the index, and what compactions know.
pub(crate) struct SlmState {
    pub(crate) index: Index,
    /// What is kept free in the pool.
    pub(crate) pool_reserve: PoolReserve,
    /// What is known of files beside the MANIFEST.
    pub(crate) notes: FileNotes,
    /// The paper's policy, if it is chosen.
    pub(crate) paper: Option<PaperPolicy>,
    /// When index checkpoints are due, and what they cover.
    pub(crate) checkpoints: Checkpoints,
    /// Which compactions run, and what is wanted of them.
    pub(crate) compactions: Arc<CompactionQueue>,
    /// Nothing is compacted but what is asked for.
    pub(crate) is_manual: bool,
}

impl SlmState {
    /// The state of a store whose MANIFEST says `state`.
    pub(crate) fn new(
        options: &Options,
        state: &StoreState,
        index: Index,
        pool_reserve: PoolReserve,
    ) -> Result<SlmState> {
        let section = Section::of(state)?;
        let compactions = Arc::default();
        Ok(SlmState {
            index,
            pool_reserve,
            notes: FileNotes::default(),
            paper: PaperPolicy::chosen(options, &section.candidates, &compactions),
            checkpoints: Checkpoints::new(state, &section.checkpoints, options.checkpoint_entries),
            compactions,
            is_manual: options.compaction.policy == CompactionPolicy::Manual,
        })
    }
}

impl PinnedFiles for SlmState {
    fn pins(&self, number: u32) -> bool {
        self.index.snapshots.pins(number)
    }
}

impl TierState for SlmState {
    fn pool(&self) -> &Arc<Pool<AnyMedium>> {
        &self.index.pool
    }

    fn moments(&self) -> &dyn Moments {
        &self.index.snapshots
    }

    fn count_memory(&self, memory: &mut Memory) {
        memory.index_bytes += self.index.keys.memory_bytes();
        memory.catalog_bytes += self.notes.seeks.memory_bytes();
    }

    /// LOCKS: indexed keys
    fn longest_key_bytes(&self) -> u32 {
        self.pool_reserve.indexed_keys.lock().longest_bytes
    }

    fn before_commit(&self, state: &StoreState, edit: &mut Edit) {
        if let Some(paper) = &self.paper {
            paper.candidates.before_commit(state, edit, self.checkpoints.deletes_droppable_through());
        }
    }

    fn after_commit(&self, edit: &Edit, is_committed: bool) {
        if let Some(paper) = &self.paper {
            paper.candidates.after_commit(edit, is_committed);
        }
    }

    fn wake_compactions(&self) {
        self.compactions.wake();
    }

    fn stop_compactions(&self) {
        self.compactions.stop();
    }
}
