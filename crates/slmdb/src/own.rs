//! [`Own`]: what belongs to the process that made it.
//!
//! A child that is forked has its parent's memory and none of its threads. It shares the MemTables' pages with its parent, so a
//! put there would take the place of one of the parent's, and it may find locks taken by threads that it lacks. So everything of
//! a store is refused in a child before a lock is touched, and nothing is closed or freed there.

use slmdb_env::process_number;

use slmdb_engine::{Error, Result};

/// What belongs to the process that made it: of no use in one that is forked from it, and left alone there.
pub(crate) struct Own<T> {
    /// Always there, until it is dropped or taken out.
    inner: Option<T>,
    process: u64,
}

impl<T> Own<T> {
    pub(crate) fn new(inner: T) -> Own<T> {
        Own { inner: Some(inner), process: process_number() }
    }

    /// It, or [`Error::Invalid`] in a forked process.
    #[inline]
    pub(crate) fn get(&self) -> Result<&T> {
        match &self.inner {
            Some(inner) if self.process == process_number() => Ok(inner),
            _ => Err(forked()),
        }
    }

    /// As [`Own::get`], to be changed.
    #[inline]
    pub(crate) fn get_mut(&mut self) -> Result<&mut T> {
        match &mut self.inner {
            Some(inner) if self.process == process_number() => Ok(inner),
            _ => Err(forked()),
        }
    }
}

impl<T> Drop for Own<T> {
    fn drop(&mut self) {
        if self.process != process_number() {
            std::mem::forget(self.inner.take());
        }
    }
}

#[cold]
fn forked() -> Error {
    Error::invalid("the store was opened before this process was forked and can't be used here; open it after the fork")
}
