//! [`OpenTables`]: table files that are held open.

use std::sync::Arc;

use quick_cache::sync::Cache;
use slmdb_table::TableReader;

/// The open table files.
#[derive(Debug)]
pub struct OpenTables(pub(super) Cache<u32, Arc<TableReader>>);

impl OpenTables {
    /// Closes all of them. One that is being read is closed when the read has ended.
    pub fn close_all(&self) {
        self.0.retain(|_, _| false);
    }
}
