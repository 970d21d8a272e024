//! `slmdb_t`: an open store, and what is left of it when it was closed.

use std::ffi::c_char;
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwapOption, Guard};
use slmdb::Db;

use crate::common::arguments::{handle, make, path, place};
use crate::common::failure::{Failure, Result, caught};
use crate::common::memory::answer;
use crate::native::codes::{slmdb_code_t, told};
use crate::native::options::{options_of, slmdb_options_t};

/// How long a close waits before it looks again whether other threads' calls have returned.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(1);

/// A store that is open, or was. The handle outlives the store, so that a call after the close is an error and no more.
pub struct slmdb_t(ArcSwapOption<Db>);

/// The store while one call uses it.
pub(super) struct Use(Guard<Option<Arc<Db>>>);

impl Use {
    #[inline]
    pub(super) fn db(&self) -> Result<&Db> {
        self.0.as_deref().ok_or(Failure::Closed)
    }
}

/// Begins a use of the store behind a handle.
///
/// # Safety
///
/// HANDLE.
#[inline]
pub(super) unsafe fn used(db: *const slmdb_t) -> Result<Use> {
    // SAFETY: HANDLE.
    Ok(Use(unsafe { handle(db, "the store") }?.0.load()))
}

impl From<Db> for slmdb_t {
    /// A program in Rust may lend its own store to C so.
    fn from(db: Db) -> slmdb_t {
        slmdb_t(ArcSwapOption::from_pointee(db))
    }
}

impl slmdb_t {
    /// Takes the store out of the handle, and waits until no call uses it.
    fn taken(&self) -> Result<Db> {
        let mut shared = self.0.swap(None).ok_or(Failure::Closed)?;
        loop {
            match Arc::try_unwrap(shared) {
                Ok(db) => return Ok(db),
                Err(still_used) => shared = still_used,
            }
            std::thread::sleep(LOOK_AGAIN_AFTER);
        }
    }
}

/// Opens the store in the directory `directory`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_open(
    directory: *const c_char,
    options: *const slmdb_options_t,
    db: *mut *mut slmdb_t,
    message: *mut *mut c_char,
) -> slmdb_code_t {
    // SAFETY: HANDLE, TEXT, PLACE.
    unsafe {
        answer(db, null_mut());
        told(message, || {
            place(db, "the place for the store")?;
            let opened = options_of(options).open(path(directory)?)?;
            answer(db, make(slmdb_t::from(opened)));
            Ok(())
        })
    }
}

/// Closes the store. The handle stays, and is given back with [`slmdb_release`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_close(db: *mut slmdb_t, message: *mut *mut c_char) -> slmdb_code_t {
    // SAFETY: HANDLE, PLACE.
    unsafe { told(message, || Ok(handle(db, "the store")?.taken()?.close()?)) }
}

/// Gives the handle back; null is nothing. A store that is still open is closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_release(db: *mut slmdb_t) {
    if !db.is_null() {
        // SAFETY: HANDLE; it came from `slmdb_open`, and nobody uses it any more.
        let handle = unsafe { Box::from_raw(db) };
        // There is no way to tell an error. Who wants to know closes the store before.
        let _ = caught(move || {
            drop(handle);
            Ok(())
        });
    }
}
