//! Table files that a compaction has taken out of the store: when they go.
//!
//! Once the MANIFEST does not name a file any more, the index does not point into it: every entry that counted is in
//! another file. Three may still want something of it.
//!
//! - A cursor or a snapshot, which sees an old version in it: the map of replaced records names it, and *pins* the file. It
//!   goes with the last pin.
//! - A reader who found a place in it just before. If the file is open already it stays readable; if not, the reader
//!   looks the key up again ([`Store::is_gone`]).
//! - A reader who stands on a key record of its segment. The segment's extents go back to the pool when no epoch guard is
//!   left that was there before.
//!
//! No lock is held while a file is removed: it may take the disk a while, and who drops a cursor does it.
//!
//! What a crash leaves of all this the next opening removes: the MANIFEST does not name it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use slmdb_engine::files::file_names as names;
use slmdb_pmem::{ExtentKind, Medium};
use slmdb_sync::epoch;
use slmdb_sync::scheduled::Instant;

use crate::store::Store;

impl<M: Medium + Clone> Store<M> {
    /// Gives up files that the MANIFEST does not name any more.
    pub(crate) fn retire_files(&self, numbers: &[u32]) {
        self.retired.waiting.lock().pinned.extend(numbers);
        self.retire_segments(numbers);
        self.retired.leaving.lock().retain(|number| !numbers.contains(number));
        self.sweep_retired();
    }

    /// Removes the retired files that nobody sees an old version in, or not any more. (After a failure nothing is removed.)
    pub(crate) fn sweep_retired(&self) {
        let going: BTreeSet<u32> = {
            let mut waiting = self.retired.waiting.lock();
            if self.has_failed() || self.retired.holds.load(Ordering::SeqCst) > 0 {
                return;
            }
            let (pinned, going) = waiting.pinned.iter().partition(|number| self.snapshots.pins(**number));
            waiting.pinned = pinned;
            waiting.going.extend(&going);
            going
        };
        for number in going {
            let removed = self.env.remove_file(&names::table(&self.directory, number));
            let mut waiting = self.retired.waiting.lock();
            waiting.going.remove(&number);
            if let Err(error) = removed {
                tracing::warn!(%error, "a compacted table file stays for now");
                // It is tried again with the next.
                waiting.pinned.insert(number);
            }
            drop(waiting);
            // Not before: who has just found a place in it would open it again, and its space would stay taken.
            self.tables.forget(number);
        }
    }

    /// There is space, or garbage: what found none is to be tried again.
    pub(crate) fn space_came_back(&self) {
        self.compactions.wake();
        self.writes.traffic.lock().space_returned += 1;
        self.tell_who_waits_for_space();
    }

    /// Frees the key segments once nobody can be reading there.
    fn retire_segments(&self, numbers: &[u32]) {
        let is_theirs = |owner: u32| numbers.contains(&owner);
        let extents = self.pool.extents().into_iter();
        let offsets: Vec<u64> = extents
            .filter(|extent| extent.kind == ExtentKind::KeySegment && is_theirs(extent.owner))
            .map(|extent| extent.offset)
            .collect();
        let now = Instant::now();
        self.retired.segments.lock().extend(numbers.iter().map(|&number| (number, now)));
        // Weak: what is deferred must neither keep a closed pool mapped nor touch one that has been opened again.
        let (pool, numbers) = (Arc::downgrade(&self.pool), numbers.to_vec());
        let (segments, returned) = (self.retired.segments.clone(), self.retired.returned.clone());
        let guard = epoch::pin();
        guard.defer(move || {
            let Some(pool) = pool.upgrade() else { return };
            for offset in offsets {
                // In a pool whose use has ended it is for the next opening.
                if let Err(error) = pool.free_extent(offset) {
                    tracing::warn!(%error, "a key segment stays for now");
                }
            }
            // In this order: who still sees them waits for them, and who does not sees that they have gone.
            returned.fetch_add(1, Ordering::Release);
            segments.lock().retain(|number, _| !numbers.contains(number));
        });
        guard.flush();
    }

    /// Whether a file has been taken out of the store: what was in it is elsewhere now.
    pub(crate) fn is_gone(&self, number: u32) -> bool {
        !self.file_numbers.is_under_way(number) && !self.catalog.lock().state().files.contains_key(&number)
    }
}

#[cfg(test)]
mod tests;
