//! [`TlsmTier`]: what TLSM does below the MemTables.
//!
//! Data goes one way: the MemTable, a run of level 0, level 1, and so on. Readers look in the same order, so they miss nothing: a
//! MemTable leaves the readers' list only after level 0 has its run, and the levels change as a whole.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use slmdb_engine::background::workers::{Task, task};
use slmdb_engine::files::file_records::table_file;
use slmdb_engine::store::parts::Parts;
use slmdb_engine::store::tier::{Held, Moment, Tier};
use slmdb_engine::{Approximate, Slice, Stats, TableFile, VerifyProgress, VerifyReport};
use slmdb_env::Result;
use slmdb_levels::Run;
use slmdb_manifest::FileRecord;
use slmdb_table::EntryKind;

use crate::compaction::compactor::Compactor;
use crate::compaction::pace::LevelsPace;
use crate::flush::Flush;
use crate::operations::range_query::TlsmCursor;
use crate::operations::verify::verify;
use crate::recovery::copy::HeldLists;
use crate::state::TlsmState;

/// The background threads beside those that every store has, in the order of [`TlsmTier::work`].
pub(crate) const THREADS: &[&str] = &["slmdb-flush"];

/// What TLSM does below the MemTables of a store.
pub(crate) struct TlsmTier {
    store: Arc<Parts>,
    state: Arc<TlsmState>,
    compactor: Arc<Compactor>,
    flush: Arc<Flush>,
}

impl TlsmTier {
    fn find(&self, key: &[u8], moment: Moment) -> Result<Option<Slice>> {
        let sequence_max = match moment {
            Moment::Now => u64::MAX,
            Moment::At(moment) => moment,
        };
        let found = self.state.levels.current().get(key, sequence_max)?;
        Ok(found.filter(|found| found.kind == EntryKind::Put).map(|found| found.value))
    }
}

impl Tier for TlsmTier {
    type State = TlsmState;
    type Cursor = TlsmCursor;

    fn new(store: &Arc<Parts>, state: &Arc<TlsmState>) -> TlsmTier {
        let pace = Arc::new(LevelsPace { store: store.clone(), state: state.clone() });
        TlsmTier {
            store: store.clone(),
            state: state.clone(),
            compactor: Arc::new(Compactor::new(store.clone(), state.clone(), pace.clone())),
            flush: Arc::new(Flush { store: store.clone(), state: state.clone(), pace }),
        }
    }

    fn work(&self) -> Vec<Task> {
        let (compactor, flush) = (self.compactor.clone(), self.flush.clone());
        let mut all = self.store.compaction_work(self.state.compactions.bell(), move |rounds| compactor.step(rounds));
        let (store, state) = (self.store.clone(), self.state.clone());
        let cursor = move |moment| TlsmCursor::new(store.clone(), state.clone(), moment);
        all.push(task(&self.store.context, &self.store.writes.bell, move || flush.step(&cursor)));
        all
    }

    fn get(&self, key: &[u8], moment: Moment) -> Result<Option<Slice>> {
        self.find(key, moment)
    }

    fn contains_key(&self, key: &[u8], moment: Moment) -> Result<bool> {
        Ok(self.find(key, moment)?.is_some())
    }

    fn cursor(&self, moment: u64) -> TlsmCursor {
        TlsmCursor::new(self.store.clone(), self.state.clone(), moment)
    }

    fn approximate(&self, range: (Bound<&[u8]>, Bound<&[u8]>)) -> Result<Approximate> {
        let of_levels = self.state.levels.current().approximate(range)?;
        Ok(Approximate { keys: of_levels.entries, table_bytes: of_levels.bytes, memtable_bytes: 0 })
    }

    fn compact_range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<()> {
        self.compactor.compact_range((from, to))
    }

    fn verify(&self, progress: &mut dyn FnMut(VerifyProgress)) -> Result<VerifyReport> {
        verify(&self.store, &self.state, progress)
    }

    fn hold_files(&self) -> Box<dyn Held + '_> {
        Box::new(HeldLists::of(&self.store, &self.state))
    }

    /// All entries that are no deletes are taken to live.
    fn table_files(&self) -> Vec<TableFile> {
        let catalog = self.store.catalog.lock();
        let state = catalog.state();
        let of_run = |(number, run): (u32, &FileRecord)| TableFile {
            is_in_pool: state.lists.contains_key(&number),
            ..table_file(number, run, run.entries - run.deletes)
        };
        state.runs().map(of_run).collect()
    }

    fn count_stats(&self, stats: &mut Stats) {
        let version = self.state.levels.current();
        stats.live_bytes = slmdb_levels::live_bytes(&version);
        let in_pool = self.state.segments.bytes();
        let keys = version.runs().map(|(_, run)| run.record().entries - run.record().deletes).sum();
        stats.count_index(keys, in_pool.lists_bytes, in_pool.segments_bytes);
        stats.levels = slmdb_levels::level_stats(&version);
        stats.demotions = self.state.demotions.load(Ordering::Relaxed);
    }
}
