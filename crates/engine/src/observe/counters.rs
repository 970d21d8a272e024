//! What is counted while a store is open.

use slmdb_sync::scheduled::atomic::AtomicU64;

use crate::stall::stall_stats::StallCounters;

/// Counters since the store was opened.
#[derive(Debug, Default)]
pub struct StoreCounters {
    /// Keys and values of batches that were applied, in bytes.
    pub user_bytes_put: AtomicU64,
    /// Bytes written to files, arenas on `Dram` among them.
    pub file_bytes_written: AtomicU64,
    /// Flushes that are committed.
    pub flushes: AtomicU64,
    /// Compactions that are committed.
    pub compactions: AtomicU64,
    /// Bytes that compactions have read.
    pub compaction_bytes_read: AtomicU64,
    /// Bytes that compactions have written, those of outputs that were given up among them.
    pub compaction_bytes_written: AtomicU64,
    /// What writers have waited for, and how long.
    pub stalls: StallCounters,
}
