//! [`StoreContext`]: what every part of an open store needs: its options, its directory, whether it takes writes, its
//! counters and events.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use slmdb_env::{Env, Error, Result};

use crate::background::health::Health;
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
    /// and reads go on (INV-27). REQUIRES: the caller holds neither traffic nor compactions.
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
