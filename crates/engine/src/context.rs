//! [`StoreContext`]: what every part of an open store knows: how it was opened, where it is, whether it takes writes, and who is
//! told of its work.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use slmdb_env::{Env, Error, Result};

use crate::background::health::Health;
use crate::events::delivery::Events;
use crate::memory::budget::Budget;
use crate::observe::counters::Counted;
use crate::{Event, Options};

/// See the module.
pub struct StoreContext {
    /// How it was opened.
    pub options: Options,
    /// The environment: the options' own.
    pub env: Arc<dyn Env>,
    /// Its directory, absolute.
    pub directory: PathBuf,
    /// Its identity.
    pub uuid: [u8; 16],
    /// What its table files and index checkpoints carry.
    pub files_uuid: [u8; 16],
    /// Whether writes are taken.
    pub health: Health,
    /// Who is told of its work.
    pub events: Events,
    /// What is counted.
    pub counted: Counted,
    /// What it keeps in plain memory.
    pub budget: Budget,
    /// What is done once it has failed.
    on_failure: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl StoreContext {
    /// That of a store that has just been recovered.
    pub fn new(options: Options, directory: PathBuf, (uuid, files_uuid): ([u8; 16], [u8; 16]), events: Events) -> Self {
        StoreContext {
            env: options.env.clone(),
            directory,
            uuid,
            files_uuid,
            health: Health::new(options.read_only),
            events,
            counted: Counted::default(),
            budget: Budget::new(&options),
            on_failure: OnceLock::new(),
            options,
        }
    }

    /// Says what is done once the store has failed: its background work ends. Called under no lock. REQUIRES: not said before.
    pub fn on_failure(&self, stop: impl Fn() + Send + Sync + 'static) {
        let _ = self.on_failure.set(Box::new(stop));
    }

    /// Something failed that must not be tried again. Writes are refused from now on; nothing is deleted; reads go on. The caller
    /// holds neither the MemTables' lock nor that of the compactions.
    pub fn fail(&self, error: Error) {
        if self.health.fail(error.clone()) {
            tracing::error!(%error, "the store takes no more writes");
            self.events.notify(|| Event::Failed { cause: error });
        }
        if let Some(stop) = self.on_failure.get() {
            stop();
        }
    }

    /// Whether something failed that must not be tried again.
    pub fn has_failed(&self) -> bool {
        self.health.failure().is_some()
    }

    /// [`Error::ReadOnly`] with the cause, unless writes are taken.
    pub fn check_writable(&self) -> Result<()> {
        self.health.check_writable()
    }

    /// Tells the event listener; without one nothing is made. May be called anywhere, under any lock.
    pub fn notify(&self, make: impl FnOnce() -> Event) {
        self.events.notify(make);
    }

    /// How long ago that was, on the clock of the environment.
    pub fn since(&self, then_ns: u64) -> Duration {
        Duration::from_nanos(self.env.monotonic_ns().saturating_sub(then_ns))
    }
}
