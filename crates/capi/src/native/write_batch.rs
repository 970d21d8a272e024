//! `slmdb_batch_t`: changes that are applied together.

use std::ffi::c_char;

use slmdb::WriteBatch;

use crate::common::arguments::{bytes, change, give_back, handle_mut, make, range};
use crate::native::codes::{slmdb_code_t, told};

/// Changes that are applied together.
#[derive(Default)]
pub struct slmdb_batch_t(pub(super) WriteBatch);

/// An empty batch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_batch_create() -> *mut slmdb_batch_t {
    make(slmdb_batch_t::default())
}

/// Gives it back; null is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_batch_destroy(batch: *mut slmdb_batch_t) {
    // SAFETY: HANDLE.
    unsafe { give_back(batch) };
}

/// Empties it, and keeps its memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_batch_clear(batch: *mut slmdb_batch_t) {
    // SAFETY: HANDLE.
    unsafe { change(batch, |batch| batch.0.clear()) };
}

/// Adds a put.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_batch_put(
    batch: *mut slmdb_batch_t,
    key: *const c_char,
    key_bytes: usize,
    value: *const c_char,
    value_bytes: usize,
    message: *mut *mut c_char,
) -> slmdb_code_t {
    // SAFETY: HANDLE, BYTES, PLACE.
    unsafe {
        told(message, || {
            let (key, value) = (bytes(key, key_bytes, "the key")?, bytes(value, value_bytes, "the value")?);
            Ok(handle_mut(batch, "the batch")?.0.put(key, value)?)
        })
    }
}

/// Adds a delete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_batch_delete(
    batch: *mut slmdb_batch_t,
    key: *const c_char,
    key_bytes: usize,
    message: *mut *mut c_char,
) -> slmdb_code_t {
    // SAFETY: HANDLE, BYTES, PLACE.
    unsafe { told(message, || Ok(handle_mut(batch, "the batch")?.0.delete(bytes(key, key_bytes, "the key")?)?)) }
}

/// Adds a delete of all keys from `from` on and before `to`. A null pointer is no bound.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_batch_delete_range(
    batch: *mut slmdb_batch_t,
    from: *const c_char,
    from_bytes: usize,
    to: *const c_char,
    to_bytes: usize,
    message: *mut *mut c_char,
) -> slmdb_code_t {
    // SAFETY: HANDLE, BYTES, PLACE.
    unsafe {
        told(message, || {
            let range = range(from, from_bytes, to, to_bytes)?;
            Ok(handle_mut(batch, "the batch")?.0.delete_range::<&[u8]>(range)?)
        })
    }
}

/// How many changes it has; 0 for null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_batch_count(batch: *const slmdb_batch_t) -> usize {
    // SAFETY: HANDLE.
    unsafe { batch.as_ref() }.map_or(0, |batch| batch.0.len())
}
