//! Opening: the directory ([`slmdb_engine::directory`]), the medium; then recovery, then the background threads.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use slmdb_engine::background::workers::{Work, Workers};
use slmdb_engine::directory::open::{check_directory, prepare};
use slmdb_engine::observe::spans::timed;
use slmdb_engine::{
    Approximate, Condition, Engine, EngineCursor, EngineSnapshot, Options, Slice, Stats, TableFile, VerifyProgress,
    VerifyReport, WriteBatch,
};
use slmdb_env::{Error, Lock, Result};
use slmdb_manifest::{MediumKind, StoreState};
use slmdb_pmem::Persistent;
use slmdb_sync::scheduled::mpsc::sync_channel;
use slmdb_sync::scheduled::thread;
use tracing::field::Empty;
use tracing::info_span;

use crate::KIND;
use crate::recovery::recover::recover;
use crate::recovery::{index_in_pool, rebuild};
use crate::store::Store;

/// See [`super::open`].
pub(crate) fn open(options: &Options, directory: &Path) -> Result<Arc<dyn Engine>> {
    let env = &*options.env;
    check_directory(env, directory)?;
    let directory = env.absolute(directory)?;
    let span = info_span!("open", directory = %directory.display(), read_only = options.read_only, ms = Empty);
    timed(env, span, || open_in(options, &directory))
}

/// See [`crate::open_on`].
pub(crate) fn open_on<M: slmdb_pmem::Medium + Clone>(
    options: &Options,
    directory: &Path,
    medium: M,
) -> Result<Arc<dyn Engine>> {
    check_directory(&*options.env, directory)?;
    let directory = &options.env.absolute(directory)?;
    let workers = workers_for(options)?;
    let (state, lock) = prepare(&KIND, options, directory)?;
    if state.medium.kind == MediumKind::Dram {
        return Err(Error::invalid("a store on Dram has no pool that could be on another medium"));
    }
    open_pool(medium, options, directory, (state, lock), workers)
}

/// See [`open`]; the directory is absolute.
fn open_in(options: &Options, directory: &Path) -> Result<Arc<dyn Engine>> {
    let workers = workers_for(options)?;
    let (mut state, lock) = prepare(&KIND, options, directory)?;
    let unit_bytes = options.media_unit_bytes;
    match state.medium.kind {
        MediumKind::Dram => {
            let fast = rebuild::in_memory(options, directory, &mut state)?;
            Ok(start(recover(options, directory, state, fast, lock)?, workers))
        }
        MediumKind::Emulated if !options.imitation.is_nothing() => {
            let medium = Persistent::imitating(&options.imitation).with_unit(unit_bytes)?;
            open_pool(medium, options, directory, (state, lock), workers)
        }
        // One type for both, so that one engine is compiled for both.
        kind @ (MediumKind::Emulated | MediumKind::Dax) => {
            let dax = kind == MediumKind::Dax;
            let medium = if dax { Persistent::dax(options.caches_are_persistent)? } else { Persistent::new() };
            open_pool(medium.with_unit(unit_bytes)?, options, directory, (state, lock), workers)
        }
    }
}

/// The threads that the store will have. First of all: if they are not to be had nothing is changed.
fn workers_for(options: &Options) -> Result<Workers> {
    options.check()?;
    Workers::of(options)
}

/// Opens a store that has a pool, on this medium.
fn open_pool<M: slmdb_pmem::Medium + Clone>(
    medium: M,
    options: &Options,
    directory: &Path,
    (state, lock): (StoreState, Option<Box<dyn Lock>>),
    workers: Workers,
) -> Result<Arc<dyn Engine>> {
    let fast = index_in_pool::find(medium, options, &state)?;
    Ok(start(recover(options, directory, state, fast, lock)?, workers))
}

/// A store that has a pool and whose background threads don't run, for tests that do their work step by step.
#[cfg(test)]
pub(crate) fn without_threads<M: slmdb_pmem::Medium + Clone>(
    medium: M,
    options: &Options,
    directory: &Path,
) -> Result<Store<M>> {
    let (state, lock) = prepare(&KIND, options, directory)?;
    let fast = index_in_pool::find(medium, options, &state)?;
    recover(options, directory, state, fast, lock)
}

#[cfg(test)]
type PoolOfStore = Arc<slmdb_pmem::Pool<Persistent>>;

/// A store that has a pool, and that pool.
#[cfg(test)]
pub(crate) fn with_pool(options: &Options, directory: &Path) -> Result<(Arc<dyn Engine>, PoolOfStore)> {
    let (state, lock) = prepare(&KIND, options, directory)?;
    let fast = index_in_pool::find(Persistent::new(), options, &state)?;
    let pool = fast.pool.clone();
    let store = recover(options, directory, state, fast, lock)?;
    Ok((start(store, workers_for(options)?), pool))
}

