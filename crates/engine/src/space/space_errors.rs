//! [`SpaceErrors`]: the last out-of-space error of each kind. A waiting writer fails if its own request, or a smaller
//! one, was refused since it began to wait; no other does. A write that is too large for the disk is no reason to
//! refuse a small one, or to say that a running flush has failed.

use slmdb_env::{Error, Result};

use crate::space::admission::Wanted;

/// The last error of each kind, with its number.
#[derive(Debug, Default)]
pub struct SpaceErrors {
    count: u64,
    flush: Option<(u64, Error)>,
    memtable: Option<(u64, u64, Error)>,
    space: Option<(u64, Wanted, Error)>,
    lack: Option<(u64, Error)>,
}

impl SpaceErrors {
    /// Number of errors so far, for a writer that begins to wait.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Records that a flush found no space. It goes on trying.
    pub fn record_flush(&mut self, cause: Error) {
        self.count += 1;
        self.flush = Some((self.count, cause));
    }

    /// Records that there was no space for a MemTable of this capacity.
    pub fn record_memtable(&mut self, capacity_bytes: u64, cause: Error) {
        self.count += 1;
        self.memtable = Some((self.count, capacity_bytes, cause));
    }

    /// Records that there was no space for the flush of a write.
    pub fn record_space(&mut self, wanted: Wanted, cause: Error) {
        self.count += 1;
        self.space = Some((self.count, wanted, cause));
    }

    /// Records that the system lacked what a MemTable takes, or space for one.
    pub fn record_lack(&mut self, cause: Error) {
        self.count += 1;
        self.lack = Some((self.count, cause));
    }

    /// The error, if something was lacking since there were `before` errors.
    fn check_lack(&self, before: u64) -> Result<()> {
        match &self.lack {
            Some((number, cause)) if *number > before => Err(cause.clone()),
            _ => Ok(()),
        }
    }

    /// The error, if a flush found no space since there were `before` errors.
    pub fn check_flush(&self, before: u64) -> Result<()> {
        match &self.flush {
            Some((number, cause)) if *number > before => Err(cause.clone()),
            _ => Ok(()),
        }
    }

    /// The error, if a MemTable of this capacity, or less, was refused since then.
    pub fn check_memtable(&self, before: u64, capacity_bytes: u64) -> Result<()> {
        match &self.memtable {
            Some((number, refused, cause)) if *number > before && *refused <= capacity_bytes => Err(cause.clone()),
            _ => self.check_lack(before),
        }
    }

    /// The error, if this much space, or less, was refused since then.
    pub fn check_space(&self, before: u64, wanted: &Wanted) -> Result<()> {
        match &self.space {
            Some((number, refused, cause)) if *number > before && refused.is_at_most(wanted) => Err(cause.clone()),
            _ => self.check_lack(before),
        }
    }
}
