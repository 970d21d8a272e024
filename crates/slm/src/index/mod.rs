//! Section 3.2: the B+-tree index in persistent memory, the compaction log, and what readers still see of the past.

pub(crate) mod in_memory;
pub(crate) mod in_pool;
pub(crate) mod index_iterator;
pub(crate) mod key_index;

use std::panic::resume_unwind;
use std::sync::Arc;

use slmdb_engine::background::workers::spawn_scoped;
use slmdb_engine::directory::pool_binding;
use slmdb_engine::files::location::Location;
use slmdb_engine::lock_order;
use slmdb_engine::read::snapshots;
use slmdb_engine::{DramIndex, Options};
use slmdb_env::Result;
use slmdb_manifest::StoreState;
use slmdb_pmem::{AnyMedium, Pool};
use slmdb_sync::scheduled::{Mutex, thread};

use self::in_memory::MemoryIndex;
use self::key_index::KeyIndex;

/// What readers of earlier moments still see.
pub(crate) type Snapshots = snapshots::Snapshots<Location>;

/// An index that has just been opened or made, and the store's pool.
pub(crate) struct OpenIndex {
    pub(crate) pool: Arc<Pool<AnyMedium>>,
    pub(crate) keys: Box<dyn KeyIndex>,
}

impl OpenIndex {
    /// This index.
    pub(crate) fn new(pool: Arc<Pool<AnyMedium>>, keys: impl KeyIndex + 'static) -> OpenIndex {
        OpenIndex { pool, keys: Box::new(keys) }
    }
}

/// An empty index in plain memory, which recovery fills.
pub(crate) fn in_plain_memory(options: &Options, state: &StoreState) -> Result<OpenIndex> {
    if !has_memory_tree(options) {
        return in_pool::open::with_index(pool_binding::in_memory(options, state)?, options);
    }
    let pool_initial_bytes = options.pool_initial_bytes.min(EMPTY_POOL_BYTES);
    let pool = pool_binding::in_memory(&Options { pool_initial_bytes, ..options.clone() }, state)?;
    Ok(OpenIndex::new(Arc::new(pool), MemoryIndex::new()?))
}

/// The length of a pool in plain memory that has no index, in bytes: less than a large page, of which the first byte would take all.
const EMPTY_POOL_BYTES: u64 = 1 << 20;

/// Whether the index in plain memory is a tree made for that.
pub(crate) fn has_memory_tree(options: &Options) -> bool {
    options.dram_index == DramIndex::MemoryTree && options.comparator.is_bytewise()
}

/// Does the work for each part on a thread of its own, and returns what comes of them in order.
fn side_by_side<P: Send, T: Send>(
    parts: impl IntoIterator<Item = P>,
    work: impl Fn(P) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let work = &work;
    thread::scope(|scope| {
        let working = parts.into_iter().map(|part| spawn_scoped(scope, move || work(part)));
        let working: Vec<_> = working.collect::<Result<_>>()?;
        working.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    })
}

/// The index of an open store, and its pool.
pub(crate) struct Index {
    pub(crate) pool: Arc<Pool<AnyMedium>>,
    pub(crate) keys: Box<dyn KeyIndex>,
    pub(crate) snapshots: Snapshots,
    /// Held from the first swing of a job until its commit, and wherever index and MANIFEST must agree (INV-16). If it
    /// is `true`, they don't: a job was given up in between, and the next opening carries it on.
    pub(crate) indexing: Mutex<bool>,
}

impl Index {
    /// The index of a store that has just been recovered.
    pub(crate) fn new(open: OpenIndex) -> Index {
        let OpenIndex { pool, keys } = open;
        Index {
            snapshots: Snapshots::new(keys.order().clone()),
            pool,
            keys,
            indexing: Mutex::ranked(lock_order::INDEXING, false),
        }
    }

    /// Where the version of `key` is that `moment` sees, if it is in a table file. The index is asked before the map of
    /// replaced records: a version may move from the index to the map in between, never the other way (INV-12).
    /// LOCKS: snapshots
    pub(crate) fn location_at(&self, key: &[u8], moment: u64) -> Result<Option<Location>> {
        let seen = self.keys.get(key)?.filter(|location| location.sequence <= moment);
        Ok(seen.or_else(|| self.snapshots.replaced(key, moment)))
    }
}
