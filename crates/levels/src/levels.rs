//! [`Levels`]: the current version, and what changes it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use slmdb_engine::files::obsolete_files::PinnedFiles;
use slmdb_order::KeyOrder;
use slmdb_sync::scheduled::{ArcSwap, Mutex};

use crate::change::Change;
use crate::debt::Debt;
use crate::options::LevelOptions;
use crate::plan::Jobs;
use crate::run::Run;
use crate::version::{Version, memory_of_run};

/// The levels of a store. All methods may be called from any number of threads at once.
///
/// Its locks have no rank: no other lock of the store is taken under them, and nothing is read or written. Readers take
/// none.
pub struct Levels<R: Run> {
    pub(crate) options: LevelOptions,
    /// What level 1 may hold now.
    base_bytes: AtomicU64,
    pub(crate) current: ArcSwap<Version<R>>,
    /// Who changes the current version has this lock.
    pub(crate) jobs: Arc<Mutex<Jobs>>,
    /// Runs that were removed, and may still be read.
    leaving: Mutex<BTreeMap<u32, Weak<R>>>,
    /// Versions from before the current one. Who reads may have some of them.
    earlier: Mutex<Vec<Weak<Version<R>>>>,
}

impl<R: Run> Levels<R> {
    /// Levels with these runs, in any order. The error says how they contradict each other: the MANIFEST that named
    /// them is corrupt. REQUIRES: the options are [checked](LevelOptions::check).
    pub fn open(
        options: LevelOptions,
        order: KeyOrder,
        runs: impl IntoIterator<Item = (u8, Arc<R>)>,
    ) -> Result<Levels<R>, String> {
        Ok(Levels {
            base_bytes: AtomicU64::new(options.base_bytes),
            options,
            current: ArcSwap::from_pointee(Version::new(order, runs)?),
            jobs: Arc::new(Mutex::new(Jobs::default())),
            leaving: Mutex::new(BTreeMap::new()),
            earlier: Mutex::new(Vec::new()),
        })
    }

    /// The options that they were opened with.
    pub fn options(&self) -> &LevelOptions {
        &self.options
    }

    /// Sets what level 1 may hold, in bytes: an engine may find out only later what suits what is above it. Each further level
    /// may hold as many times as much as before.
    pub fn set_base_bytes(&self, bytes: u64) {
        self.base_bytes.store(bytes.max(1), Ordering::Relaxed);
    }

    /// What a level may hold now, in bytes; see [`LevelOptions::target_bytes`].
    pub fn target_bytes(&self, level: u8) -> u64 {
        self.options_now().target_bytes(level)
    }

    fn options_now(&self) -> LevelOptions {
        LevelOptions { base_bytes: self.base_bytes.load(Ordering::Relaxed), ..self.options.clone() }
    }

    /// The current version.
    pub fn current(&self) -> Arc<Version<R>> {
        self.current.load_full()
    }

    /// Whether a change fits. For before its edit is committed.
    pub fn check(&self, change: &Change<R>) -> Result<(), String> {
        self.current.load_full().with(change).map(|_| ())
    }

    /// Makes a change visible to those who load the version from now on. REQUIRES: its [edit](crate::edit_of) is
    /// durable in the MANIFEST. The error says why it does not fit; nothing is changed then, so the store and its
    /// MANIFEST disagree. The removed runs are remembered until they are found not to be [pinned](Levels::pins) any
    /// more, so the engine has to ask, about runs that are no files too.
    pub fn apply(&self, change: &Change<R>) -> Result<Arc<Version<R>>, String> {
        // Runs may go with their last version, and what they do then is not done under the lock.
        let before;
        let _jobs = self.jobs.lock();
        before = self.current.load_full();
        let after = Arc::new(before.with(change)?);
        self.leaving.lock().extend(change.removed.iter().map(|run| (run.number(), Arc::downgrade(run))));
        self.current.store(after.clone());
        let mut earlier = self.earlier.lock();
        earlier.retain(|version| version.strong_count() > 0);
        earlier.push(Arc::downgrade(&before));
        Ok(after)
    }

    /// What the current version takes in memory, in bytes, with earlier ones that are still read and with their runs.
    pub fn memory_bytes(&self) -> usize {
        // What was the last to have a version or run lets it go without a lock.
        let versions: Vec<_> = self.earlier.lock().iter().filter_map(Weak::upgrade).collect();
        let runs: Vec<_> = self.leaving.lock().values().filter_map(Weak::upgrade).collect();
        let lists_bytes: usize = versions.iter().map(|version| version.lists_bytes()).sum();
        let runs_bytes: usize = runs.iter().map(|run| memory_of_run(&**run)).sum();
        self.current.load().memory_bytes() + lists_bytes + runs_bytes
    }

    /// How much is still to be moved down.
    pub fn debt(&self) -> Debt {
        Debt::of(&self.current.load_full(), &self.options_now())
    }

    /// Numbers of removed runs that somebody still has.
    pub fn pinned(&self) -> Vec<u32> {
        let mut leaving = self.leaving.lock();
        leaving.retain(|_, run| run.strong_count() > 0);
        leaving.keys().copied().collect()
    }
}

/// A removed run is pinned as long as a version, a cursor, a plan or a change has it. Who drops one of these says nothing: the
/// engine has [`ObsoleteFiles`](slmdb_engine::files::obsolete_files::ObsoleteFiles) look again now and then.
impl<R: Run> PinnedFiles for Levels<R> {
    fn pins(&self, number: u32) -> bool {
        let mut leaving = self.leaving.lock();
        let is_pinned = leaving.get(&number).is_some_and(|run| run.strong_count() > 0);
        if !is_pinned {
            leaving.remove(&number);
        }
        is_pinned
    }
}
