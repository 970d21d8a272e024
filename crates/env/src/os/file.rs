//! A file of [`OsEnv`](super::OsEnv).

use std::fs::File as StdFile;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Advice, FallocateFlags};
use rustix::io::{Errno, retry_on_intr};

use super::retried::retried;
use super::{mapped, write_back};
use crate::{Error, File, Mapped, Result};

/// The largest offset a file can have in this system: beyond it calls fail with errors that say nothing.
const LARGEST_OFFSET_BYTES: u64 = i64::MAX as u64;
/// How much is written at a time where zeros have to stand in for `fallocate`.
pub(super) const ZEROS_BYTES: usize = 256 * 1024;

/// A file of [`OsEnv`].
#[derive(Debug)]
pub(super) struct OsFile {
    pub file: StdFile,
    pub path: PathBuf,
}

impl OsFile {
    fn failed(&self, operation: &'static str) -> impl Fn(io::Error) -> Error {
        move |source| Error::io(operation, &self.path, source)
    }

    /// Writes zeros from the present end of the file, or from `offset_bytes` if that is further, up to `end_bytes`. If
    /// that fails the file is cut back to what it was.
    pub fn append_zeros(&self, offset_bytes: u64, end_bytes: u64) -> Result<()> {
        let length_before = self.length_bytes()?;
        // Not on the stack, of which the caller may have little.
        let zeros = vec![0; ZEROS_BYTES];
        let mut at = length_before.max(offset_bytes);
        while at < end_bytes {
            let some = usize::try_from(end_bytes - at).unwrap_or(usize::MAX).min(zeros.len());
            if let Err(source) = self.file.write_all_at(&zeros[..some], at) {
                // The first failure is the one to tell.
                let _ = self.file.set_len(length_before);
                return Err(Error::io("allocate", &self.path, source));
            }
            at += some as u64;
        }
        Ok(())
    }
}

impl File for OsFile {
    fn path(&self) -> &Path {
        &self.path
    }

    /// Past the largest offset a file can have there is nothing: a wild offset found in a file reads as its end.
    fn read_at(&self, into: &mut [u8], offset_bytes: u64) -> Result<usize> {
        let room = LARGEST_OFFSET_BYTES.saturating_sub(offset_bytes);
        let wanted = into.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        read_fully(&mut into[..wanted], |rest, got| self.file.read_at(rest, offset_bytes + got as u64))
            .map_err(self.failed("read"))
    }

    fn write_at(&self, bytes: &[u8], offset_bytes: u64) -> Result<()> {
        self.file.write_all_at(bytes, offset_bytes).map_err(self.failed("write"))
    }

    fn sync_data(&self) -> Result<()> {
        self.file.sync_data().map_err(self.failed("sync"))
    }

    fn length_bytes(&self) -> Result<u64> {
        retried(|| self.file.metadata()).map(|metadata| metadata.len()).map_err(self.failed("look up length"))
    }

    fn set_length(&self, length_bytes: u64) -> Result<()> {
        self.file.set_len(length_bytes).map_err(self.failed("set length"))
    }

    /// One caller at a time may let a file grow: where zeros have to be written, they go to what was beyond the end
    /// when this call began.
    fn allocate(&self, offset_bytes: u64, length_bytes: u64) -> Result<()> {
        if length_bytes == 0 {
            return Ok(());
        }
        let end_bytes = match offset_bytes.checked_add(length_bytes) {
            Some(end) if end <= LARGEST_OFFSET_BYTES => end,
            _ => return Err(Error::io("allocate", &self.path, Errno::FBIG.into())),
        };
        let old_bytes = self.length_bytes()?;
        match retry_on_intr(|| rustix::fs::fallocate(&self.file, FallocateFlags::empty(), offset_bytes, length_bytes)) {
            Ok(()) => Ok(()),
            Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => self.append_zeros(offset_bytes, end_bytes),
            Err(errno) => {
                // Some file systems keep what they had found before the disk was full, even behind the end of the file:
                // cutting the file at its old length gives it back. Only one caller at a time grows a file.
                let _ = self.file.set_len(old_bytes);
                Err(Error::io("allocate", &self.path, errno.into()))
            }
        }
    }

    fn takes_space_at_once(&self) -> bool {
        // The first byte has its space already.
        let taken = retry_on_intr(|| rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, 1));
        !matches!(taken, Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS))
    }

    fn reserve(&self, length_bytes: u64) -> Result<()> {
        let old_bytes = self.length_bytes()?;
        if length_bytes <= old_bytes {
            return Ok(());
        }
        if length_bytes > LARGEST_OFFSET_BYTES {
            return Err(Error::io("reserve", &self.path, Errno::FBIG.into()));
        }
        match retry_on_intr(|| rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, 0, length_bytes)) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => Ok(()),
            Err(errno) => Err(Error::io("reserve", &self.path, errno.into())),
        }
    }

    /// Some file systems say 0, which is no answer.
    fn file_system_bytes(&self) -> Option<u64> {
        let found = retry_on_intr(|| rustix::fs::fstatvfs(&self.file)).ok()?;
        Some(found.f_blocks.saturating_mul(found.f_frsize)).filter(|&bytes| bytes > 0)
    }

    fn advise_random(&self) {
        // Advice that is not taken costs time, never correctness.
        let _ = rustix::fs::fadvise(&self.file, 0, None::<NonZeroU64>, Advice::Random);
    }

    fn advise_will_read(&self, offset_bytes: u64, length_bytes: u64) {
        if let Some(length_bytes) = NonZeroU64::new(length_bytes) {
            let _ = rustix::fs::fadvise(&self.file, offset_bytes, Some(length_bytes), Advice::WillNeed);
        }
    }

    fn advise_written(&self, offset_bytes: u64, length_bytes: u64) {
        // As with other advice.
        let _ = write_back::begin(&self.file, offset_bytes, length_bytes);
    }

    fn give_up_content(&self) {
        // Its blocks stay allocated, so that a disk that is full meanwhile is nothing to those who write there again.
        if let Ok(length_bytes) = self.length_bytes() {
            let _ = rustix::fs::fallocate(&self.file, FallocateFlags::ZERO_RANGE, 0, length_bytes);
        }
    }

    fn map(&self, length_bytes: u64) -> Option<Arc<dyn Mapped>> {
        Some(Arc::new(mapped::OsMapped::new(&self.file, length_bytes)?))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}

/// Reads until the buffer is full or there is no more, however little a call of `read` gets, and however often it is
/// interrupted.
pub(super) fn read_fully(into: &mut [u8], read: impl Fn(&mut [u8], usize) -> io::Result<usize>) -> io::Result<usize> {
    let mut got = 0;
    while got < into.len() {
        match retried(|| read(&mut into[got..], got))? {
            0 => break,
            more => got += more,
        }
    }
    Ok(got)
}