/// Gives the background threads of a store their work, if it takes writes.
fn start<M: slmdb_pmem::Medium + Clone>(mut store: Store<M>, mut workers: Workers) -> Arc<dyn Engine> {
    store.writes.events = Arc::new(std::mem::take(&mut workers.events));
    let store = Arc::new(store);
    store.share_memory();
    if !store.options.read_only {
        let (sender, receiver) = sync_channel(1);
        let (file, index) = (store.clone(), store.clone());
        let (ahead, checkpoint) = (store.clone(), store.clone());
        let compactions = (0..store.options.compaction.threads_to_start()).map(|_| {
            let (compaction, sender) = (store.clone(), sender.clone());
            work(&store, move || compaction.run_compaction_thread(sender))
        });
        let compactions: Vec<_> = compactions.collect();
        let others = [
            work(&store, move || file.run_file_thread(sender)),
            work(&store, move || index.run_index_thread(receiver)),
            work(&store, move || ahead.run_ahead_thread()),
            work(&store, move || checkpoint.run_checkpoint_thread()),
        ];
        *store.threads.lock() = workers.begin(compactions.into_iter().chain(others));
    }
    Arc::new(Slm(store))
}

/// The work of a background thread. Should it panic, the store takes no more writes, so that nobody waits for it.
fn work<M: slmdb_pmem::Medium + Clone>(store: &Arc<Store<M>>, run: impl FnOnce() + Send + 'static) -> Work {
    let store = store.clone();
    Box::new(move || {
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err() {
            let name = thread::current().name().unwrap_or_default().to_string();
            store.fail(Error::invalid(format!("the thread {name} panicked, which is a bug in slmdb")));
        }
    })
}

/// The engine as the interface above holds it: the store, closed when it goes.
struct Slm<M: slmdb_pmem::Medium + Clone>(Arc<Store<M>>);

impl<M: slmdb_pmem::Medium + Clone> Engine for Slm<M> {
    fn write(&self, batch: &WriteBatch, sync: bool) -> Result<()> {
        self.0.writes.write(batch, sync)
    }

    fn write_if(&self, condition: Condition<'_>, batch: &WriteBatch, sync: bool) -> Result<bool> {
        self.0.writes.write_if(condition, batch, sync, |key| self.0.contains_key(key))
    }

    fn get(&self, key: &[u8]) -> Result<Option<Slice>> {
        self.0.get(key)
    }

    fn contains_key(&self, key: &[u8]) -> Result<bool> {
        self.0.contains_key(key)
    }

    fn cursor(&self) -> Result<Box<dyn EngineCursor>> {
        Ok(Box::new(crate::operations::range_query::Cursor::new(self.0.clone())))
    }

    fn snapshot(&self) -> Result<Arc<dyn EngineSnapshot>> {
        Ok(Arc::new(crate::operations::snapshot::SlmSnapshot::new(self.0.clone())))
    }

    fn sync(&self) -> Result<()> {
        self.0.writes.sync()
    }

    fn flush(&self) -> Result<()> {
        self.0.writes.flush()
    }

    fn compact_range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<()> {
        self.0.compact_range(from.map(<[u8]>::to_vec), to.map(<[u8]>::to_vec))
    }

    fn checkpoint(&self, directory: &Path) -> Result<()> {
        self.0.copy_to(directory)
    }

    fn stats(&self) -> Stats {
        self.0.stats()
    }

    fn table_files(&self) -> Vec<TableFile> {
        self.0.table_files()
    }

    fn approximate(&self, range: (Bound<&[u8]>, Bound<&[u8]>)) -> Result<Approximate> {
        self.0.approximate(range)
    }

    fn verify(&self, progress: &mut dyn FnMut(VerifyProgress)) -> Result<VerifyReport> {
        let span = info_span!("verify", table_files = Empty, entries = Empty, findings = Empty, ms = Empty);
        timed(&*self.0.env, span.clone(), || {
            let report = self.0.verify(progress)?;
            span.record("table_files", report.table_files_checked);
            span.record("entries", report.entries_checked);
            span.record("findings", report.findings.len());
            Ok(report)
        })
    }

    fn close(&self) -> Result<()> {
        let closed = self.0.close();
        self.0.writes.events.end();
        closed
    }
}

impl<M: slmdb_pmem::Medium + Clone> Drop for Slm<M> {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::error!(%error, "closing failed; the next opening recovers");
        }
    }
}

#[cfg(test)]
mod tests {
    use slmdb_env::memory::{Failure, MemoryEnv, Repeat};
    use slmdb_pmem::ExtentKind;

    use super::*;
    use slmdb_engine::Medium;

    /// What waits for the last reader may run on any thread, and was on its way when the store failed and was opened again: it
    /// freed key segments that the index points to.
    #[test]
    fn what_waits_for_readers_frees_nothing_once_the_store_may_be_opened_again() {
        let env = MemoryEnv::new();
        let options = Options {
            env: Arc::new(env.clone()),
            memtable_bytes: 4 << 10,
            medium: Some(Medium::Emulated { path: "/pool".into() }),
            pool_initial_bytes: 1 << 20,
            ..Options::default()
        };
        let (engine, held) = with_pool(&options, Path::new("/db")).unwrap();
        let mut batch = WriteBatch::new();
        batch.put("key", "value").unwrap();
        engine.write(&batch, false).unwrap();
        engine.flush().unwrap();
        let segment = held.extents().into_iter().find(|extent| extent.kind == ExtentKind::KeySegment).unwrap();
        env.fail_after(0, "", Failure::Io, Repeat::ForGood);
        engine.write(&batch, false).unwrap();
        engine.flush().unwrap_err();
        drop(engine);
        assert!(matches!(held.free_extent(segment.offset), Err(Error::ReadOnly { .. })));
    }
}
