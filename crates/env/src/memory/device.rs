//! A device-dax of a [`MemoryEnv`](super::MemoryEnv): memory of the real system's, with a descriptor that can be mapped.
//!
//! Everything but mapping fails as it does on the real thing, so that whoever reads, writes, syncs or resizes such a device is
//! found out.

use std::fs::File as StdFile;
use std::io::{Error as IoError, ErrorKind as IoErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::MemfdFlags;

use crate::{DaxDevice, Error, File, OpenMode, Result};

/// Contents are copied in pieces of this size; those that are all zero are left out.
const PIECE_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Device {
    shape: DaxDevice,
    memory: Arc<StdFile>,
}

impl Device {
    pub(super) fn new(shape: DaxDevice) -> Device {
        let made = || {
            let memory = StdFile::from(rustix::fs::memfd_create("device-dax", MemfdFlags::CLOEXEC)?);
            memory.set_len(shape.size_bytes)?;
            Ok::<StdFile, IoError>(memory)
        };
        Device { shape, memory: Arc::new(expected(made())) }
    }

    pub(super) fn shape(&self) -> DaxDevice {
        self.shape
    }

    /// Another handle of the same memory.
    pub(super) fn memory(&self) -> StdFile {
        expected(self.memory.try_clone())
    }

    /// The same content in memory of its own.
    pub(super) fn copied(&self) -> Device {
        let copy = Device::new(self.shape);
        let mut piece = vec![0; PIECE_BYTES];
        for offset in (0..self.shape.size_bytes).step_by(PIECE_BYTES) {
            let bytes = PIECE_BYTES.min((self.shape.size_bytes - offset) as usize);
            expected(self.memory.read_exact_at(&mut piece[..bytes], offset));
            if piece[..bytes].iter().any(|&byte| byte != 0) {
                expected(copy.memory.write_all_at(&piece[..bytes], offset));
            }
        }
        copy
    }

    /// Opening to empty it does not: a device is what it is.
    pub(super) fn open(&self, path: &Path, mode: OpenMode) -> Result<DeviceFile, IoErrorKind> {
        let memory = match mode {
            OpenMode::CreateNew => return Err(IoErrorKind::AlreadyExists),
            // Reopened, so that nothing can be mapped for writing through it.
            OpenMode::Read => Arc::new(expected(StdFile::open(format!("/proc/self/fd/{}", self.memory.as_raw_fd())))),
            OpenMode::ReadWrite | OpenMode::CreateOrTruncate => self.memory.clone(),
        };
        Ok(DeviceFile { path: path.to_path_buf(), memory })
    }
}

fn expected<T>(result: Result<T, IoError>) -> T {
    result.unwrap_or_else(|error| panic!("the system has no memory that can be mapped like a file: {error}"))
}

/// An open device.
#[derive(Debug)]
pub(super) struct DeviceFile {
    path: PathBuf,
    memory: Arc<StdFile>,
}

impl DeviceFile {
    fn refused<T>(&self, operation: &'static str) -> Result<T> {
        Err(Error::io(operation, &self.path, IoErrorKind::InvalidInput.into()))
    }
}

impl File for DeviceFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn read_at(&self, _into: &mut [u8], _offset_bytes: u64) -> Result<usize> {
        self.refused("read")
    }

    fn write_at(&self, _bytes: &[u8], _offset_bytes: u64) -> Result<()> {
        self.refused("write")
    }

    fn sync_data(&self) -> Result<()> {
        self.refused("sync")
    }

    fn length_bytes(&self) -> Result<u64> {
        Ok(0)
    }

    fn set_length(&self, _length_bytes: u64) -> Result<()> {
        self.refused("set length")
    }

    fn allocate(&self, _offset_bytes: u64, _length_bytes: u64) -> Result<()> {
        self.refused("allocate")
    }

    fn advise_random(&self) {}

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.memory.as_fd())
    }
}
