//! What is counted while a store is open.

use slmdb_sync::scheduled::atomic::AtomicU64;

use crate::stall::stall_stats::StallCounters;

/// Counters since the store was opened.
#[derive(Debug, Default)]
pub struct StoreCounters {
    /// Bytes of keys and values of applied batches.
    pub user_bytes_put: AtomicU64,
    /// Bytes written to files, including arenas on `Dram`.
    pub file_bytes_written: AtomicU64,
    /// Committed flushes.
    pub flushes: AtomicU64,
    /// Committed compactions.
    pub compactions: AtomicU64,
    /// Bytes that compactions have read.
    pub compaction_bytes_read: AtomicU64,
    /// Bytes that compactions have written, including outputs that were given up.
    pub compaction_bytes_written: AtomicU64,
    /// What writers have waited for, and how long.
    pub stalls: StallCounters,
}
