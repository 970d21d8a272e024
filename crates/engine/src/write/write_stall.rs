//! [`Delay`]: a writer that waits, and who is told of it.

use slmdb_pmem::Medium;
use slmdb_sync::scheduled::MutexGuard;

use crate::stall::stall_stats::WaitFor;
use crate::write::memtables::Traffic;
use crate::write::write_path::WritePath;

/// What a writer waits for, from its first wait until it goes on, or gives up. It may be woken many times meanwhile.
pub(crate) struct Delay<'s, M: Medium + Clone> {
    writes: &'s WritePath<M>,
    waits_for: Option<WaitFor>,
}

impl<'s, M: Medium + Clone> Delay<'s, M> {
    /// It does not wait yet.
    pub(crate) fn none(writes: &'s WritePath<M>) -> Delay<'s, M> {
        Delay { writes, waits_for: None }
    }

    /// Waits until something changes that may let the writer go on.
    pub(crate) fn wait(
        &mut self,
        traffic: MutexGuard<'s, Traffic<M>>,
        waits_for: WaitFor,
    ) -> MutexGuard<'s, Traffic<M>> {
        let start_ns = self.writes.env.monotonic_ns();
        if self.waits_for != Some(waits_for) {
            self.end(start_ns);
            self.writes.events.delay_began(waits_for, start_ns);
            self.waits_for = Some(waits_for);
        }
        let traffic = self.writes.room.wait(traffic);
        self.writes.counted.waits.add(waits_for, self.writes.env.monotonic_ns() - start_ns);
        traffic
    }

    fn end(&mut self, now_ns: u64) {
        if let Some(waits_for) = self.waits_for.take() {
            self.writes.events.delay_ended(waits_for, now_ns);
        }
    }
}

impl<M: Medium + Clone> Drop for Delay<'_, M> {
    fn drop(&mut self) {
        if self.waits_for.is_some() {
            self.end(self.writes.env.monotonic_ns());
        }
    }
}
