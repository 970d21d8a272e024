//! [`SpaceErrors`]: what could not be had. Whoever waits for just that, or for more, gives up; nobody else does: a write that
//! is too large for the disk is no reason to refuse a small one, or to say that a flush under way has failed.

use slmdb_env::{Error, Result};

use crate::space::admission::Wanted;

/// The last setback of each kind, with its number.
#[derive(Debug, Default)]
pub struct SpaceErrors {
    count: u64,
    flush: Option<(u64, Error)>,
    memtable: Option<(u64, u64, Error)>,
    space: Option<(u64, Wanted, Error)>,
    lack: Option<(u64, Error)>,
}

impl SpaceErrors {
    /// How many there were: for who begins to wait.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// A flush found no space; it goes on trying.
    pub fn record_flush(&mut self, cause: Error) {
        self.count += 1;
        self.flush = Some((self.count, cause));
    }

    /// There was no space for a MemTable of this capacity.
    pub fn record_memtable(&mut self, capacity_bytes: u64, cause: Error) {
        self.count += 1;
        self.memtable = Some((self.count, capacity_bytes, cause));
    }

    /// There was not as much space for the flush of a write.
    pub fn record_space(&mut self, wanted: Wanted, cause: Error) {
        self.count += 1;
        self.space = Some((self.count, wanted, cause));
    }

    /// The system lacked what a MemTable takes, or space for one.
    pub fn record_lack(&mut self, cause: Error) {
        self.count += 1;
        self.lack = Some((self.count, cause));
    }

    /// An error if something was lacking since there were `before` setbacks.
    fn check_lack(&self, before: u64) -> Result<()> {
        match &self.lack {
            Some((number, cause)) if *number > before => Err(cause.clone()),
            _ => Ok(()),
        }
    }

    /// An error if a flush found no space since there were `before` setbacks.
    pub fn check_flush(&self, before: u64) -> Result<()> {
        match &self.flush {
            Some((number, cause)) if *number > before => Err(cause.clone()),
            _ => Ok(()),
        }
    }

    /// An error if a MemTable of such a capacity, or less, could not be had since.
    pub fn check_memtable(&self, before: u64, capacity_bytes: u64) -> Result<()> {
        match &self.memtable {
            Some((number, refused, cause)) if *number > before && *refused <= capacity_bytes => Err(cause.clone()),
            _ => self.check_lack(before),
        }
    }

    /// An error if so much space, or less, could not be had since.
    pub fn check_space(&self, before: u64, wanted: &Wanted) -> Result<()> {
        match &self.space {
            Some((number, refused, cause)) if *number > before && refused.is_at_most(wanted) => Err(cause.clone()),
            _ => self.check_lack(before),
        }
    }
}
