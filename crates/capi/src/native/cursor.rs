//! `slmdb_cursor_t`: a position that moves over the entries of a store as it was at one moment.

use std::ffi::c_char;
use std::ptr::{null, null_mut};

use slmdb::{Cursor, Slice};

use crate::common::arguments::{bytes, give_back, handle, handle_mut, make, place};
use crate::common::failure::Result;
use crate::common::memory::answer;
use crate::native::codes::{slmdb_code_t, told};
use crate::native::snapshot::slmdb_snapshot_t;
use crate::native::store::{slmdb_t, used};

/// A position.
pub struct slmdb_cursor_t {
    cursor: Cursor,
    /// The value of the entry it is on, once it was asked for.
    value: Option<Slice>,
}

/// Answers with a new cursor.
///
/// # Safety
///
/// PLACE.
unsafe fn made(
    cursor: *mut *mut slmdb_cursor_t,
    message: *mut *mut c_char,
    make_it: impl FnOnce() -> Result<Cursor>,
) -> slmdb_code_t {
    // SAFETY: PLACE.
    unsafe {
        answer(cursor, null_mut());
        told(message, || {
            place(cursor, "the place for the cursor")?;
            answer(cursor, make(slmdb_cursor_t { cursor: make_it()?, value: None }));
            Ok(())
        })
    }
}

/// A cursor over the store as it is now. It is on no entry yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_cursor_create(
    db: *const slmdb_t,
    cursor: *mut *mut slmdb_cursor_t,
    message: *mut *mut c_char,
) -> slmdb_code_t {
    // SAFETY: HANDLE, PLACE.
    unsafe { made(cursor, message, || Ok(used(db)?.db()?.cursor()?)) }
}

/// A cursor over what a snapshot sees.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_snapshot_cursor_create(
    snapshot: *const slmdb_snapshot_t,
    cursor: *mut *mut slmdb_cursor_t,
    message: *mut *mut c_char,
) -> slmdb_code_t {
    // SAFETY: HANDLE, PLACE.
    unsafe { made(cursor, message, || Ok(handle(snapshot, "the snapshot")?.0.cursor()?)) }
}

/// Gives it back; null is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_cursor_destroy(cursor: *mut slmdb_cursor_t) {
    // SAFETY: HANDLE.
    unsafe { give_back(cursor) };
}

/// Moves a cursor.
///
/// # Safety
///
/// HANDLE, PLACE.
unsafe fn moved(
    cursor: *mut slmdb_cursor_t,
    message: *mut *mut c_char,
    step: impl FnOnce(&mut Cursor) -> Result<()>,
) -> slmdb_code_t {
    // SAFETY: HANDLE, PLACE.
    unsafe {
        told(message, || {
            let cursor = handle_mut(cursor, "the cursor")?;
            cursor.value = None;
            step(&mut cursor.cursor)
        })
    }
}

/// To the first entry.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_cursor_seek_first(
    cursor: *mut slmdb_cursor_t,
    message: *mut *mut c_char,
) -> slmdb_code_t {
    // SAFETY: HANDLE, PLACE.
    unsafe { moved(cursor, message, |cursor| Ok(cursor.seek_first()?)) }
}

/// To the last entry.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_cursor_seek_last(
    cursor: *mut slmdb_cursor_t,
    message: *mut *mut c_char,
) -> slmdb_code_t {
    // SAFETY: HANDLE, PLACE.
    unsafe { moved(cursor, message, |cursor| Ok(cursor.seek_last()?)) }
}

/// To the first entry at or after a key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_cursor_seek(
    cursor: *mut slmdb_cursor_t,
    key: *const c_char,
    key_bytes: usize,
    message: *mut *mut c_char,
) -> slmdb_code_t {
    // SAFETY: HANDLE, BYTES, PLACE.
    unsafe { moved(cursor, message, |cursor| Ok(cursor.seek(bytes(key, key_bytes, "the key")?)?)) }
}

/// To the last entry before a key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_cursor_seek_before(
    cursor: *mut slmdb_cursor_t,
    key: *const c_char,
    key_bytes: usize,
    message: *mut *mut c_char,
) -> slmdb_code_t {
    // SAFETY: HANDLE, BYTES, PLACE.
    unsafe { moved(cursor, message, |cursor| Ok(cursor.seek_before(bytes(key, key_bytes, "the key")?)?)) }
}

/// To the next entry; on none it stays on none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_cursor_next(cursor: *mut slmdb_cursor_t, message: *mut *mut c_char) -> slmdb_code_t {
    // SAFETY: HANDLE, PLACE.
    unsafe { moved(cursor, message, |cursor| Ok(cursor.next()?)) }
}

/// To the previous entry; on none it stays on none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_cursor_prev(cursor: *mut slmdb_cursor_t, message: *mut *mut c_char) -> slmdb_code_t {
    // SAFETY: HANDLE, PLACE.
    unsafe { moved(cursor, message, |cursor| Ok(cursor.prev()?)) }
}

/// Whether it is on an entry.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_cursor_is_valid(cursor: *const slmdb_cursor_t) -> u8 {
    // SAFETY: HANDLE.
    unsafe { cursor.as_ref() }.is_some_and(|cursor| cursor.cursor.valid()).into()
}

/// The key of the entry it is on, until the next move; null on none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_cursor_key(cursor: *const slmdb_cursor_t, key_bytes: *mut usize) -> *const c_char {
    // SAFETY: HANDLE.
    let cursor = unsafe { cursor.as_ref() }.filter(|cursor| cursor.cursor.valid());
    let key = cursor.map(|cursor| cursor.cursor.key());
    // SAFETY: PLACE.
    unsafe { answer(key_bytes, key.map_or(0, <[u8]>::len)) };
    key.map_or(null(), |key| key.as_ptr().cast())
}

/// The value of the entry it is on, until the next move.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_cursor_value(
    cursor: *mut slmdb_cursor_t,
    value: *mut *const c_char,
    value_bytes: *mut usize,
    message: *mut *mut c_char,
) -> slmdb_code_t {
    // SAFETY: HANDLE, PLACE.
    unsafe {
        answer(value, null());
        answer(value_bytes, 0);
        told(message, || {
            place(value, "the place for the value")?;
            place(value_bytes, "the place for the value's length")?;
            let slmdb_cursor_t { cursor, value: kept } = handle_mut(cursor, "the cursor")?;
            let found = match kept {
                Some(found) => &*found,
                None => kept.insert(cursor.value()?),
            };
            answer(value, found.as_ptr().cast());
            answer(value_bytes, found.len());
            Ok(())
        })
    }
}
