//! What C passes, read with as much care as C allows.

use std::ffi::{CStr, OsStr, c_char};
use std::ops::Bound::{self, Excluded, Included, Unbounded};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use slmdb::Error;

use super::failure::Result;

/// A range of keys.
pub type Range<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// The bytes at `start`. `what` names them in an error.
///
/// Error: null with a length, or a length that no object has.
///
/// # Safety
///
/// BYTES.
#[inline]
pub unsafe fn bytes<'a>(start: *const c_char, length_bytes: usize, what: &str) -> Result<&'a [u8]> {
    if length_bytes == 0 {
        return Ok(&[]);
    }
    if start.is_null() {
        return Err(Error::invalid(format!(
            "a null pointer was passed for {what}, with a length of {length_bytes} bytes"
        ))
        .into());
    }
    if length_bytes > isize::MAX as usize {
        return Err(Error::invalid(format!("{what} can't have a length of {length_bytes} bytes")).into());
    }
    // SAFETY: BYTES.
    Ok(unsafe { std::slice::from_raw_parts(start.cast(), length_bytes) })
}

/// A bound of a range: the bytes at `start`, or none if it is null.
///
/// # Safety
///
/// BYTES.
pub unsafe fn bound<'a>(start: *const c_char, length_bytes: usize, what: &str) -> Result<Option<&'a [u8]>> {
    if start.is_null() && length_bytes == 0 {
        return Ok(None);
    }
    // SAFETY: BYTES.
    unsafe { bytes(start, length_bytes, what) }.map(Some)
}

/// A range from the one key on and before the other. A null pointer is no bound.
///
/// # Safety
///
/// BYTES.
pub unsafe fn range<'a>(
    from: *const c_char,
    from_bytes: usize,
    to: *const c_char,
    to_bytes: usize,
) -> Result<Range<'a>> {
    // SAFETY: BYTES.
    let (from, to) = unsafe { (bound(from, from_bytes, "the beginning")?, bound(to, to_bytes, "the end")?) };
    Ok((from.map_or(Unbounded, Included), to.map_or(Unbounded, Excluded)))
}

/// A text that ends with a zero byte.
///
/// # Safety
///
/// TEXT.
pub unsafe fn text<'a>(start: *const c_char, what: &str) -> Result<&'a CStr> {
    if start.is_null() {
        return Err(Error::invalid(format!("a null pointer was passed for {what}")).into());
    }
    // SAFETY: TEXT.
    Ok(unsafe { CStr::from_ptr(start) })
}

/// A path.
///
/// # Safety
///
/// TEXT.
pub unsafe fn path<'a>(start: *const c_char) -> Result<&'a Path> {
    // SAFETY: TEXT.
    let text = unsafe { text(start, "the path") }?;
    Ok(Path::new(OsStr::from_bytes(text.to_bytes())))
}

/// Error: the place for an answer is null.
pub fn place<T>(place: *mut T, what: &str) -> Result<()> {
    if place.is_null() { Err(Error::invalid(format!("a null pointer was passed for {what}")).into()) } else { Ok(()) }
}

/// What is behind a handle.
///
/// # Safety
///
/// HANDLE.
#[inline]
pub unsafe fn handle<'a, T>(handle: *const T, what: &str) -> Result<&'a T> {
    // SAFETY: HANDLE.
    unsafe { handle.as_ref() }.ok_or_else(|| null_handle(what))
}

/// What is behind a handle, to be changed.
///
/// # Safety
///
/// HANDLE.
#[inline]
pub unsafe fn handle_mut<'a, T>(handle: *mut T, what: &str) -> Result<&'a mut T> {
    // SAFETY: HANDLE.
    unsafe { handle.as_mut() }.ok_or_else(|| null_handle(what))
}

#[cold]
fn null_handle(what: &str) -> super::failure::Failure {
    Error::invalid(format!("a null pointer was passed for {what}")).into()
}

/// Changes what is behind a handle. Does nothing if it is null.
///
/// # Safety
///
/// HANDLE.
pub unsafe fn change<T>(handle: *mut T, change: impl FnOnce(&mut T)) {
    // SAFETY: HANDLE.
    if let Some(behind) = unsafe { handle.as_mut() } {
        change(behind);
    }
}

/// Makes a handle. Give it back with [`give_back`].
pub fn make<T>(behind: T) -> *mut T {
    Box::into_raw(Box::new(behind))
}

/// Takes a handle back and drops what is behind it. Does nothing if it is null.
///
/// # Safety
///
/// HANDLE, and it came from [`make`]. Nobody uses it any more.
pub unsafe fn give_back<T>(handle: *mut T) {
    if !handle.is_null() {
        // SAFETY: HANDLE.
        drop(unsafe { Box::from_raw(handle) });
    }
}
