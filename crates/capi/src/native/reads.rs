//! Reading single keys.

use std::ffi::c_char;
use std::ptr::null_mut;

use slmdb::Slice;

use crate::common::arguments::{bytes, place};
use crate::common::failure::Result;
use crate::common::memory::{answer, copied};
use crate::native::codes::{slmdb_code_t, told};
use crate::native::store::{slmdb_t, used};

/// Answers with a copy of a value, or with null for none.
///
/// # Safety
///
/// PLACE.
#[inline]
pub(super) unsafe fn answer_value(
    found: Option<Slice>,
    value: *mut *mut c_char,
    value_bytes: *mut usize,
) -> Result<()> {
    if let Some(found) = found {
        // SAFETY: PLACE.
        unsafe {
            answer(value, copied(&found)?);
            answer(value_bytes, found.len());
        }
    }
    Ok(())
}

/// A copy of the value of a key, which the caller frees; null if it has none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_get(
    db: *const slmdb_t,
    key: *const c_char,
    key_bytes: usize,
    value: *mut *mut c_char,
    value_bytes: *mut usize,
    message: *mut *mut c_char,
) -> slmdb_code_t {
    // SAFETY: HANDLE, BYTES, PLACE.
    unsafe {
        answer(value, null_mut());
        answer(value_bytes, 0);
        told(message, || {
            place(value, "the place for the value")?;
            place(value_bytes, "the place for the value's length")?;
            let found = used(db)?.db()?.get(bytes(key, key_bytes, "the key")?)?;
            answer_value(found, value, value_bytes)
        })
    }
}

/// Whether a key has a value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_contains_key(
    db: *const slmdb_t,
    key: *const c_char,
    key_bytes: usize,
    contains: *mut u8,
    message: *mut *mut c_char,
) -> slmdb_code_t {
    // SAFETY: HANDLE, BYTES, PLACE.
    unsafe {
        answer(contains, 0);
        told(message, || {
            place(contains, "the place for the answer")?;
            answer(contains, used(db)?.db()?.contains_key(bytes(key, key_bytes, "the key")?)?.into());
            Ok(())
        })
    }
}
