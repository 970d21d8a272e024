//! What an open store is asked for: single reads and writes, sizes, and compactions.

use std::ffi::{c_char, c_int};
use std::ptr::null_mut;

use crate::common::arguments::{bound, bytes, handle};
use crate::common::failure::caught;
use crate::common::memory::{answer, copied};
use crate::leveldb::db::leveldb_t;
use crate::leveldb::errors::told;
use crate::leveldb::request_options::{leveldb_readoptions_t, leveldb_writeoptions_t, write_options};
use crate::leveldb::write_batch::leveldb_writebatch_t;

/// Sets the value of a key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_put(
    db: *mut leveldb_t,
    options: *const leveldb_writeoptions_t,
    key: *const c_char,
    key_bytes: usize,
    value: *const c_char,
    value_bytes: usize,
    errptr: *mut *mut c_char,
) {
    // SAFETY: HANDLE, BYTES, and an `errptr` as the header demands it.
    unsafe {
        told(errptr, (), || {
            let db = &handle(db, "the store")?.db;
            let (key, value) = (bytes(key, key_bytes, "the key")?, bytes(value, value_bytes, "the value")?);
            Ok(db.put_with(key, value, write_options(options))?)
        });
    }
}

/// Removes a key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_delete(
    db: *mut leveldb_t,
    options: *const leveldb_writeoptions_t,
    key: *const c_char,
    key_bytes: usize,
    errptr: *mut *mut c_char,
) {
    // SAFETY: HANDLE, BYTES, and an `errptr` as the header demands it.
    unsafe {
        told(errptr, (), || {
            let db = &handle(db, "the store")?.db;
            Ok(db.delete_with(bytes(key, key_bytes, "the key")?, write_options(options))?)
        });
    }
}

/// Applies a batch, wholly or not at all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_write(
    db: *mut leveldb_t,
    options: *const leveldb_writeoptions_t,
    batch: *mut leveldb_writebatch_t,
    errptr: *mut *mut c_char,
) {
    // SAFETY: HANDLE, and an `errptr` as the header demands it.
    unsafe {
        told(errptr, (), || {
            let (db, batch) = (handle(db, "the store")?, handle(batch, "the batch")?);
            Ok(db.db.write_with(batch.whole()?, write_options(options))?)
        });
    }
}

/// A copy of the value of a key, which the caller frees; null if it has none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_get(
    db: *mut leveldb_t,
    options: *const leveldb_readoptions_t,
    key: *const c_char,
    key_bytes: usize,
    value_bytes: *mut usize,
    errptr: *mut *mut c_char,
) -> *mut c_char {
    // SAFETY: HANDLE, BYTES, PLACE, and an `errptr` as the header demands it.
    unsafe {
        answer(value_bytes, 0);
        told(errptr, null_mut(), || {
            let (db, key) = (&handle(db, "the store")?.db, bytes(key, key_bytes, "the key")?);
            let moment = options.as_ref().map_or(Ok(None), leveldb_readoptions_t::moment)?;
            let found = match &moment {
                None => db.get(key)?,
                Some(moment) => moment.as_ref().as_ref().map_err(Clone::clone)?.get(key)?,
            };
            let Some(value) = found else { return Ok(null_mut()) };
            let copy = copied(&value)?;
            answer(value_bytes, value.len());
            Ok(copy)
        })
    }
}

/// The bytes of table files that each range of keys takes, about. A range that can't be read, or is upside down, takes 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_approximate_sizes(
    db: *mut leveldb_t,
    ranges_count: c_int,
    start_keys: *const *const c_char,
    start_keys_bytes: *const usize,
    limit_keys: *const *const c_char,
    limit_keys_bytes: *const usize,
    sizes_bytes: *mut u64,
) {
    let keys_missing = start_keys.is_null() || limit_keys.is_null();
    if sizes_bytes.is_null() || keys_missing || start_keys_bytes.is_null() || limit_keys_bytes.is_null() {
        return;
    }
    for range in 0..usize::try_from(ranges_count).unwrap_or(0) {
        // SAFETY: HANDLE, BYTES, PLACE; each of the arrays has `ranges_count` elements.
        unsafe {
            let size = caught(|| {
                let start = bytes(*start_keys.add(range), *start_keys_bytes.add(range), "the start")?;
                let limit = bytes(*limit_keys.add(range), *limit_keys_bytes.add(range), "the limit")?;
                Ok(handle(db, "the store")?.db.approximate(start..limit)?.table_bytes)
            });
            sizes_bytes.add(range).write(size.unwrap_or(0));
        }
    }
}

/// Merges the table files with keys from `start` to `limit`, both included; a null pointer is no bound. There is no way to
/// tell an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_compact_range(
    db: *mut leveldb_t,
    start_key: *const c_char,
    start_key_bytes: usize,
    limit_key: *const c_char,
    limit_key_bytes: usize,
) {
    use std::ops::Bound::{Included, Unbounded};
    // SAFETY: HANDLE, BYTES.
    let _ = caught(|| unsafe {
        let start = bound(start_key, start_key_bytes, "the start")?.map_or(Unbounded, Included);
        let limit = bound(limit_key, limit_key_bytes, "the limit")?.map_or(Unbounded, Included);
        Ok(handle(db, "the store")?.db.compact_range::<&[u8]>((start, limit))?)
    });
}
