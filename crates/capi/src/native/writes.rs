//! Writing.

use std::ffi::c_char;

use slmdb::{Db, WriteOptions};

use crate::common::arguments::{bytes, handle, place, range};
use crate::common::failure::Result;
use crate::common::memory::answer;
use crate::native::codes::{slmdb_code_t, told};
use crate::native::store::{slmdb_t, used};
use crate::native::values::{slmdb_sync_t, write_options};
use crate::native::write_batch::slmdb_batch_t;

/// Sets the value of a key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_put(
    db: *const slmdb_t,
    key: *const c_char,
    key_bytes: usize,
    value: *const c_char,
    value_bytes: usize,
    sync: slmdb_sync_t,
    message: *mut *mut c_char,
) -> slmdb_code_t {
    // SAFETY: HANDLE, BYTES, PLACE.
    unsafe {
        told(message, || {
            let (key, value) = (bytes(key, key_bytes, "the key")?, bytes(value, value_bytes, "the value")?);
            Ok(used(db)?.db()?.put_with(key, value, write_options(sync)?)?)
        })
    }
}

/// Removes a key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_delete(
    db: *const slmdb_t,
    key: *const c_char,
    key_bytes: usize,
    sync: slmdb_sync_t,
    message: *mut *mut c_char,
) -> slmdb_code_t {
    // SAFETY: HANDLE, BYTES, PLACE.
    unsafe {
        told(message, || Ok(used(db)?.db()?.delete_with(bytes(key, key_bytes, "the key")?, write_options(sync)?)?))
    }
}

/// Removes all keys from `from` on and before `to`, at one moment. A null pointer is no bound.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_delete_range(
    db: *const slmdb_t,
    from: *const c_char,
    from_bytes: usize,
    to: *const c_char,
    to_bytes: usize,
    sync: slmdb_sync_t,
    message: *mut *mut c_char,
) -> slmdb_code_t {
    // SAFETY: HANDLE, BYTES, PLACE.
    unsafe {
        told(message, || {
            let range = range(from, from_bytes, to, to_bytes)?;
            Ok(used(db)?.db()?.delete_range_with::<&[u8]>(range, write_options(sync)?)?)
        })
    }
}

/// Applies a batch, wholly or not at all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_write(
    db: *const slmdb_t,
    batch: *const slmdb_batch_t,
    sync: slmdb_sync_t,
    message: *mut *mut c_char,
) -> slmdb_code_t {
    // SAFETY: HANDLE, PLACE.
    unsafe { told(message, || Ok(used(db)?.db()?.write_with(&handle(batch, "the batch")?.0, write_options(sync)?)?)) }
}

/// Sets the value of a key if it has none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_insert_if_absent(
    db: *const slmdb_t,
    key: *const c_char,
    key_bytes: usize,
    value: *const c_char,
    value_bytes: usize,
    sync: slmdb_sync_t,
    was_set: *mut u8,
    message: *mut *mut c_char,
) -> slmdb_code_t {
    // SAFETY: HANDLE, BYTES, PLACE.
    unsafe {
        conditional(was_set, message, || {
            let (key, value) = (bytes(key, key_bytes, "the key")?, bytes(value, value_bytes, "the value")?);
            with_options(db, sync, |db, options| db.insert_if_absent_with(key, value, options))
        })
    }
}

/// Sets the value of a key if it has one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_update_if_present(
    db: *const slmdb_t,
    key: *const c_char,
    key_bytes: usize,
    value: *const c_char,
    value_bytes: usize,
    sync: slmdb_sync_t,
    was_set: *mut u8,
    message: *mut *mut c_char,
) -> slmdb_code_t {
    // SAFETY: HANDLE, BYTES, PLACE.
    unsafe {
        conditional(was_set, message, || {
            let (key, value) = (bytes(key, key_bytes, "the key")?, bytes(value, value_bytes, "the value")?);
            with_options(db, sync, |db, options| db.update_if_present_with(key, value, options))
        })
    }
}

/// # Safety
///
/// HANDLE.
unsafe fn with_options(
    db: *const slmdb_t,
    sync: slmdb_sync_t,
    write: impl FnOnce(&Db, WriteOptions) -> slmdb::Result<bool>,
) -> Result<bool> {
    // SAFETY: HANDLE.
    let used = unsafe { used(db) }?;
    Ok(write(used.db()?, write_options(sync)?)?)
}

/// # Safety
///
/// PLACE.
unsafe fn conditional(
    was_set: *mut u8,
    message: *mut *mut c_char,
    write: impl FnOnce() -> Result<bool>,
) -> slmdb_code_t {
    // SAFETY: PLACE.
    unsafe {
        answer(was_set, 0);
        told(message, || {
            place(was_set, "the place for the answer")?;
            answer(was_set, write()?.into());
            Ok(())
        })
    }
}
