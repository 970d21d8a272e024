//! `slmdb_snapshot_t`: a store as it was at one moment.

use std::ffi::c_char;
use std::ptr::null_mut;

use slmdb::Snapshot;

use crate::common::arguments::{bytes, give_back, handle, make, place};
use crate::common::memory::answer;
use crate::native::codes::{slmdb_code_t, told};
use crate::native::reads::answer_value;
use crate::native::store::{slmdb_t, used};

/// A store as it was at one moment.
pub struct slmdb_snapshot_t(pub(super) Snapshot);

/// Takes a snapshot.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_snapshot_create(
    db: *const slmdb_t,
    snapshot: *mut *mut slmdb_snapshot_t,
    message: *mut *mut c_char,
) -> slmdb_code_t {
    // SAFETY: HANDLE, PLACE.
    unsafe {
        answer(snapshot, null_mut());
        told(message, || {
            place(snapshot, "the place for the snapshot")?;
            answer(snapshot, make(slmdb_snapshot_t(used(db)?.db()?.snapshot()?)));
            Ok(())
        })
    }
}

/// Gives it back; null is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_snapshot_destroy(snapshot: *mut slmdb_snapshot_t) {
    // SAFETY: HANDLE.
    unsafe { give_back(snapshot) };
}

/// A copy of the value that a key had, which the caller frees; null if it had none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_snapshot_get(
    snapshot: *const slmdb_snapshot_t,
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
            let found = handle(snapshot, "the snapshot")?.0.get(bytes(key, key_bytes, "the key")?)?;
            answer_value(found, value, value_bytes)
        })
    }
}

/// The number of the last write that it sees; 0 for null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_snapshot_sequence_number(snapshot: *const slmdb_snapshot_t) -> u64 {
    // SAFETY: HANDLE.
    unsafe { snapshot.as_ref() }.map_or(0, |snapshot| snapshot.0.sequence_number())
}
