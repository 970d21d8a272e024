//! How damage of a tree is told.

use slmdb_env::Error;
use slmdb_pmem::{Medium, Pool};

#[cold]
pub(super) fn damaged<M: Medium>(pool: &Pool<M>, offset: u64, what: &str) -> Error {
    Error::corruption(pool.path(), offset, what)
}
