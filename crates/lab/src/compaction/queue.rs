//! [`CompactionQueue`]: when compaction threads look for work, and who waits for them.

use std::time::Duration;

use slmdb_engine::lock_order;
use slmdb_sync::scheduled::{Condvar, Mutex};

/// How long a thread waits before it looks again, if nobody wakes it.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// When compaction threads look for work.
pub(crate) struct CompactionQueue {
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    /// How often there may have come work, or an end of some.
    changes: u64,
    /// Somebody needs level 0 to give way, whatever it has.
    is_space_wanted: bool,
    /// Compactions that are running.
    running: usize,
    is_stopping: bool,
}

impl Default for CompactionQueue {
    fn default() -> CompactionQueue {
        CompactionQueue { inner: Mutex::ranked(lock_order::COMPACTIONS, Inner::default()), changed: Condvar::new() }
    }
}

impl CompactionQueue {
    /// Lets all threads look again.
    /// LOCKS: compactions
    pub(crate) fn wake(&self) {
        self.inner.lock().changes += 1;
        self.changed.notify_all();
    }

    /// Ends the threads.
    /// LOCKS: compactions
    pub(crate) fn stop(&self) {
        self.inner.lock().is_stopping = true;
        self.changed.notify_all();
    }

    /// Whether the threads are to end.
    /// LOCKS: compactions
    pub(crate) fn is_stopping(&self) -> bool {
        self.inner.lock().is_stopping
    }

    /// Asks for a compaction of level 0, for space. Returns whether one runs or will.
    /// LOCKS: compactions
    pub(crate) fn want_space(&self) -> bool {
        let mut inner = self.inner.lock();
        if inner.is_stopping {
            return false;
        }
        let is_new = !inner.is_space_wanted;
        inner.is_space_wanted = true;
        inner.changes += 1;
        self.changed.notify_all();
        is_new || inner.running > 0
    }

    /// Whether somebody wants space.
    /// LOCKS: compactions
    pub(crate) fn is_space_wanted(&self) -> bool {
        self.inner.lock().is_space_wanted
    }

    /// Takes note that a compaction begins.
    /// LOCKS: compactions
    pub(crate) fn begin(&self) {
        self.inner.lock().running += 1;
    }

    /// Takes note that it has ended. `is_exhausted`: nothing can be compacted for space any more.
    /// LOCKS: compactions
    pub(crate) fn end(&self, is_exhausted: bool) {
        let mut inner = self.inner.lock();
        inner.running -= 1;
        inner.is_space_wanted &= !is_exhausted;
        inner.changes += 1;
        self.changed.notify_all();
    }

    /// Waits until something has changed since `seen`, for a while at most. Returns what to compare with next time, or
    /// `None` if the threads are to end.
    /// LOCKS: compactions
    pub(crate) fn wait(&self, seen: u64) -> Option<u64> {
        let mut inner = self.inner.lock();
        if inner.changes == seen && !inner.is_stopping {
            inner = self.changed.wait_timeout(inner, LOOK_AGAIN);
        }
        (!inner.is_stopping).then_some(inner.changes)
    }

    /// Waits while level 0 is full. `false`: the caller gives up.
    /// LOCKS: compactions
    pub(crate) fn wait_for_level_zero(&self, is_full: impl Fn() -> bool, gives_up: impl Fn() -> bool) -> bool {
        let mut seen = 0;
        while is_full() {
            if gives_up() {
                return false;
            }
            self.wake();
            match self.wait(seen) {
                Some(changes) => seen = changes,
                None => return false,
            }
        }
        true
    }
}
