//! [`ChameleonTier`]: what ChameleonDB does below the MemTables.
//!
//! Data goes one way: the MemTable, a table file, the file of a collection of garbage. The index has each key's newest entry.
//! Readers look into MemTables first, so they miss nothing: a MemTable leaves the readers' list after its slots are there.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use slmdb_engine::background::workers::{Task, task};
use slmdb_engine::files::file_records::table_file;
use slmdb_engine::store::parts::Parts;
use slmdb_engine::store::tier::{Held, Moment, Tier};
use slmdb_engine::{Approximate, Slice, Stats, TableFile, VerifyProgress, VerifyReport};
use slmdb_env::{Env, Result};
use slmdb_manifest::StoreState;

use crate::compaction::garbage::Collector;
use crate::compaction::last_level::LastLevel;
use crate::compaction::pace::Pace;
use crate::flush::Flush;
use crate::operations::get::Reader;
use crate::operations::range_query::ChameleonCursor;
use crate::operations::verify::verify;
use crate::shards::section::forget_index;
use crate::shards::tables::HeldTables;
use crate::state::ChameleonState;

/// The background threads beside those that every store has, in the order of [`ChameleonTier::work`].
pub(crate) const THREADS: &[&str] = &["slmdb-flush"];

/// Keeps the files of hash tables. A copy has those that are files, and makes its index anew if they are in the pool.
struct HeldIndex<'t>(HeldTables<'t>);

impl Held for HeldIndex<'_> {
    fn write_into(&self, _: &dyn Env, _: &Path, state: &mut StoreState) -> Result<()> {
        if !self.0.are_files() {
            forget_index(state);
        }
        Ok(())
    }
}

/// What ChameleonDB does below the MemTables of a store.
pub(crate) struct ChameleonTier {
    store: Arc<Parts>,
    state: Arc<ChameleonState>,
    reader: Arc<Reader>,
    collector: Arc<Collector>,
    pace: Arc<Pace>,
    flush: Arc<Flush>,
}

impl Tier for ChameleonTier {
    type State = ChameleonState;
    type Cursor = ChameleonCursor;

    fn new(store: &Arc<Parts>, state: &Arc<ChameleonState>) -> ChameleonTier {
        let (store, state) = (store.clone(), state.clone());
        let pace = Arc::new(Pace::new(store.clone(), state.clone()));
        let last_level = Arc::new(LastLevel::new(store.clone(), state.clone(), pace.clone()));
        ChameleonTier {
            reader: Arc::new(Reader { store: store.clone(), state: state.clone() }),
            collector: Arc::new(Collector::new(store.clone(), state.clone(), last_level, pace.clone())),
            flush: Arc::new(Flush { store: store.clone(), state: state.clone(), pace: pace.clone() }),
            pace,
            store,
            state,
        }
    }

    fn work(&self) -> Vec<Task> {
        let (collector, flush) = (self.collector.clone(), self.flush.clone());
        let mut all = self.store.compaction_work(self.state.compactions.bell(), move |rounds| collector.step(rounds));
        let reader = self.reader.clone();
        let cursor = move |moment| ChameleonCursor::new(reader.clone(), moment);
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

    fn cursor(&self, moment: u64) -> ChameleonCursor {
        ChameleonCursor::new(self.reader.clone(), moment)
    }

    fn approximate(&self, range: (Bound<&[u8]>, Bound<&[u8]>)) -> Result<Approximate> {
        self.reader.approximate(range)
    }

    fn compact_range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<()> {
        self.collector.compact_range((from, to))
    }

    fn verify(&self, progress: &mut dyn FnMut(VerifyProgress)) -> Result<VerifyReport> {
        verify(&self.store, &self.state, progress)
    }

    fn hold_files(&self) -> Box<dyn Held + '_> {
        Box::new(HeldIndex(self.state.hash_tables.hold()))
    }

    fn table_files(&self) -> Vec<TableFile> {
        let leads_to = self.state.index.writers.lock().leads_to().clone();
        let catalog = self.store.catalog.lock();
        let files = catalog.state().files.iter();
        let live = |number| leads_to.get(number).map_or(0, |leads| leads.puts);
        files.map(|(number, file)| table_file(*number, file, live(number))).collect()
    }

    fn count_stats(&self, stats: &mut Stats) {
        stats.live_bytes = self.pace.garbage().needed_bytes as u64;
        let index_bytes = match self.state.hash_tables.are_files() {
            true => self.state.index.memory_bytes(),
            false => self.state.hash_tables.pool_bytes(),
        };
        stats.count_index(self.state.index.keys(), index_bytes, 0);
    }
}
