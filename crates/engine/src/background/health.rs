//! [`Health`]: whether a store takes writes, and if not, why.

use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use slmdb_env::{Error, Result};
use slmdb_sync::scheduled::atomic::AtomicBool;

/// Whether a store takes writes. After a failure it takes none until it is opened again, because what a failed fsync
/// has left behind is unknown (INV-27).
#[derive(Debug)]
pub struct Health {
    failure: OnceLock<Error>,
    read_only: bool,
    closed: AtomicBool,
}

impl Health {
    /// The health of a store that has just been opened.
    pub fn new(read_only: bool) -> Health {
        Health { failure: OnceLock::new(), read_only, closed: AtomicBool::new(false) }
    }

    /// [`Error::ReadOnly`] with the cause, unless writes are taken.
    pub fn check_writable(&self) -> Result<()> {
        if let Some(cause) = self.failure.get() {
            return Err(Error::ReadOnly { cause: format!("after an earlier failure: {cause}") });
        }
        if self.read_only {
            return Err(Error::ReadOnly { cause: "it was opened for reading alone".into() });
        }
        if self.closed.load(Ordering::Acquire) {
            return Err(closed());
        }
        Ok(())
    }

    /// Records the first failure. Returns whether this is it.
    pub fn fail(&self, error: Error) -> bool {
        self.failure.set(error).is_ok()
    }

    /// The first failure.
    pub fn failure(&self) -> Option<&Error> {
        self.failure.get()
    }

    /// Refuses writes from now on. Returns whether the store was closed before.
    pub fn close(&self) -> bool {
        self.closed.swap(true, Ordering::AcqRel)
    }
}

/// The error of a write to a closed store.
pub fn closed() -> Error {
    Error::ReadOnly { cause: "it was closed".into() }
}
