//! [`ObsoleteFiles`]: table files that a compaction has taken out of the store, until they are removed.
//!
//! The MANIFEST no longer names such a file, and all its valid entries are in other files. Two readers may still need
//! it:
//!
//! - A cursor or a snapshot may see an old version in it. The engine [pins](PinnedFiles) the file for that (INV-19).
//! - A reader may have found a place in it just before. If the file is open, it stays readable. If not, the reader
//!   looks the key up again ([`Catalog::is_gone`](super::catalog::Catalog::is_gone)).
//!
//! No lock is held while a file is removed, because that may take the disk a while. It is the thread that drops a cursor
//! which does it, or a compaction thread that has nothing else to do. The next opening removes what a crash leaves behind.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use slmdb_sync::scheduled::Mutex;
use slmdb_sync::scheduled::atomic::AtomicUsize;

use super::file_names as names;
use super::table_cache::Tables;
use crate::context::StoreContext;
use crate::lock_order;

/// Which files hold old versions that a cursor or a snapshot still sees.
pub trait PinnedFiles: Send + Sync {
    /// Whether this file does. A file that is obsolete and not pinned is never pinned again.
    fn pins(&self, number: u32) -> bool;
}

/// Table files that a compaction has taken out of the store, until they are removed.
pub struct ObsoleteFiles {
    context: Arc<StoreContext>,
    tables: Arc<Tables>,
    pinned: Arc<dyn PinnedFiles>,
    /// Files that the MANIFEST is about to give up, or has given up just now.
    leaving: Mutex<BTreeSet<u32>>,
    waiting: Mutex<Waiting>,
    /// While this is not 0, no file is removed, because a copy of the store is being made.
    holds: AtomicUsize,
}

/// Files that the MANIFEST has given up.
#[derive(Default)]
struct Waiting {
    /// Files that are pinned, or have not been looked at yet.
    pinned: BTreeSet<u32>,
    /// Files that are being removed.
    going: BTreeSet<u32>,
}

impl ObsoleteFiles {
    /// No file is obsolete yet.
    pub fn new(context: Arc<StoreContext>, tables: Arc<Tables>, pinned: Arc<dyn PinnedFiles>) -> ObsoleteFiles {
        ObsoleteFiles {
            context,
            tables,
            pinned,
            leaving: Mutex::ranked(lock_order::OBSOLETE_LEAVING, BTreeSet::new()),
            waiting: Mutex::ranked(lock_order::OBSOLETE_WAITING, Waiting::default()),
            holds: AtomicUsize::new(0),
        }
    }

    /// Announces that the next record of the MANIFEST gives these files up.
    /// LOCKS: obsolete files, leaving
    pub fn announce(&self, numbers: &[u32]) {
        self.leaving.lock().extend(numbers);
    }

    /// Takes over files that the MANIFEST no longer names. `beside` gives up what the engine has for them.
    /// LOCKS: obsolete files, waiting; obsolete files, leaving; those of [`ObsoleteFiles::remove_unpinned`]
    pub fn retire(&self, numbers: &[u32], beside: impl FnOnce()) {
        self.waiting.lock().pinned.extend(numbers);
        beside();
        self.leaving.lock().retain(|number| !numbers.contains(number));
        self.remove_unpinned();
    }

    /// Removes the files that are not pinned. Returns whether any is gone. After the store has failed, nothing is
    /// removed (INV-27).
    /// LOCKS: obsolete files, waiting, snapshots
    pub fn remove_unpinned(&self) -> bool {
        let going: BTreeSet<u32> = {
            let mut waiting = self.waiting.lock();
            if self.context.has_failed() || self.holds.load(Ordering::SeqCst) > 0 {
                return false;
            }
            let (pinned, going) = waiting.pinned.iter().partition(|number| self.pinned.pins(**number));
            waiting.pinned = pinned;
            waiting.going.extend(&going);
            going
        };
        let mut has_removed = false;
        for number in going {
            let removed = self.context.env.remove_file(&names::table(&self.context.directory, number));
            has_removed |= removed.is_ok();
            let mut waiting = self.waiting.lock();
            waiting.going.remove(&number);
            if let Err(error) = removed {
                tracing::warn!(%error, "a compacted table file stays for now");
                // The next call tries again.
                waiting.pinned.insert(number);
            }
            drop(waiting);
            // Not before: a reader that has just found a place in it would open it again, and its space would stay
            // taken.
            self.tables.forget(number);
        }
        has_removed
    }

    /// Whether an obsolete file may still be in the directory.
    /// LOCKS: obsolete files, leaving; obsolete files, waiting
    pub fn lingers(&self, number: u32) -> bool {
        let is_waiting = |waiting: &Waiting| waiting.pinned.contains(&number) || waiting.going.contains(&number);
        self.leaving.lock().contains(&number) || is_waiting(&self.waiting.lock())
    }

    /// Keeps obsolete files in the directory until the returned guard is dropped.
    /// LOCKS: obsolete files, waiting
    pub fn hold(&self) -> HeldFiles<'_> {
        // A thread that chooses files to remove does so under this lock. So it has ended, and the MANIFEST names none
        // of its files.
        let _choosing = self.waiting.lock();
        self.holds.fetch_add(1, Ordering::SeqCst);
        HeldFiles(self)
    }
}

/// Keeps obsolete files in the directory; see [`ObsoleteFiles::hold`].
#[must_use = "files are removed once this is dropped"]
pub struct HeldFiles<'a>(&'a ObsoleteFiles);

impl Drop for HeldFiles<'_> {
    fn drop(&mut self) {
        self.0.holds.fetch_sub(1, Ordering::SeqCst);
    }
}
