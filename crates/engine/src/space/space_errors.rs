//! [`SpaceErrors`]: the last out-of-space error of each kind. A waiting writer fails if its own request, or a smaller
//! one, was refused since it began to wait; no other does. A write that is too large for the disk is no reason to
//! refuse a small one, or to say that a running flush has failed.

use slmdb_env::{Error, Result};

use super::allowance::Request;

/// The last error of each kind.
#[derive(Debug, Default)]
pub struct SpaceErrors {
    count: u64,
    flush: Option<(u64, Error)>,
    /// With what was asked for.
    memtable: Option<(u64, Error, Request)>,
    /// Of what the system lacked for a MemTable, or for its space.
    lack: Option<(u64, Error)>,
}

/// The error, if it came after `before` others.
fn check(number: u64, cause: &Error, before: u64) -> Result<()> {
    if number > before { Err(cause.clone()) } else { Ok(()) }
}

impl SpaceErrors {
    /// Number of errors so far, for a writer that begins to wait.
    pub fn count(&self) -> u64 {
        self.count
    }

    fn next(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    /// Records that a flush found no space. It goes on trying.
    pub fn record_flush(&mut self, cause: Error) {
        self.flush = Some((self.next(), cause));
    }

    /// Records that there was no space for a MemTable that does for this request.
    pub fn record_memtable(&mut self, request: Request, cause: Error) {
        self.memtable = Some((self.next(), cause, request));
    }

    /// Records that the system lacked what a MemTable takes, or space for one.
    pub fn record_lack(&mut self, cause: Error) {
        self.lack = Some((self.next(), cause));
    }

    /// The error, if a flush found no space since there were `before` errors.
    pub fn check_flush(&self, before: u64) -> Result<()> {
        self.flush.as_ref().map_or(Ok(()), |(number, cause)| check(*number, cause, before))
    }

    /// The error, if a MemTable that would have done for no more than this request was refused since then.
    pub fn check_memtable(&self, before: u64, request: &Request) -> Result<()> {
        match &self.memtable {
            Some((number, cause, refused)) if refused.is_at_most(request) => check(*number, cause, before)?,
            _ => {}
        }
        self.lack.as_ref().map_or(Ok(()), |(number, cause)| check(*number, cause, before))
    }
}
