//! [`Shared`]: what the stores have in common that are opened with it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use slmdb_env::{Error, Result, process_number};
use slmdb_sync::scheduled::Mutex;

use super::memtables::SharedMemTables;
use crate::background::crew::Crew;
use crate::files::caches::Caches;
use crate::memory::budget::WholeBudget;

/// How many compactions may run at once.
const THREADS_MAX: usize = 4;
/// More threads than so many for flushes, or for anything else but compactions, would wait for the disk together.
const OTHER_THREADS_MAX: usize = 2;

/// MemTables take up to this part of the budget.
const MEMTABLES_PART: u64 = 2;

/// How much the stores of a [`Shared`] take together.
#[derive(Debug, Clone)]
pub struct SharedOptions {
    /// Memory for everything that they keep in plain memory, in bytes.
    pub memory_budget_bytes: u64,
    /// How many compactions run at once, from 1 to 4; as many flushes, but at most 2.
    pub threads: usize,
    /// How many table files are held open.
    pub open_tables_max: usize,
}

impl Default for SharedOptions {
    fn default() -> SharedOptions {
        SharedOptions { memory_budget_bytes: 256 << 20, threads: 2, open_tables_max: 500 }
    }
}

/// Background threads, memory and open table files that several stores of a process have in common ([`Options::shared`]).
///
/// - *Threads*: one set for all stores. Those with something to do take turns; what has begun is not interrupted, so a store may
///   wait for another one's compaction. One that waits for space on a full disk keeps no other waiting. An event listener has a thread of
///   its own all the same.
/// - *Memory*: one block cache, which has what is left of the budget. Where MemTables take more than a quarter of it together, and
///   as much again while they are flushed, the largest is flushed.
/// - *Open table files*: one bound for all.
///
/// After a `fork` it is the parent's alone: an opening with it is [`Error::Invalid`] in the child, and dropping it there does nothing.
///
/// It lives as long as a store that was opened with it, or whoever has made it.
///
/// [`Options::shared`]: crate::Options::shared
pub struct Shared {
    options: SharedOptions,
    /// By the names of their threads. Each is there once a store needs it.
    crews: Mutex<BTreeMap<&'static str, Arc<Crew>>>,
    caches: Arc<Caches>,
    budget: Arc<WholeBudget>,
    memtables: SharedMemTables,
    process: u64,
}

impl Shared {
    /// For stores that take so much together. [`Error::Invalid`]: an option is out of its range.
    pub fn new(options: SharedOptions) -> Result<Arc<Shared>> {
        if !(1..=THREADS_MAX).contains(&options.threads) {
            return Err(Error::invalid("stores may share from 1 to 4 threads for compactions"));
        }
        if options.open_tables_max == 0 {
            return Err(Error::invalid("open_tables_max must be at least 1"));
        }
        let SharedOptions { memory_budget_bytes, open_tables_max, .. } = options;
        let memtables_bytes_max = memory_budget_bytes / MEMTABLES_PART;
        Ok(Arc::new(Shared {
            crews: Mutex::new(BTreeMap::new()),
            caches: Arc::new(Caches::new(open_tables_max, memory_budget_bytes)),
            budget: Arc::new(WholeBudget::new(memory_budget_bytes, memtables_bytes_max)),
            // Others are being flushed meanwhile.
            memtables: SharedMemTables::new(memtables_bytes_max / 2),
            process: process_number(),
            options,
        }))
    }

    /// How much the stores take together.
    pub fn options(&self) -> &SharedOptions {
        &self.options
    }

    /// Open table files, and blocks of table files.
    pub(crate) fn caches(&self) -> &Arc<Caches> {
        &self.caches
    }

    /// The memory budget.
    pub(crate) fn budget(&self) -> &Arc<WholeBudget> {
        &self.budget
    }

    /// The MemTables.
    pub(crate) fn memtables(&self) -> &SharedMemTables {
        &self.memtables
    }

    /// The crew whose threads have this name.
    pub(crate) fn crew(&self, name: &'static str, is_of_compactions: bool) -> Result<Arc<Crew>> {
        if self.process != process_number() {
            return Err(Error::invalid(
                "this process was forked from the one that made the `Shared`, and has none of its threads; make another one",
            ));
        }
        let mut crews = self.crews.lock();
        if let Some(crew) = crews.get(name) {
            return Ok(crew.clone());
        }
        let threads = self.options.threads.min(if is_of_compactions { THREADS_MAX } else { OTHER_THREADS_MAX });
        let crew = Arc::new(Crew::start(name, threads)?);
        crews.insert(name, crew.clone());
        Ok(crew)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Shared").field("options", &self.options).finish_non_exhaustive()
    }
}
