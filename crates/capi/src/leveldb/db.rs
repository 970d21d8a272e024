//! `leveldb_t`: an open store, from its opening to its closing.

use std::ffi::c_char;
use std::ptr::null_mut;

use slmdb::Db;

use crate::common::arguments::{handle, make, path};
use crate::common::failure::caught;
use crate::leveldb::errors::told;
use crate::leveldb::management::check_not_of_leveldb;
use crate::leveldb::options::leveldb_options_t;

/// An open store.
pub struct leveldb_t {
    /// The store itself. A program in Rust may lend its own to C so.
    pub db: Db,
}

/// Opens the store in the directory `name`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_open(
    options: *const leveldb_options_t,
    name: *const c_char,
    errptr: *mut *mut c_char,
) -> *mut leveldb_t {
    // SAFETY: HANDLE, TEXT, and an `errptr` as the header demands it.
    unsafe {
        told(errptr, null_mut(), || {
            let (options, path) = (handle(options, "the options")?, path(name)?);
            check_not_of_leveldb(path)?;
            Ok(make(leveldb_t { db: options.of_slmdb()?.open(path)? }))
        })
    }
}

/// Closes the store and gives the handle back; null is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_close(db: *mut leveldb_t) {
    if !db.is_null() {
        // SAFETY: HANDLE; it came from `leveldb_open`, and nobody uses it any more.
        let store = unsafe { Box::from_raw(db) };
        // There is no way to tell an error. What was acknowledged is safe all the same.
        let _ = caught(|| Ok(store.db.close()?));
    }
}
