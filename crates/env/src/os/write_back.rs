//! [`begin`]: what was written to a file goes on its way to the device before anybody waits for that.

#![allow(unsafe_code)]

use std::fs::File;

/// Has the system begin to write this range of a file to the device. Returns whether it does. What fails later stays with the
/// file: its next sync tells it, because this call waits for nothing (`sync_file_range(2)`).
#[cfg(target_os = "linux")]
pub(super) fn begin(file: &File, offset_bytes: u64, length_bytes: u64) -> bool {
    use std::os::fd::AsRawFd;
    let (Ok(offset), Ok(length)) = (i64::try_from(offset_bytes), i64::try_from(length_bytes)) else { return false };
    // SAFETY: the descriptor is open as long as `file` is borrowed, and the call touches no memory of this process.
    unsafe { libc::sync_file_range(file.as_raw_fd(), offset, length, libc::SYNC_FILE_RANGE_WRITE) == 0 }
}

/// Only Linux has such a call.
#[cfg(not(target_os = "linux"))]
pub(super) fn begin(_file: &File, _offset_bytes: u64, _length_bytes: u64) -> bool {
    false
}
