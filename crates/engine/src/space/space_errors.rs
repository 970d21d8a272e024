//! [`SpaceErrors`]: the last out-of-space error of each kind. A waiting writer fails if its own request, or a smaller
//! one, was refused since it began to wait; no other does. A write that is too large for the disk is no reason to
//! refuse a small one, or to say that a running flush has failed.

use slmdb_env::{Error, Result};

use crate::batch::Totals;

/// The last error of each kind.
#[derive(Debug, Default)]
pub struct SpaceErrors {
    count: u64,
    flush: Option<Refused<()>>,
    /// With the capacity of the MemTable, in bytes.
    memtable: Option<Refused<u64>>,
    /// With the write.
    space: Option<Refused<Totals>>,
    /// Of what the system lacked for a MemTable, or for its space.
    lack: Option<Refused<()>>,
}

/// What was refused, as which error of all, and why.
#[derive(Debug)]
struct Refused<T> {
    request: T,
    number: u64,
    cause: Error,
}

/// The error, if there was one after `before` others, for a request for which the refused one stands.
fn check<T>(last: &Option<Refused<T>>, before: u64, stands_for: impl Fn(&T) -> bool) -> Result<()> {
    let refused = last.as_ref().filter(|refused| refused.number > before && stands_for(&refused.request));
    refused.map_or(Ok(()), |refused| Err(refused.cause.clone()))
}

impl SpaceErrors {
    /// Number of errors so far, for a writer that begins to wait.
    pub fn count(&self) -> u64 {
        self.count
    }

    fn refused<T>(&mut self, request: T, cause: Error) -> Option<Refused<T>> {
        self.count += 1;
        Some(Refused { request, number: self.count, cause })
    }

    /// Records that a flush found no space. It goes on trying.
    pub fn record_flush(&mut self, cause: Error) {
        self.flush = self.refused((), cause);
    }

    /// Records that there was no space for a MemTable of this capacity.
    pub fn record_memtable(&mut self, capacity_bytes: u64, cause: Error) {
        self.memtable = self.refused(capacity_bytes, cause);
    }

    /// Records that there was no space for the flush of a write.
    pub fn record_space(&mut self, wanted: Totals, cause: Error) {
        self.space = self.refused(wanted, cause);
    }

    /// Records that the system lacked what a MemTable takes, or space for one.
    pub fn record_lack(&mut self, cause: Error) {
        self.lack = self.refused((), cause);
    }

    /// The error, if a flush found no space since there were `before` errors.
    pub fn check_flush(&self, before: u64) -> Result<()> {
        check(&self.flush, before, |()| true)
    }

    /// The error, if a MemTable of this capacity, or less, was refused since then.
    pub fn check_memtable(&self, before: u64, capacity_bytes: u64) -> Result<()> {
        check(&self.memtable, before, |&refused_bytes| refused_bytes <= capacity_bytes)?;
        check(&self.lack, before, |()| true)
    }

    /// The error, if this much space, or less, was refused since then.
    pub fn check_space(&self, before: u64, wanted: &Totals) -> Result<()> {
        check(&self.space, before, |refused| refused.is_at_most(wanted))?;
        check(&self.lack, before, |()| true)
    }
}
