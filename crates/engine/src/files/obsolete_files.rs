//! [`ObsoleteFiles`]: table files that a compaction has taken out of the store, and when they go.
//!
//! The MANIFEST does not name such a file any more, and every entry that counted is in another. Two may still want it: a cursor or a
//! snapshot that sees an old version in it, for which the engine [pins](PinnedFiles) it; and a reader who found a place in it just
//! before. If the file is open already it stays readable; if not, the reader looks the key up again
//! ([`Catalog::is_gone`](super::catalog::Catalog::is_gone)).
//!
//! No lock is held while a file is removed: it may take the disk a while, and whoever drops a cursor does it. What a crash leaves of
//! all this the next opening removes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use slmdb_sync::scheduled::Mutex;
use slmdb_sync::scheduled::atomic::AtomicUsize;

use super::file_names as names;
use super::table_cache::Tables;
use crate::context::StoreContext;
use crate::lock_order;

/// Which files old versions lie in that somebody still sees.
pub trait PinnedFiles: Send + Sync {
    /// Whether one lies in this file. A file that is obsolete and not pinned is never pinned again.
    fn pins(&self, number: u32) -> bool;
}

/// See the module.
pub struct ObsoleteFiles {
    context: Arc<StoreContext>,
    tables: Arc<Tables>,
    pinned: Arc<dyn PinnedFiles>,
    /// Files whose end is about to be in the MANIFEST, or is and they have not come further.
    leaving: Mutex<BTreeSet<u32>>,
    waiting: Mutex<Waiting>,
    /// While it is not 0 no file is removed: a copy of the store is being made.
    holds: AtomicUsize,
}

/// Files that nobody looks for any more, unless an old version is there.
#[derive(Default)]
struct Waiting {
    /// Those that are pinned, or were when they came here.
    pinned: BTreeSet<u32>,
    /// Those that are being removed.
    going: BTreeSet<u32>,
}

impl ObsoleteFiles {
    /// None yet.
    pub fn new(context: Arc<StoreContext>, tables: Arc<Tables>, pinned: Arc<dyn PinnedFiles>) -> ObsoleteFiles {
        ObsoleteFiles {
            context,
            tables,
            pinned,
            leaving: Mutex::ranked(lock_order::RETIRED_LEAVING, BTreeSet::new()),
            waiting: Mutex::ranked(lock_order::RETIRED_WAITING, Waiting::default()),
            holds: AtomicUsize::new(0),
        }
    }

    /// The next record of the MANIFEST gives these files up.
    pub fn announce(&self, numbers: &[u32]) {
        self.leaving.lock().extend(numbers);
    }

    /// The MANIFEST does not name these files any more; `beside` gives up what the engine has of them.
    pub fn retire(&self, numbers: &[u32], beside: impl FnOnce()) {
        self.waiting.lock().pinned.extend(numbers);
        beside();
        self.leaving.lock().retain(|number| !numbers.contains(number));
        self.remove_unpinned();
    }

    /// Removes the files that nobody sees an old version in, or not any more. After a failure nothing is removed.
    pub fn remove_unpinned(&self) {
        let going: BTreeSet<u32> = {
            let mut waiting = self.waiting.lock();
            if self.context.has_failed() || self.holds.load(Ordering::SeqCst) > 0 {
                return;
            }
            let (pinned, going) = waiting.pinned.iter().partition(|number| self.pinned.pins(**number));
            waiting.pinned = pinned;
            waiting.going.extend(&going);
            going
        };
        for number in going {
            let removed = self.context.env.remove_file(&names::table(&self.context.directory, number));
            let mut waiting = self.waiting.lock();
            waiting.going.remove(&number);
            if let Err(error) = removed {
                tracing::warn!(%error, "a compacted table file stays for now");
                // It is tried again with the next.
                waiting.pinned.insert(number);
            }
            drop(waiting);
            // Not before: a reader who has just found a place in it would open it again, and its space would stay taken.
            self.tables.forget(number);
        }
    }

    /// Whether the file is still there, rightly.
    pub fn lingers(&self, number: u32) -> bool {
        let is_waiting = |waiting: &Waiting| waiting.pinned.contains(&number) || waiting.going.contains(&number);
        self.leaving.lock().contains(&number) || is_waiting(&self.waiting.lock())
    }

    /// No obsolete file leaves the directory until what is returned is dropped.
    pub fn hold(&self) -> HeldFiles<'_> {
        // Whoever chooses files to be removed has done so when this lock is had; the MANIFEST names none of them any more.
        let _choosing = self.waiting.lock();
        self.holds.fetch_add(1, Ordering::SeqCst);
        HeldFiles(self)
    }
}

/// See [`ObsoleteFiles::hold`].
#[must_use = "files go at once"]
pub struct HeldFiles<'a>(&'a ObsoleteFiles);

impl Drop for HeldFiles<'_> {
    fn drop(&mut self) {
        self.0.holds.fetch_sub(1, Ordering::SeqCst);
    }
}
