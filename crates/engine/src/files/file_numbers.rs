//! [`FileNumbers`]: gives each table file a number, and knows which files are being made.
//!
//! Flushes and compactions make files at the same time, so a number does not say which file is newer. Until the
//! MANIFEST has a file, its number is *under way*. A check that compares the directory, the pool or the index with
//! the MANIFEST asks for those first (INV-20).

use std::collections::BTreeSet;

use slmdb_env::{Error, Result};
use slmdb_sync::scheduled::Mutex;

use crate::lock_order;

/// Gives each table file a number, and knows which files are being made.
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
    /// Numbers from `next` on.
    pub fn new(next: u32) -> FileNumbers {
        FileNumbers { inner: Mutex::ranked(lock_order::FILE_NUMBERS, Inner { next, under_way: BTreeSet::new() }) }
    }

    /// Takes a number for a new file. It is under way until [`FileNumbers::end`].
    /// [`Error::Unsupported`]: all numbers are used up.
    /// LOCKS: file numbers
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

    /// Ends the making of a file that was given up. (The catalog does that for those that the MANIFEST gets.)
    /// LOCKS: file numbers
    pub fn end(&self, number: u32) {
        self.inner.lock().under_way.remove(&number);
    }

    /// Whether the file is being made, or is made and not in the MANIFEST yet.
    /// LOCKS: file numbers
    pub fn is_under_way(&self, number: u32) -> bool {
        self.inner.lock().under_way.contains(&number)
    }

    /// The numbers that are under way.
    /// LOCKS: file numbers
    pub fn under_way(&self) -> BTreeSet<u32> {
        self.inner.lock().under_way.clone()
    }
}
