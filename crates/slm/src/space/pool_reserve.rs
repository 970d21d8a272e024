//! [`PoolReserve`]: what is kept free in the pool. What flushes take of it at worst (key records, and nodes that may be
//! split), and the key segment of one output of a compaction.

use std::sync::atomic::Ordering;

use slmdb_engine::lock_order;
use slmdb_structures::KeyLengths;
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
