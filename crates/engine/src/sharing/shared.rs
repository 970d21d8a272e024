//! [`Shared`]: what the stores have in common that are opened with it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use slmdb_env::{Error, Result};
use slmdb_sync::scheduled::Mutex;

use crate::background::crew::Crew;

/// How many compactions may run at once.
const THREADS_MAX: usize = 4;
/// More threads than so many for flushes, or for anything else but compactions, would wait for the disk together.
const OTHER_THREADS_MAX: usize = 2;

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

/// Background threads, memory and open files that several stores of a process have in common.
pub struct Shared {
    options: SharedOptions,
    /// By the names of their threads. Each is there once a store needs it.
    crews: Mutex<BTreeMap<&'static str, Arc<Crew>>>,
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
        Ok(Arc::new(Shared { options, crews: Mutex::new(BTreeMap::new()) }))
    }

    /// How much the stores take together.
    pub fn options(&self) -> &SharedOptions {
        &self.options
    }

    /// The crew whose threads have this name.
    pub(crate) fn crew(&self, name: &'static str, is_of_compactions: bool) -> Result<Arc<Crew>> {
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
