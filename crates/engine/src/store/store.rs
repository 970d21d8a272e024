//! [`Store`]: an [`Engine`] of the parts that every store has, and a tier below its MemTables.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use slmdb_env::Result;
use slmdb_pmem::Medium;
use slmdb_sync::scheduled::Mutex;

use super::parts::Parts;
use super::shared::Shared;
use super::snapshot::StoreSnapshot;
use super::tier::{Moment, Tier};
use crate::background::workers::{Task, Workers, Working, task};
use crate::directory::EngineKind;
use crate::directory::store_copy::StoreCopy;
use crate::observe::spans::verifying;
use crate::write::closing::close_once;
use crate::write::memtable_preparer::MemTablePreparer;
use crate::{
    Approximate, Capabilities, Condition, Engine, EngineCursor, EngineSnapshot, Slice, Stats, TableFile,
    VerifyProgress, VerifyReport, WriteBatch,
};

/// An open store. Dropping it closes it.
pub struct Store<T: Tier> {
    /// What snapshots and cursors have, too.
    pub shared: Arc<Shared<T>>,
    kind: EngineKind,
    working: Mutex<Working>,
}

impl<T: Tier> Store<T> {
    /// A store of these parts. Its background work has not begun.
    pub fn new(kind: EngineKind, parts: Arc<Parts>, state: &Arc<T::State>) -> Store<T> {
        let tier = Arc::new(T::new(&parts, state));
        let working = Mutex::new(Working::default());
        Store { shared: Arc::new(Shared { parts, tier }), kind, working }
    }

    /// Begins the background work, if the store takes writes.
    pub fn start(&self, workers: Workers) {
        let Shared { parts, tier } = &*self.shared;
        parts.share_memory();
        if parts.context.options.read_only {
            return;
        }
        let preparer = MemTablePreparer::new(
            parts.context.clone(),
            parts.writes.clone(),
            parts.catalog.clone(),
            parts.space.clone(),
        );
        let mut all: Vec<Task> = tier.work();
        all.push(task(&parts.context, &parts.writes.bell, preparer.steps()));
        *self.working.lock() = workers.begin(all);
    }

    /// Ends the background work, makes the log durable, and records where it ends.
    fn seal(&self) -> Result<()> {
        let Shared { parts, tier } = &*self.shared;
        parts.writes.end_work(&self.working, || parts.state.stop_compactions())?;
        tier.leave()?;
        parts.writes.seal_log(&parts.catalog)?;
        if parts.state.pool().medium().is_persistent() { parts.state.pool().seal() } else { Ok(()) }
    }
}

impl<T: Tier> Engine for Store<T> {
    fn capabilities(&self) -> Capabilities {
        self.kind.capabilities
    }

    fn write(&self, batch: &WriteBatch, sync: bool) -> Result<()> {
        self.shared.parts.writes.write(batch, sync)
    }

    fn write_if(&self, condition: Condition<'_>, batch: &WriteBatch, sync: bool) -> Result<bool> {
        let contains_key = |key: &[u8]| self.shared.contains_key(key, Moment::Now);
        self.shared.parts.writes.write_if(condition, batch, sync, contains_key)
    }

    fn get(&self, key: &[u8]) -> Result<Option<Slice>> {
        self.shared.get(key, Moment::Now)
    }

    fn contains_key(&self, key: &[u8]) -> Result<bool> {
        self.shared.contains_key(key, Moment::Now)
    }

    fn cursor(&self) -> Result<Box<dyn EngineCursor>> {
        Ok(self.shared.cursor())
    }

    fn snapshot(&self) -> Result<Arc<dyn EngineSnapshot>> {
        Ok(Arc::new(StoreSnapshot::new(self.shared.clone())))
    }

    fn sync(&self) -> Result<()> {
        self.shared.parts.writes.sync()
    }

    fn flush(&self) -> Result<()> {
        self.shared.parts.writes.flush()
    }

    fn compact_range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<()> {
        self.shared.tier.compact_range(from, to)
    }

    fn checkpoint(&self, directory: &Path) -> Result<()> {
        let Shared { parts, tier } = &*self.shared;
        let Parts { context, catalog, obsolete, .. } = &**parts;
        let copy = StoreCopy { kind: &self.kind, context, catalog, obsolete };
        let is_complete = |through| parts.writes.complete_through(through) == through;
        copy.make(directory, || parts.writes.flush(), is_complete, || tier.hold_files())
    }

    fn stats(&self) -> Stats {
        let mut stats = self.shared.parts.stats(self.kind.name);
        self.shared.tier.count_stats(&mut stats);
        stats
    }

    fn table_files(&self) -> Vec<TableFile> {
        self.shared.tier.table_files()
    }

    fn approximate(&self, range: (Bound<&[u8]>, Bound<&[u8]>)) -> Result<Approximate> {
        self.shared.approximate(range)
    }

    fn verify(&self, progress: &mut dyn FnMut(VerifyProgress)) -> Result<VerifyReport> {
        verifying(&*self.shared.parts.context.env, || self.shared.tier.verify(progress))
    }

    fn close(&self) -> Result<()> {
        close_once(&self.shared.parts.context, || self.seal())
    }
}

impl<T: Tier> Drop for Store<T> {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::error!(%error, "closing failed; the next opening recovers");
        }
    }
}
