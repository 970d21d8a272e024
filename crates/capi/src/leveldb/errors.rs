//! Errors as LevelDB's C interface tells them: a text that the caller frees, which begins as LevelDB's own do.

use std::ffi::c_char;

use slmdb::ErrorKind;

use crate::common::failure::{Failure, Result, caught};
use crate::common::memory::{copied_text, free};

/// Runs and returns what it gives. A failure is told at `errptr`, and `otherwise` is returned.
///
/// # Safety
///
/// `errptr` is null, or leads to a pointer that is null or came from `malloc`.
#[inline]
pub(super) unsafe fn told<T>(errptr: *mut *mut c_char, otherwise: T, run: impl FnOnce() -> Result<T>) -> T {
    match caught(run) {
        Ok(answer) => answer,
        Err(failure) => {
            // SAFETY: the caller's promise.
            unsafe { tell(errptr, &failure) };
            otherwise
        }
    }
}

/// Puts a failure in the place of the text at `errptr`, which is freed.
///
/// # Safety
///
/// As for [`told`].
#[cold]
pub(super) unsafe fn tell(errptr: *mut *mut c_char, failure: &Failure) {
    if errptr.is_null() {
        return;
    }
    // SAFETY: the caller's promise; the old text is freed and not used again.
    unsafe {
        free((*errptr).cast());
        *errptr = copied_text(&message(failure));
    }
}

/// LevelDB's words for the kind of failure, then ours for what it is.
fn message(failure: &Failure) -> String {
    let kind = match failure {
        Failure::Store(error) => match error.kind() {
            ErrorKind::Corruption => "Corruption",
            ErrorKind::Invalid => "Invalid argument",
            ErrorKind::Unsupported => "Not implemented",
            _ => "IO error",
        },
        Failure::Closed => "Invalid argument",
        Failure::Panic(_) => "Corruption",
    };
    format!("{kind}: {failure}")
}
