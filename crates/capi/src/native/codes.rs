//! How failures are told: a code, and a text that the caller frees.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;

use slmdb::ErrorKind;

use crate::common::failure::{Failure, Result, caught};
use crate::common::memory::{answer, copied_text, free};

/// How a call ended: one of the constants of this module.
pub type slmdb_code_t = c_int;

/// It did what it was asked to do.
pub const SLMDB_OK: slmdb_code_t = 0;
/// Somebody else has the store open.
pub const SLMDB_LOCKED: slmdb_code_t = 1;
/// The store takes no writes.
pub const SLMDB_READ_ONLY: slmdb_code_t = 2;
/// The pool or the disk has no room.
pub const SLMDB_FULL: slmdb_code_t = 3;
/// Bytes on the medium are not what was written there.
pub const SLMDB_CORRUPTION: slmdb_code_t = 4;
/// Made by another version, or with a feature that this build lacks.
pub const SLMDB_UNSUPPORTED: slmdb_code_t = 5;
/// The request can't be carried out as it stands.
pub const SLMDB_INVALID: slmdb_code_t = 6;
/// The operating system failed.
pub const SLMDB_IO: slmdb_code_t = 7;
/// The handle's store was closed.
pub const SLMDB_CLOSED: slmdb_code_t = 8;
/// slmdb has a defect.
pub const SLMDB_PANIC: slmdb_code_t = 9;
/// A kind of failure that this version of the header does not know.
pub const SLMDB_OTHER: slmdb_code_t = 10;

const NAMES: [&CStr; 11] = [
    c"ok",
    c"locked",
    c"read-only",
    c"full",
    c"corruption",
    c"unsupported",
    c"invalid",
    c"io",
    c"closed",
    c"panic",
    c"other",
];

fn code(failure: &Failure) -> slmdb_code_t {
    match failure {
        Failure::Store(error) => match error.kind() {
            ErrorKind::Locked => SLMDB_LOCKED,
            ErrorKind::ReadOnly => SLMDB_READ_ONLY,
            ErrorKind::Full => SLMDB_FULL,
            ErrorKind::Corruption => SLMDB_CORRUPTION,
            ErrorKind::Unsupported => SLMDB_UNSUPPORTED,
            ErrorKind::Invalid => SLMDB_INVALID,
            ErrorKind::Io => SLMDB_IO,
            _ => SLMDB_OTHER,
        },
        Failure::Closed => SLMDB_CLOSED,
        Failure::Panic(_) => SLMDB_PANIC,
    }
}

/// Runs. Returns how it ended, and writes a text to `message` if it failed, else null.
///
/// # Safety
///
/// PLACE.
#[inline]
pub(super) unsafe fn told(message: *mut *mut c_char, run: impl FnOnce() -> Result<()>) -> slmdb_code_t {
    let (code, text) = match caught(run) {
        Ok(()) => (SLMDB_OK, null_mut()),
        Err(failure) => {
            (code(&failure), if message.is_null() { null_mut() } else { copied_text(&failure.to_string()) })
        }
    };
    // SAFETY: PLACE.
    unsafe { answer(message, text) };
    code
}

/// The name of a code, which lives for ever.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_code_name(code: slmdb_code_t) -> *const c_char {
    let name = usize::try_from(code).ok().and_then(|code| NAMES.get(code));
    name.unwrap_or(&c"unknown").as_ptr()
}

/// The version of this library, which lives for ever.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Gives back memory that a function of this interface returned; null is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_free(memory: *mut c_void) {
    // SAFETY: the header demands a pointer that this interface returned, or null.
    unsafe { free(memory) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_the_names_of_the_kinds_of_errors() {
        for error in [
            slmdb::Error::invalid("x"),
            slmdb::Error::corruption("file", 0, "x"),
            slmdb::Error::io("read", "file", std::io::ErrorKind::NotFound.into()),
        ] {
            let name = error.kind().name();
            let code = code(&Failure::Store(error));
            assert_eq!(NAMES[code as usize].to_str().unwrap(), name);
        }
    }
}
