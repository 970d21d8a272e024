//! Calls that a signal may interrupt.

use std::io::{self, ErrorKind as IoErrorKind};

/// Makes a call again for as long as a signal interrupts it. (Most calls on files never are, but on file systems under FUSE or on
/// a network any may be.)
pub(super) fn retried<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == IoErrorKind::Interrupted => {}
            done => return done,
        }
    }
}
