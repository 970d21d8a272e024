//! When a pool file may grow that lies on the same file system as the store.
//!
//! It grows for good. So what it takes must not be what the [reserve](super::reserve) has to have again: that leads out
//! of a full disk. While a compaction has the reserve, or has not yet put it back whole, there may be space that is
//! free for a moment only. Then only what a flush of accepted writes needs lets the pool grow.

use std::sync::Arc;

use slmdb_env::Result;
use slmdb_pmem::pool::{GrowthGuard, Pool};
use slmdb_pmem::{AnyMedium, Medium};

use super::reserve::Reserve;
use crate::context::StoreContext;

/// From now on this pool grows only while the reserve is whole, if both take of the same space. (A store that is opened for
/// reading has no reserve, and its pool grows in memory.)
pub fn guard_growth(pool: &Pool<AnyMedium>, reserve: &Arc<Reserve>, context: &StoreContext) {
    let takes_writes = !context.options.read_only;
    if pool.medium().is_persistent() && takes_writes && context.env.shares_space(pool.path(), &context.directory) {
        pool.guard_growth(reserve.clone());
    }
}

impl GrowthGuard for Reserve {
    /// LOCKS: reserve, reserved file
    fn grow(&self, grow: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.while_whole(0, grow)
    }
}
