//! Commits: the records of the MANIFEST, one at a time; and background jobs that wait for the space to do what comes before them.

use std::sync::atomic::Ordering;
use std::time::Duration;

use slmdb_engine::events::SpaceFor;
use slmdb_engine::write::memtables::FlushSetback;
use slmdb_env::{Error, Result};
use slmdb_manifest::{Edit, Manifest, StoreState};
use slmdb_pmem::Medium;
use slmdb_sync::scheduled::Instant;

use crate::store::{Catalog, Store};

/// How long a flush waits before it tries a full disk again: at first, and at most. (It doubles each time.)
const FULL_DISK_RETRY_FIRST: Duration = Duration::from_millis(1);
const FULL_DISK_RETRY_MAX: Duration = Duration::from_millis(200);

impl<M: Medium + Clone> Store<M> {
    /// Appends to the MANIFEST. Nothing has happened of what may be tried again; any other failure stops all writing.
    pub(crate) fn commit(&self, make: impl FnOnce(&StoreState) -> Edit) -> Result<()> {
        let mut catalog = self.catalog.lock();
        let Catalog::Manifest(manifest) = &mut *catalog else {
            return Err(Error::ReadOnly { cause: "it was opened for reading alone".into() });
        };
        let mut edit = make(manifest.state());
        let before = manifest.length_bytes();
        edit.lifetime = Some(self.lifetime());
        self.candidates.before_commit(manifest.state(), &mut edit, self.checkpoints.deletes_droppable_through());
        let mut appended = manifest.settle(&*self.env).and_then(|()| manifest.append(&edit));
        let was_full = matches!(appended, Err(Error::Full { .. }));
        while matches!(appended, Err(Error::Full { .. })) && self.lower_ballast()? {
            appended = manifest.append(&edit);
        }
        self.candidates.after_commit(&edit, appended.is_ok());
        self.counted.file_bytes_written.fetch_add(manifest.length_bytes().saturating_sub(before), Ordering::Relaxed);
        if appended.is_ok() {
            appended = self.renew_if_long(manifest, was_full).map(|is_new| {
                let written_bytes = if is_new { manifest.length_bytes() } else { 0 };
                self.counted.file_bytes_written.fetch_add(written_bytes, Ordering::Relaxed);
            });
        }
        self.manifest_bytes.store(manifest.length_bytes(), Ordering::Relaxed);
        let may_be_tried_again =
            appended.as_ref().is_err_and(Error::may_be_tried_again) && manifest.check_writable().is_ok();
        drop(catalog);
        if let (Err(error), false) = (&appended, may_be_tried_again) {
            self.fail(error.clone());
        }
        appended
    }

    /// Puts a shorter MANIFEST in the place of one that has grown long; says whether it has. On a full disk it is long
    /// sooner, and the new one is written in the ballast, which is for that, and which what the long one took fills again.
    fn renew_if_long(&self, manifest: &mut Manifest, was_full: bool) -> Result<bool> {
        if !manifest.is_long(was_full) {
            return Ok(false);
        }
        let before_bytes = match self.lend_ballast() {
            // Whoever commits has done so: he must not be told that nothing has happened.
            Err(error) if error.may_be_tried_again() => return Ok(false),
            lent => lent?,
        };
        let renewed = manifest.renew_if_long(&*self.env, was_full);
        self.take_ballast_back(before_bytes)?;
        renewed
    }

    /// A step of a background job that may find the disk or the pool full, or [lack](crate::space::passing_lacks)
    /// something, and has then done nothing that could not be done again: tried until there is what it takes, or the store
    /// closes or has failed. Those who wait for the job are told.
    pub(crate) fn when_there_is_space<T>(&self, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
        let mut was_set_back = false;
        let mut pause = FULL_DISK_RETRY_FIRST;
        loop {
            let cause = match attempt() {
                Err(cause) if cause.may_be_tried_again() => cause,
                done => {
                    if was_set_back {
                        self.writes.traffic.lock().flush_setback = None;
                        self.writes.events.space_found(SpaceFor::Job);
                    }
                    return done;
                }
            };
            was_set_back = true;
            tracing::warn!(%cause, "a flush waits for space, or whatever else it lacks");
            let mut traffic = self.writes.traffic.lock();
            traffic.setbacks.record_flush(cause.clone());
            self.writes.events.space_refused(SpaceFor::Job, &cause);
            let since = traffic.flush_setback.as_ref().map_or_else(Instant::now, |before| before.since);
            traffic.flush_setback = Some(FlushSetback { cause: cause.clone(), since });
            if !cause.is_passing_lack() {
                self.may_make_room(&cause, true);
            }
            self.writes.room.notify_all();
            self.writes.work.notify_all();
            // Not at every word: two jobs that wait would wake each other without end.
            let (since, space_returned) = (Instant::now(), self.space_returned(&traffic));
            while !traffic.closing && !self.has_failed() && self.space_returned(&traffic) == space_returned {
                let Some(left) = pause.checked_sub(since.elapsed()) else { break };
                traffic = self.writes.work.wait_timeout(traffic, left);
            }
            if traffic.closing || self.has_failed() {
                return Err(cause);
            }
            pause = (2 * pause).min(FULL_DISK_RETRY_MAX);
        }
    }
}
