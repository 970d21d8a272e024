//! [`UnreadableFiles`]: inputs that can't be read are passed over, until the next opening.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

use slmdb_env::Error;
use slmdb_sync::scheduled::Mutex;

use crate::run::Run;

/// The table files and lists that compactions could not read since the store was opened, with what is wrong with each. No other lock is taken
/// under its own. No compaction is planned with one of them.
pub struct UnreadableFiles {
    has_some: AtomicBool,
    files: Mutex<BTreeMap<u32, Error>>,
}

impl Default for UnreadableFiles {
    fn default() -> UnreadableFiles {
        UnreadableFiles { has_some: AtomicBool::new(false), files: Mutex::new(BTreeMap::new()) }
    }
}

impl UnreadableFiles {
    /// Takes note of a file.
    pub(super) fn note(&self, file: u32, cause: &Error) {
        self.has_some.store(true, Ordering::Relaxed);
        self.files.lock().insert(file, cause.clone());
    }

    /// Whether there are any. Takes no lock.
    pub fn has_some(&self) -> bool {
        self.has_some.load(Ordering::Relaxed)
    }

    /// Their numbers.
    pub fn numbers(&self) -> BTreeSet<u32> {
        self.files.lock().keys().copied().collect()
    }

    /// Whether a run could be read, as far as it was read.
    pub fn is_readable(&self, run: &impl Run) -> bool {
        !self.has_some() || !self.files.lock().contains_key(&run.number())
    }

    /// What is wrong with one of them.
    pub fn first_cause(&self) -> Option<Error> {
        self.files.lock().values().next().cloned()
    }
}
