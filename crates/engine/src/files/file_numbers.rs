//! The numbers of table files: given out once, and known while the file is being made.
//!
//! Flushes and compactions make files at the same time, so a number says nothing about which file is newer. Until the
//! MANIFEST has a file, its number is *under way*: whoever compares the directory, the pool or the index with the MANIFEST
//! asks here first.

use std::collections::BTreeSet;

use slmdb_env::{Error, Result};
use slmdb_sync::scheduled::Mutex;

use crate::lock_order;

/// See the module's essay.
#[derive(Debug)]
pub struct FileNumbers {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    next: u32,
    under_way: BTreeSet<u32>,
}

impl FileNumbers {
    /// To go on from `next`.
    pub fn new(next: u32) -> FileNumbers {
        FileNumbers { inner: Mutex::ranked(lock_order::FILE_NUMBERS, Inner { next, under_way: BTreeSet::new() }) }
    }

    /// A number for a file that is to be made: under way until [`FileNumbers::end`].
    pub fn begin(&self) -> Result<u32> {
        let mut inner = self.inner.lock();
        let number = inner.next;
        let Some(next) = number.checked_add(1) else {
            let what = "a store has numbers for 4 billion table files".into();
            return Err(Error::Unsupported { what, file: None });
        };
        inner.next = next;
        inner.under_way.insert(number);
        Ok(number)
    }

    /// The MANIFEST has the file, or nobody will.
    pub fn end(&self, number: u32) {
        self.inner.lock().under_way.remove(&number);
    }

    /// Whether the file is being made, or made and not in the MANIFEST yet.
    pub fn is_under_way(&self, number: u32) -> bool {
        self.inner.lock().under_way.contains(&number)
    }

    /// All that are under way.
    pub fn under_way(&self) -> BTreeSet<u32> {
        self.inner.lock().under_way.clone()
    }
}
