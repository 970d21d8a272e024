//! [`LeafScan`]: where the next leaf node scan begins.

use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};

use slmdb_engine::lock_order;
use slmdb_sync::scheduled::Mutex;

/// Where the next leaf node scan begins, and counts of scans.
#[derive(Debug)]
pub(crate) struct LeafScan {
    /// Where the next scan begins.
    pub(crate) from: Mutex<Bound<Vec<u8>>>,
    pub(crate) scans: AtomicU64,
    pub(crate) keys: AtomicU64,
}

impl Default for LeafScan {
    fn default() -> LeafScan {
        LeafScan {
            from: Mutex::ranked(lock_order::LEAF_NODE_SCAN, Bound::Unbounded),
            scans: AtomicU64::new(0),
            keys: AtomicU64::new(0),
        }
    }
}

impl LeafScan {
    /// Number of scans, and of keys that they covered.
    pub(crate) fn counted(&self) -> (u64, u64) {
        (self.scans.load(Ordering::Relaxed), self.keys.load(Ordering::Relaxed))
    }
}
