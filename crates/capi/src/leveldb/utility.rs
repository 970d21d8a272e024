//! `leveldb_free`, and the version that is answered for.

use std::ffi::{c_int, c_void};

use crate::common::memory::free;

/// Gives back memory that a function of this interface returned; null is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_free(ptr: *mut c_void) {
    // SAFETY: the header demands a pointer that this interface returned, or null.
    unsafe { free(ptr) };
}

/// 1: the version of LevelDB whose interface this is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_major_version() -> c_int {
    1
}

/// 23.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_minor_version() -> c_int {
    23
}
