//! [`OpenTables`]: table files that are held open.

use std::sync::Arc;

use quick_cache::sync::Cache;
use slmdb_table::TableReader;

/// The open table files.
#[derive(Debug)]
pub struct OpenTables(pub(super) Cache<u32, Arc<TableReader>>);

impl OpenTables {
    /// Closes them all, but for those that somebody is just using.
    pub fn close_all(&self) {
        self.0.retain(|_, _| false);
    }
}
