//! Section 3.2: the B+-tree index in persistent memory, the compaction log, and what readers still see of the past.

pub(crate) mod compaction_log;
pub(crate) mod index_iterator;
pub(crate) mod insertion;
pub(crate) mod key_segments;
pub(crate) mod location;
pub(crate) mod replaced_records;
pub(crate) mod retired_segments;
pub(crate) mod snapshots;

use std::sync::Arc;

use slmdb_engine::files::location::Location;
use slmdb_engine::lock_order;
use slmdb_env::{Lock, Result};
use slmdb_pmem::{Medium, Pool};
use slmdb_structures::fast_fair::Tree;
use slmdb_sync::epoch;
use slmdb_sync::scheduled::Mutex;

use self::compaction_log::CompactionLog;
use self::retired_segments::RetiredSegments;
use self::snapshots::Snapshots;

/// The index of an open store, in its pool; and the use of both, which ends with it.
pub(crate) struct Index<M: Medium> {
    pub(crate) pool: Arc<Pool<M>>,
    pub(crate) tree: Tree<M>,
    pub(crate) jobs: CompactionLog,
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) segments: RetiredSegments<M>,
    /// Held from the first swing of a job until its commit, and by whoever must see the index and the MANIFEST agree. They
    /// don't where it says `true`: a job was given up in between, and the next opening carries it on.
    pub(crate) indexing: Mutex<bool>,
    /// Released when the last cursor and the last handle are gone.
    _lock: Option<Box<dyn Lock>>,
}

impl<M: Medium + Clone> Index<M> {
    /// That of a store that has just been recovered.
    pub(crate) fn new(pool: Arc<Pool<M>>, tree: Tree<M>, jobs: CompactionLog, lock: Option<Box<dyn Lock>>) -> Index<M> {
        Index {
            snapshots: Arc::new(Snapshots::new(tree.order().clone())),
            segments: RetiredSegments::new(&pool),
            pool,
            tree,
            jobs,
            indexing: Mutex::ranked(lock_order::INDEXING, false),
            _lock: lock,
        }
    }

    /// Where the version of `key` is that a moment sees, if it is in a table file. The index is asked first: a version may
    /// move from there to the map of replaced records in between, never the other way.
    pub(crate) fn location_at(&self, key: &[u8], moment: u64) -> Result<Option<Location>> {
        let in_index = {
            let guard = epoch::pin();
            self.tree.get(key, &guard)?.map(|record| location::location(&record))
        };
        let seen = in_index.filter(|location| location.sequence <= moment);
        Ok(seen.or_else(|| self.snapshots.replaced(key, moment)))
    }
}

impl<M: Medium> Drop for Index<M> {
    /// Before the lock is released. (After a clean close there is nothing left to be done.)
    fn drop(&mut self) {
        self.pool.end();
    }
}
