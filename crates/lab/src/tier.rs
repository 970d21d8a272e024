//! [`LabTier`]: what LAB-DB does below the MemTables.
//!
//! Data goes one way:
//!
//! 1. A write fills a place in the active MemTable ([`slmdb_engine::write::write_path`]).
//! 2. A full MemTable becomes an Immutable MemTable and waits in the queue.
//! 3. The flush thread writes it to a run file, and lets the mutable tree's records lead there ([`crate::flush`]).
//! 4. The mutable tree becomes immutable, and goes to level 1 chunk by chunk ([`crate::compaction`]).
//! 5. What a level has too much of goes to the next ([`slmdb_levels`]).
//!
//! Readers ([`crate::operations`]) look in the same order.

use std::ops::Bound;
use std::sync::Arc;

use slmdb_engine::background::workers::{Task, task};
use slmdb_engine::files::file_records::table_file;
use slmdb_engine::store::parts::Parts;
#[cfg(test)]
use slmdb_engine::store::store::Store;
use slmdb_engine::store::tier::{Moment, Tier};
use slmdb_engine::{Approximate, LevelStats, Slice, Stats, TableFile, VerifyProgress, VerifyReport};
use slmdb_env::Result;
use slmdb_levels::{level_stats, live_bytes};
use slmdb_manifest::FileRecord;
use slmdb_pmem::ExtentKind;

use crate::compaction::compactor::Compactor;
use crate::compaction::pace::LevelZeroPace;
use crate::flush::Flush;
use crate::operations::get::Reader;
use crate::operations::range_query::LabCursor;
use crate::operations::verify::Verifier;
use crate::state::LabState;

/// An open LAB-DB store.
#[cfg(test)]
pub(crate) type Lab = Store<LabTier>;

/// The background threads beside those that every store has, in the order of [`LabTier::work`].
pub(crate) const THREADS: &[&str] = &["slmdb-flush"];

/// What LAB-DB does below the MemTables of a store.
pub(crate) struct LabTier {
    pub(crate) store: Arc<Parts>,
    pub(crate) state: Arc<LabState>,
    pub(crate) reader: Arc<Reader>,
    pub(crate) compactor: Arc<Compactor>,
    pub(crate) flush: Arc<Flush>,
}

impl Tier for LabTier {
    type State = LabState;
    type Cursor = LabCursor;

    fn new(store: &Arc<Parts>, state: &Arc<LabState>) -> LabTier {
        let pace = Arc::new(LevelZeroPace::new(store.clone(), state.clone()));
        LabTier {
            store: store.clone(),
            state: state.clone(),
            reader: Arc::new(Reader { store: store.clone(), state: state.clone() }),
            compactor: Arc::new(Compactor::new(store.clone(), state.clone(), pace.clone())),
            flush: Arc::new(Flush { store: store.clone(), state: state.clone(), pace }),
        }
    }

    fn work(&self) -> Vec<Task> {
        let (compactor, flush) = (self.compactor.clone(), self.flush.clone());
        let mut all = self.store.compaction_work(self.state.compactions.bell(), move |rounds| compactor.step(rounds));
        let reader = self.reader.clone();
        let cursor = move |moment| LabCursor::new(reader.clone(), moment);
        all.push(task(&self.store.context, &self.store.writes.bell, move || flush.step(&cursor)));
        all
    }

    #[inline]
    fn get(&self, key: &[u8], moment: Moment) -> Result<Option<Slice>> {
        self.reader.get(key, moment)
    }

    fn contains_key(&self, key: &[u8], moment: Moment) -> Result<bool> {
        self.reader.contains_key(key, moment)
    }

    fn cursor(&self, moment: u64) -> LabCursor {
        LabCursor::new(self.reader.clone(), moment)
    }

    fn approximate(&self, range: (Bound<&[u8]>, Bound<&[u8]>)) -> Result<Approximate> {
        self.reader.approximate(range)
    }

    fn compact_range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<()> {
        self.compactor.compact_range((from, to))
    }

    fn verify(&self, progress: &mut dyn FnMut(VerifyProgress)) -> Result<VerifyReport> {
        let (files, store, state) = (self.store.file_verifier(), self.store.clone(), self.state.clone());
        Verifier { files, store, state, compactor: &self.compactor }.verify(progress)
    }

    /// A key of a run file lives if a tree leads there. In a file of a level all that are no deletes are taken to live.
    fn table_files(&self) -> Vec<TableFile> {
        let live = self.state.level_zero.live();
        let live_keys = |number: u32, file: &FileRecord| match file.level {
            // (How many of the records are deletes is not counted.)
            0 => live.get(&number).copied().unwrap_or(0).saturating_sub(file.deletes),
            _ => file.entries - file.deletes,
        };
        let catalog = self.store.catalog.lock();
        let files = catalog.state().files.iter();
        files.map(|(&number, file)| table_file(number, file, live_keys(number, file))).collect()
    }

    /// The keys of the index are those of level 0.
    fn count_stats(&self, stats: &mut Stats) {
        stats.live_bytes = self.live_bytes();
        let extents = self.state.level_zero.pool.extents();
        let taken_by =
            |kind| extents.iter().filter(|extent| extent.kind == kind).map(|extent| extent.length_bytes).sum::<u64>();
        let keys = self.state.level_zero.keys();
        stats.count_index(keys, taken_by(ExtentKind::Leaves), taken_by(ExtentKind::Records));
        stats.index_height = 1;
        stats.levels = self.levels();
    }
}

impl LabTier {
    /// What each level has. The levels below know nothing of level 0's run files.
    /// LOCKS: catalog
    fn levels(&self) -> Vec<LevelStats> {
        let mut levels = level_stats(&self.state.levels.current());
        levels.resize(levels.len().max(1), LevelStats::default());
        let catalog = self.store.catalog.lock();
        for file in catalog.state().files.values().filter(|file| file.level == 0) {
            levels[0].runs += 1;
            levels[0].bytes += file.length_bytes;
        }
        levels
    }

    /// What is not garbage, about: the deepest level, and what lies above it and overlaps nothing below. While level 0 has
    /// more than that, what level 0 leads to.
    /// LOCKS: catalog
    fn live_bytes(&self) -> u64 {
        let (of_levels, means) = (live_bytes(&self.state.levels.current()), self.reader.mean_entry_bytes());
        let live = self.state.level_zero.live();
        let of_level_zero: f64 =
            live.iter().map(|(file, &records)| means.get(file).copied().unwrap_or(0.0) * records as f64).sum();
        of_levels.max(of_level_zero as u64)
    }
}
