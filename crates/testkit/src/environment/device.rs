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
use slmdb_env::{DaxDevice, Error, File, OpenMode, Result};

/// Contents are copied in pieces of this size; those that are all zero are left out.
const PIECE_BYTES: usize = 64 << 10;

/// The memory of a device-dax. It can be given to another machine once the last one is gone: memory that the system has handed
/// out already costs much less than new.
#[derive(Debug)]
pub struct DeviceMemory(Arc<StdFile>);

impl DeviceMemory {
    /// Memory that is all zero.
    ///
    /// # Panics
    ///
    /// If the system has no memory that can be mapped like a file.
    pub fn zeroed(length_bytes: u64) -> DeviceMemory {
        let made = || {
            let memory = StdFile::from(rustix::fs::memfd_create("device-dax", MemfdFlags::CLOEXEC)?);
            memory.set_len(length_bytes)?;
            Ok::<StdFile, IoError>(memory)
        };
        DeviceMemory(Arc::new(expected(made())))
    }

    /// Whether a machine has it as a device, or somebody still has that device open for writing. (Who opened it for reading only, or
    /// asked the machine for the memory, has a descriptor of his own.)
    pub fn is_in_use(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// Writes bytes there.
    ///
    /// # Panics
    ///
    /// If they do not fit.
    pub fn write(&self, bytes: &[u8], offset_bytes: u64) {
        let end = offset_bytes.checked_add(bytes.len() as u64);
        assert!(end.is_some_and(|end| end <= self.length_bytes()), "what is written ends behind the device");
        expected(self.0.write_all_at(bytes, offset_bytes));
    }

    fn length_bytes(&self) -> u64 {
        expected(self.0.metadata()).len()
    }
}

#[derive(Debug)]
pub(super) struct Device {
    shape: DaxDevice,
    memory: Arc<StdFile>,
}

impl Device {
    pub(super) fn new(shape: DaxDevice) -> Device {
        Device::of(shape, &DeviceMemory::zeroed(shape.size_bytes))
    }

    /// One that has this memory.
    pub(super) fn of(shape: DaxDevice, memory: &DeviceMemory) -> Device {
        assert_eq!(memory.length_bytes(), shape.size_bytes, "the device's memory is as long as the device");
        assert!(!memory.is_in_use(), "another machine has this memory");
        Device { shape, memory: memory.0.clone() }
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

pub(super) fn expected<T>(result: Result<T, IoError>) -> T {
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

    fn reserve(&self, _length_bytes: u64) -> Result<()> {
        self.refused("reserve")
    }

    fn advise_random(&self) {}

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.memory.as_fd())
    }
}
