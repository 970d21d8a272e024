//! One order for what several recorders see.
//!
//! A crash simulator records the stores to the fast tier in one place (a medium) and the file operations in another
//! ([`MemoryEnv`](crate::MemoryEnv)). Both draw the numbers of their events from one [`Recording`], while they hold the
//! lock under which the event happens: put side by side by these numbers the two records are one, in the order in which things
//! happened.
//!
//! Whoever makes the recording may also watch the steps that make things durable or visible ([`Watcher`]): to tell from where in
//! the program each comes, and to leave one out, which a simulator has to notice.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// What makes something durable, or visible: the moments before which a crash is worth looking at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// Cache lines of the fast tier begin to be written back.
    Flush,
    /// A thread waits for what it flushed.
    Fence,
    /// A word of the fast tier is exchanged if it is as expected.
    CompareExchange,
    /// A file's content becomes durable.
    SyncFile,
    /// A directory's names become durable.
    SyncDirectory,
}

/// What a [`Watcher`] says of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// From where in the program it comes: the same number for the same way there.
    pub path: u32,
    /// Whether it is done. If not it still seems to be: a flush that writes nothing back, a sync that makes nothing durable. (A
    /// compare-exchange is always done.)
    pub done: bool,
}

/// Looks at every step as it is about to happen.
pub trait Watcher: Send + Sync {
    /// Called by the thread whose step it is, with locks of the recorder held: it must not come back to the recorder.
    fn see(&self, step: Step) -> Seen;
}

/// The numbers of events, in one order. See the module's essay.
#[derive(Default)]
pub struct Recording {
    next: AtomicU64,
    watcher: Option<Box<dyn Watcher>>,
}

impl Recording {
    /// A recording whose steps nobody watches: all are done, and all come from path 0.
    pub fn new() -> Recording {
        Recording::default()
    }

    /// A recording whose steps are watched.
    pub fn watched_by(watcher: impl Watcher + 'static) -> Recording {
        Recording { next: AtomicU64::new(0), watcher: Some(Box::new(watcher)) }
    }

    /// The number of events so far, of all recorders.
    pub fn moment(&self) -> u64 {
        self.next.load(Ordering::SeqCst)
    }

    /// The number of the event that happens now.
    pub fn draw(&self) -> u64 {
        self.next.fetch_add(1, Ordering::SeqCst)
    }

    /// Shows a step to the watcher.
    pub fn see(&self, step: Step) -> Seen {
        self.watcher.as_ref().map_or(Seen { path: 0, done: true }, |watcher| watcher.see(step))
    }
}

impl fmt::Debug for Recording {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_watched = self.watcher.is_some();
        formatter.debug_struct("Recording").field("moment", &self.moment()).field("watched", &is_watched).finish()
    }
}
