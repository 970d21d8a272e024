//! `leveldb_readoptions_t` and `leveldb_writeoptions_t`: how one read or write is done.

use std::sync::{Arc, Weak};

use slmdb::{Error, WriteOptions};

use crate::common::arguments::{change, give_back, make};
use crate::common::failure::{Failure, Result};
use crate::leveldb::snapshot::{Moment, leveldb_snapshot_t};

/// How a read is done.
#[derive(Default)]
pub struct leveldb_readoptions_t {
    /// It does not keep the snapshot, which would keep the store open.
    snapshot: Option<Weak<Moment>>,
}

impl leveldb_readoptions_t {
    /// The moment that is read; `None`: now.
    ///
    /// Error: the snapshot was released, or could not be taken.
    #[inline]
    pub(super) fn moment(&self) -> Result<Option<Arc<Moment>>> {
        match &self.snapshot {
            None => Ok(None),
            Some(snapshot) => snapshot.upgrade().map(Some).ok_or_else(released),
        }
    }
}

#[cold]
fn released() -> Failure {
    Error::invalid("the snapshot of these read options was released; set another, or null").into()
}

/// How a write is done.
#[derive(Default)]
pub struct leveldb_writeoptions_t {
    sync: bool,
}

/// What is asked of a write. Null asks for nothing.
///
/// # Safety
///
/// HANDLE.
#[inline]
pub(super) unsafe fn write_options(options: *const leveldb_writeoptions_t) -> WriteOptions {
    // SAFETY: HANDLE.
    WriteOptions::new().sync(unsafe { options.as_ref() }.is_some_and(|options| options.sync))
}

/// Read options: as the store is now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_readoptions_create() -> *mut leveldb_readoptions_t {
    make(leveldb_readoptions_t::default())
}

/// Gives them back; null is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_readoptions_destroy(options: *mut leveldb_readoptions_t) {
    // SAFETY: HANDLE.
    unsafe { give_back(options) };
}

/// Accepted. Checksums are always verified.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_readoptions_set_verify_checksums(_options: *mut leveldb_readoptions_t, _yes: u8) {}

/// Accepted. Every block that is read may be cached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_readoptions_set_fill_cache(_options: *mut leveldb_readoptions_t, _yes: u8) {}

/// The moment that is read; null is now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_readoptions_set_snapshot(
    options: *mut leveldb_readoptions_t,
    snapshot: *const leveldb_snapshot_t,
) {
    // SAFETY: HANDLE.
    let snapshot = unsafe { snapshot.as_ref() }.map(leveldb_snapshot_t::reference);
    // SAFETY: HANDLE.
    unsafe { change(options, |options| options.snapshot = snapshot) };
}

/// Write options: not synced.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writeoptions_create() -> *mut leveldb_writeoptions_t {
    make(leveldb_writeoptions_t::default())
}

/// Gives them back; null is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writeoptions_destroy(options: *mut leveldb_writeoptions_t) {
    // SAFETY: HANDLE.
    unsafe { give_back(options) };
}

/// Whether a write returns only once it survives a power cut.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writeoptions_set_sync(options: *mut leveldb_writeoptions_t, yes: u8) {
    // SAFETY: HANDLE.
    unsafe { change(options, |options| options.sync = yes != 0) };
}
