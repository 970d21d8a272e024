//! [`Mapping`]: a mapping of a table file. How it is read from is in `mapped`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use slmdb_env::Mapped;

/// A mapping of a table file, and what has been found out about it.
#[derive(Debug)]
pub(crate) struct Mapping {
    pub(crate) mapped: Arc<dyn Mapped>,
    /// Whether a block was compressed: then others are, too.
    pub(crate) has_compressed: AtomicBool,
}

impl Mapping {
    pub(crate) fn note_compressed(&self) {
        // Looking first saves a write to memory that all readers share.
        if !self.has_compressed.load(Ordering::Relaxed) {
            self.has_compressed.store(true, Ordering::Relaxed);
        }
    }
}
