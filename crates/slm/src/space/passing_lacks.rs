//! What the system lacks for a moment (descriptors, memory): what waits for it, and how long.
//!
//! A file that could not be opened, or an arena that could not be mapped, is no failure of what is on the disk: nothing has
//! happened yet ([`Error::is_passing_lack`]). So it is tried again, as on a full disk: a flush waits for as long as it takes, and
//! whoever waits for the flush gets the error; nobody else does, and the store goes on.

use std::time::Duration;

use slmdb_env::{Error, Result};
use slmdb_pmem::Medium;
use slmdb_sync::scheduled::thread;

use crate::store::Store;

/// How often what a writer waits for is tried again before the writer is told, and how long after the first time; then twice as
/// long each time: 31 ms in all.
const ATTEMPTS_MAX: u32 = 5;
const PAUSE_FIRST: Duration = Duration::from_millis(1);

impl<M: Medium + Clone> Store<M> {
    /// Tries a few times more what lacks something. The caller holds no lock.
    pub(crate) fn patiently<T>(&self, attempt: impl Fn() -> Result<T>) -> Result<T> {
        for number in 0..ATTEMPTS_MAX {
            match attempt() {
                Err(lack) if lack.is_passing_lack() && !self.gives_up() => {
                    tracing::warn!(%lack, "trying again soon");
                    thread::sleep(PAUSE_FIRST * 2_u32.pow(number));
                }
                done => return done,
            }
        }
        attempt()
    }

    /// A writer that waits is told what is lacking; the ahead thread has nothing to do until the next asks.
    pub(crate) fn tell_of_lack(&self, lack: Error) {
        let mut traffic = self.writes.traffic.lock();
        tracing::warn!(%lack, "writers that wait get this error");
        traffic.setbacks.record_lack(lack);
        traffic.spare_wanted_bytes = 0;
        traffic.spare_waited_for = false;
        traffic.space_wanted = None;
        self.writes.room.notify_all();
    }
}
