//! [`GrowthGuard`]: who is asked before a pool grows.

use slmdb_env::Result;

/// Decides whether a pool may take more of its file system. It is asked under a lock of the pool, so it must not use the
/// pool.
pub trait GrowthGuard: Send + Sync {
    /// Runs `grow`, once; or returns [`Error::Full`](slmdb_env::Error::Full) instead, or another error that may be tried again, and the pool is full
    /// for now.
    fn grow(&self, grow: &mut dyn FnMut() -> Result<()>) -> Result<()>;
}
