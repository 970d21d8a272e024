//! [`PoolReserve`]: what is kept free in the pool. What flushes take of it at worst (key records, and nodes that may be
//! split), and the key segment of one output of a compaction.

use std::sync::atomic::Ordering;

use slmdb_engine::lock_order;
use slmdb_engine::space::allowance::Grant;
use slmdb_env::Result;
use slmdb_pmem::{AnyMedium, Pool};
use slmdb_structures::KeyLengths;
use slmdb_structures::fast_fair::{Tree, segment_bytes_max};
use slmdb_sync::scheduled::Mutex;
use slmdb_sync::scheduled::atomic::AtomicU64;

/// What is kept free in the pool.
pub(crate) struct PoolReserve {
    /// Lengths of the long keys in the index.
    pub(crate) indexed_keys: Mutex<KeyLengths>,
    /// The most bytes that a key segment takes, among table files that count for the reserve.
    pub(super) segment_bytes: AtomicU64,
}

impl PoolReserve {
    /// For a store with these long keys.
    pub(crate) fn new(indexed: KeyLengths) -> PoolReserve {
        PoolReserve { indexed_keys: Mutex::ranked(lock_order::INDEXED_KEYS, indexed), segment_bytes: AtomicU64::new(0) }
    }

    /// Bytes that are reserved for an output's key segment.
    pub(crate) fn segment_bytes(&self) -> u64 {
        self.segment_bytes.load(Ordering::Relaxed)
    }
}

/// The bytes that flushing a grant takes of the pool at most, and the size of their pieces. `indexed`: the long keys in
/// the index.
fn pool_bytes(tree: &Tree<AnyMedium>, grant: &Grant, indexed: KeyLengths) -> Result<(u64, u64)> {
    let Grant { totals, memtables } = grant;
    let mut keys = totals.long_keys();
    keys.add_all(indexed);
    let piece_bytes = tree.piece_bytes(keys);
    let segments = segment_bytes_max(totals.entries, totals.key_bytes, totals.longest_key_bytes, piece_bytes)
        + memtables * piece_bytes;
    Ok((segments + tree.node_bytes_max(totals.entries, keys)?, piece_bytes))
}

/// Sets aside in the pool what flushing a grant takes, and `kept_back_bytes` for a compaction.
/// [`Error::Full`] if it is not there.
/// LOCKS: pool grant (held), in an open store
pub(crate) fn reserve(
    pool: &Pool<AnyMedium>,
    tree: &Tree<AnyMedium>,
    grant: &Grant,
    indexed: KeyLengths,
    kept_back_bytes: u64,
) -> Result<()> {
    let (bytes, piece_bytes) = pool_bytes(tree, grant, indexed)?;
    let bytes = bytes + kept_back_bytes.next_multiple_of(piece_bytes);
    // First lowered to the part that is free, so that raising it finds out what is missing.
    pool.set_reserve(pool.reserve_free_bytes().min(bytes), piece_bytes)?;
    pool.set_reserve(bytes, piece_bytes)
}
