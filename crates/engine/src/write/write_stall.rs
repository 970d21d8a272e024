//! [`WriteStall`]: a waiting writer, with the events and counters that report it.

use slmdb_env::Env;
use slmdb_sync::scheduled::{Condvar, MutexGuard};

use crate::events::delivery::Events;
use crate::stall::stall_stats::{StallCause, StallCounters};

/// What a writer waits for, from its first wait until it goes on or gives up. It may be woken many times meanwhile.
pub(super) struct WriteStall<'s> {
    /// How many errors for want of space there were before. Only later ones concern the writer.
    pub(super) errors_before: u64,
    /// The condition that writers wait on.
    pub(super) work_done: &'s Condvar,
    pub(super) env: &'s dyn Env,
    pub(super) events: &'s Events,
    pub(super) counters: &'s StallCounters,
    /// What it waits for, once it does.
    pub(super) waits_for: Option<StallCause>,
}

impl WriteStall<'_> {
    /// Waits until something changes that may let the writer go on, and counts the time.
    pub(super) fn wait<'a, T>(&mut self, guard: MutexGuard<'a, T>, waits_for: StallCause) -> MutexGuard<'a, T> {
        let start_ns = self.env.monotonic_ns();
        if self.waits_for != Some(waits_for) {
            self.end(start_ns);
            self.events.stall_began(waits_for, start_ns);
            self.waits_for = Some(waits_for);
        }
        let guard = self.work_done.wait(guard);
        self.counters.add(waits_for, self.env.monotonic_ns() - start_ns);
        guard
    }

    fn end(&mut self, now_ns: u64) {
        if let Some(waits_for) = self.waits_for.take() {
            self.events.stall_ended(waits_for, now_ns);
        }
    }
}

impl Drop for WriteStall<'_> {
    fn drop(&mut self) {
        if self.waits_for.is_some() {
            self.end(self.env.monotonic_ns());
        }
    }
}
