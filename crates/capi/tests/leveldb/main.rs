//! LevelDB's interface, called as C calls it.
//!
//! The tests keep the header's rules, so that SAFETY is always that the handles are what the functions gave.
// The rule is that of the head of this file.
#![allow(clippy::undocumented_unsafe_blocks, clippy::unwrap_used)]

mod arguments;
mod batches;
mod callers_functions;
mod moments;
mod upkeep;

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering};

use slmdb_capi::leveldb::comparator::*;
use slmdb_capi::leveldb::db::*;
use slmdb_capi::leveldb::filter_policy::*;
use slmdb_capi::leveldb::iterator::*;
use slmdb_capi::leveldb::management::*;
use slmdb_capi::leveldb::options::*;
use slmdb_capi::leveldb::properties::*;
use slmdb_capi::leveldb::request_options::*;
use slmdb_capi::leveldb::requests::*;
use slmdb_capi::leveldb::snapshot::*;
use slmdb_capi::leveldb::utility::*;
use slmdb_capi::leveldb::write_batch::*;

/// Calls with a place for an error, and gives what it returned and the error.
fn with_error<T>(call: impl FnOnce(*mut *mut c_char) -> T) -> (T, Option<String>) {
    let mut error: *mut c_char = null_mut();
    let returned = call(&mut error);
    if error.is_null() {
        return (returned, None);
    }
    // SAFETY: a text of the interface, which is freed once.
    let text = unsafe { CStr::from_ptr(error).to_str().unwrap().to_string() };
    unsafe { leveldb_free(error.cast()) };
    (returned, Some(text))
}

fn path_of(path: &Path) -> CString {
    CString::new(path.to_str().unwrap()).unwrap()
}

fn pointer(bytes: &[u8]) -> (*const c_char, usize) {
    (bytes.as_ptr().cast(), bytes.len())
}

/// A store in a directory of its own, with what goes with it.
struct Store {
    directory: tempfile::TempDir,
    options: *mut leveldb_options_t,
    db: *mut leveldb_t,
}

impl Store {
    fn new() -> Store {
        Store::with(|_| {})
    }

    fn with(set: impl FnOnce(*mut leveldb_options_t)) -> Store {
        let directory = tempfile::tempdir().unwrap();
        let options = unsafe { leveldb_options_create() };
        unsafe { leveldb_options_set_create_if_missing(options, 1) };
        set(options);
        let mut store = Store { directory, options, db: null_mut() };
        assert_eq!(store.open(), None);
        store
    }

    fn path(&self) -> CString {
        path_of(&self.directory.path().join("db"))
    }

    fn open(&mut self) -> Option<String> {
        let path = self.path();
        let (db, error) = with_error(|error| unsafe { leveldb_open(self.options, path.as_ptr(), error) });
        assert_eq!(db.is_null(), error.is_some());
        self.db = db;
        error
    }

    fn close(&mut self) {
        unsafe { leveldb_close(std::mem::replace(&mut self.db, null_mut())) };
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Option<String> {
        let ((key, key_bytes), (value, value_bytes)) = (pointer(key), pointer(value));
        with_error(|error| unsafe { leveldb_put(self.db, null(), key, key_bytes, value, value_bytes, error) }).1
    }

    fn get_with(&self, options: *const leveldb_readoptions_t, key: &[u8]) -> Result<Option<Vec<u8>>, String> {
        let (key, key_bytes) = pointer(key);
        let mut length = usize::MAX;
        let (value, error) =
            with_error(|error| unsafe { leveldb_get(self.db, options, key, key_bytes, &mut length, error) });
        if let Some(error) = error {
            assert!(value.is_null() && length == 0);
            return Err(error);
        }
        if value.is_null() {
            assert_eq!(length, 0);
            return Ok(None);
        }
        let bytes = unsafe { std::slice::from_raw_parts(value.cast::<u8>(), length) }.to_vec();
        unsafe { leveldb_free(value.cast()) };
        Ok(Some(bytes))
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.get_with(null(), key).unwrap()
    }

    fn write(&self, batch: *mut leveldb_writebatch_t) -> Option<String> {
        with_error(|error| unsafe { leveldb_write(self.db, null(), batch, error) }).1
    }

    fn property(&self, name: &CStr) -> Option<String> {
        let value = unsafe { leveldb_property_value(self.db, name.as_ptr()) };
        if value.is_null() {
            return None;
        }
        let text = unsafe { CStr::from_ptr(value).to_str().unwrap().to_string() };
        unsafe { leveldb_free(value.cast()) };
        Some(text)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.close();
        unsafe { leveldb_options_destroy(self.options) };
    }
}

unsafe fn words(start: *const c_char, length: usize) -> String {
    String::from_utf8(unsafe { std::slice::from_raw_parts(start.cast::<u8>(), length) }.to_vec()).unwrap()
}
