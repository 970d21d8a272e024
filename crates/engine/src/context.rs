//! [`StoreContext`]: what every part of an open store needs: its options, its directory, its counters and events, and
//! its [`Health`]: whether it takes writes, and if not, why.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use slmdb_env::{Env, Error, Result};
use slmdb_sync::scheduled::atomic::AtomicBool;

use crate::events::delivery::Events;
use crate::memory::budget::Budget;
use crate::observe::counters::StoreCounters;
use crate::{Event, Options};

/// What every part of an open store needs.
pub struct StoreContext {
    /// The options that it was opened with.
    pub options: Options,
    /// The environment, which is the options' own.
    pub env: Arc<dyn Env>,
    /// Its directory, as an absolute path.
    pub directory: PathBuf,
    /// Its UUID.
    pub uuid: [u8; 16],
    /// The UUID in its table files and index checkpoints.
    pub files_uuid: [u8; 16],
    /// Whether writes are taken.
    pub health: Health,
    /// Reports events to the listener.
    pub events: Events,
    /// Its counters.
    pub counted: StoreCounters,
    /// Its memory budget.
    pub budget: Budget,
    /// Called once the store has failed.
    on_failure: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl StoreContext {
    /// The context of a store that has just been recovered.
    pub fn new(options: Options, directory: PathBuf, (uuid, files_uuid): ([u8; 16], [u8; 16]), events: Events) -> Self {
        StoreContext {
            env: options.env.clone(),
            directory,
            uuid,
            files_uuid,
            health: Health::new(options.read_only),
            events,
            counted: StoreCounters::default(),
            budget: Budget::new(&options),
            on_failure: OnceLock::new(),
            options,
        }
    }

    /// Sets what is called once the store has failed, under no lock, to end its background work. REQUIRES: it was not
    /// set before.
    pub fn on_failure(&self, stop: impl Fn() + Send + Sync + 'static) {
        let _ = self.on_failure.set(Box::new(stop));
    }

    /// Records a failure after which nothing may be tried again. From now on writes are refused, nothing is deleted,
    /// and reads go on (INV-27). REQUIRES: the caller holds neither memtables nor compactions.
    pub fn fail(&self, error: Error) {
        if self.health.fail(error.clone()) {
            tracing::error!(%error, "the store takes no more writes");
            self.events.notify(|| Event::Failed { cause: error });
        }
        if let Some(stop) = self.on_failure.get() {
            stop();
        }
    }

    /// Whether something failed after which nothing may be tried again.
    pub fn has_failed(&self) -> bool {
        self.health.failure().is_some()
    }

    /// [`Error::ReadOnly`] with the cause, unless writes are taken.
    pub fn check_writable(&self) -> Result<()> {
        self.health.check_writable()
    }

    /// Queues an event, if there is a listener; otherwise the event is not made. May be called under any lock.
    pub fn notify(&self, make: impl FnOnce() -> Event) {
        self.events.notify(make);
    }

    /// The time since `then_ns`, on the environment's clock.
    pub fn since(&self, then_ns: u64) -> Duration {
        Duration::from_nanos(self.env.monotonic_ns().saturating_sub(then_ns))
    }
}

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
