//! Memory that goes to C: of `malloc`, so that `free` gives it back whoever calls it.

use std::ffi::{c_char, c_void};

use super::failure::{Failure, Result};

/// A copy of bytes. It is not null for no bytes either, so that an empty value can be told from none.
///
/// Error: there is no memory.
pub fn copied(bytes: &[u8]) -> Result<*mut c_char> {
    // SAFETY: `malloc` may be called with any size.
    let copy = unsafe { libc::malloc(bytes.len().max(1)) };
    if copy.is_null() {
        return Err(Failure::no_memory(bytes.len()));
    }
    // SAFETY: `copy` has room for the bytes, and is new, so that it does not overlap them.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), copy.cast(), bytes.len()) };
    Ok(copy.cast())
}

/// A copy of a text, with a zero byte at its end. A zero byte within ends it there. Null if there is no memory.
pub fn copied_text(text: &str) -> *mut c_char {
    let bytes = text.as_bytes();
    let length = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    // SAFETY: `malloc` may be called with any size.
    let copy: *mut u8 = unsafe { libc::malloc(length + 1) }.cast();
    if !copy.is_null() {
        // SAFETY: `copy` has room for the text and the zero byte, and is new, so that it does not overlap the text.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), copy, length);
            copy.add(length).write(0);
        }
    }
    copy.cast()
}

/// Gives memory of `malloc` back; null is nothing.
///
/// # Safety
///
/// It is null, or came from `malloc`, and nobody uses it any more.
pub unsafe fn free(memory: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe { libc::free(memory) };
}

/// Writes an answer to the caller's place, if there is one.
///
/// # Safety
///
/// PLACE.
#[inline]
pub unsafe fn answer<T>(place: *mut T, answer: T) {
    if !place.is_null() {
        // SAFETY: PLACE.
        unsafe { place.write(answer) };
    }
}
