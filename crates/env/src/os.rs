//! [`OsEnv`]: the operating system itself.
//!
//! A thin layer over system calls. What it adds, and why:
//!
//! - **Positioned reads and writes** (`pread`, `pwrite`), so that threads share a descriptor and no cursor. Interrupted
//!   calls are made again, short ones continued: whoever calls sees all bytes, the end of the file, or an error.
//! - **Allocation that is real.** A mapped arena or pool that meets a full disk dies of `SIGBUS`; `fallocate` turns that
//!   into an error ahead of time. A file system without it gets zeros written, only beyond the current end of the file,
//!   so that no byte of content is ever at risk. (Holes *before* the end stay holes there.)
//! - **Names**: a name is durable once its directory is synced. A few file systems (some under FUSE, some shared folders
//!   of virtual machines) answer `EINVAL` or `EOPNOTSUPP` to `fsync` on a directory, which says that they have no such
//!   operation, not that it failed. That counts as success, or no store could live there; what becomes of a name there
//!   in a power cut is that file system's own promise.
//! - **Boot id, clocks, randomness**, here so that no other layer asks the machine for anything behind a simulator's
//!   back.
//!
//! Locks are in `os/lock.rs`, devices in `os/device.rs`, files that are mapped for reading in `os/mapped.rs`, how much memory there
//! is in `os/memory.rs`, and what has a device begin to write in `os/write_back.rs`.

mod device;
mod lock;
mod mapped;
mod memory;
mod write_back;

use std::fs::{self, File as StdFile, OpenOptions};
use std::io::{self, ErrorKind as IoErrorKind, Read};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{Advice, FallocateFlags};
use rustix::io::{Errno, retry_on_intr};

use crate::{DaxDevice, DirectoryEntry, Env, Error, File, Lock, LockMode, Mapped, OpenMode, Result};

/// The largest offset a file can have in this system: beyond it calls fail with errors that say nothing.
const LARGEST_OFFSET_BYTES: u64 = i64::MAX as u64;
/// How much is written at a time where zeros have to stand in for `fallocate`.
const ZEROS_BYTES: usize = 256 * 1024;

/// When this process first asked for [`Env::monotonic_ns`].
static CLOCK_START: LazyLock<Instant> = LazyLock::new(Instant::now);
/// The boot id can't change while this process lives.
static BOOT_ID: OnceLock<[u8; 16]> = OnceLock::new();

/// The real file system, clock and machine. Has no state; every copy is the same.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsEnv;

impl OsEnv {
    /// The environment of this process.
    pub fn new() -> OsEnv {
        OsEnv
    }
}

impl Env for OsEnv {
    fn open_file(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        let mut options = OpenOptions::new();
        let (operation, options) = match mode {
            OpenMode::Read => ("open", options.read(true)),
            OpenMode::ReadWrite => ("open", options.read(true).write(true)),
            OpenMode::CreateNew => ("create", options.read(true).write(true).create_new(true)),
            OpenMode::CreateOrTruncate => ("create", options.read(true).write(true).create(true).truncate(true)),
        };
        let file = retried(|| options.open(path)).map_err(|source| Error::io(operation, path, source))?;
        Ok(Arc::new(OsFile { file, path: path.to_path_buf() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        retried(|| fs::rename(from, to)).map_err(|source| Error::io("rename", from, source))
    }

    fn link_file(&self, from: &Path, to: &Path) -> Result<bool> {
        match retried(|| fs::hard_link(from, to)) {
            Ok(()) => Ok(true),
            // What file systems without links say, and those that have given a file as many names as they can.
            Err(error)
                if [IoErrorKind::CrossesDevices, IoErrorKind::Unsupported, IoErrorKind::PermissionDenied]
                    .contains(&error.kind())
                    || error.kind() == IoErrorKind::TooManyLinks =>
            {
                Ok(false)
            }
            Err(error) => Err(Error::io("link", from, error)),
        }
    }

    fn remove_file(&self, path: &Path) -> Result<()> {
        retried(|| fs::remove_file(path)).map_err(|source| Error::io("remove", path, source))
    }

    fn create_directory(&self, path: &Path) -> Result<()> {
        retried(|| fs::create_dir_all(path)).map_err(|source| Error::io("create directory", path, source))
    }

    fn remove_directory(&self, path: &Path) -> Result<bool> {
        match retried(|| fs::remove_dir(path)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == IoErrorKind::DirectoryNotEmpty => Ok(false),
            Err(error) => Err(Error::io("remove directory", path, error)),
        }
    }

    /// See the module's essay for what is taken as success on file systems that can't do this.
    fn sync_directory(&self, path: &Path) -> Result<()> {
        let directory =
            retried(|| StdFile::open(named(path))).map_err(|source| Error::io("open directory", path, source))?;
        match retry_on_intr(|| rustix::fs::fsync(&directory)) {
            Ok(()) | Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(()),
            Err(errno) => Err(Error::io("sync directory", path, errno.into())),
        }
    }

    /// Symbolic links count as what they point to; a link to nothing is an entry of length 0.
    fn list_directory(&self, path: &Path) -> Result<Vec<DirectoryEntry>> {
        let failed = |source| Error::io("list directory", path, source);
        let mut entries = Vec::new();
        let listed = retried(|| fs::read_dir(named(path))?.collect::<io::Result<Vec<_>>>()).map_err(failed)?;
        for entry in listed {
            let metadata = match retried(|| fs::metadata(entry.path())) {
                Err(error) if error.kind() == IoErrorKind::NotFound => retried(|| entry.metadata()),
                other => other,
            };
            let metadata = match metadata {
                Ok(metadata) => metadata,
                // Removed since the directory was read: as if it had been removed before.
                Err(error) if error.kind() == IoErrorKind::NotFound => continue,
                Err(error) => return Err(Error::io("list directory", entry.path(), error)),
            };
            entries.push(DirectoryEntry {
                name: entry.file_name().to_string_lossy().into_owned(),
                length_bytes: if metadata.is_file() { metadata.len() } else { 0 },
                is_directory: metadata.is_dir(),
            });
        }
        Ok(entries)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        retried(|| path.try_exists()).map_err(|source| Error::io("look up", path, source))
    }

    fn dax_device(&self, path: &Path) -> Result<Option<DaxDevice>> {
        device::at(path)
    }

    /// Made absolute with the current directory; links and `..` are left as they are.
    fn absolute(&self, path: &Path) -> Result<PathBuf> {
        std::path::absolute(path).map_err(|source| Error::io("make absolute", path, source))
    }

    fn is_directory(&self, path: &Path) -> Result<Option<bool>> {
        match retried(|| fs::metadata(named(path))) {
            Ok(found) => Ok(Some(found.is_dir())),
            Err(error) if [IoErrorKind::NotFound, IoErrorKind::NotADirectory].contains(&error.kind()) => Ok(None),
            Err(error) => Err(Error::io("look up", path, error)),
        }
    }

    fn resolved(&self, path: &Path) -> Result<PathBuf> {
        let mut resolved = PathBuf::from("/");
        for component in self.absolute(path)?.components() {
            match component {
                // What comes before has no links, or is not there.
                Component::ParentDir => drop(resolved.pop()),
                Component::Normal(name) => {
                    let next = resolved.join(name);
                    resolved = match retried(|| fs::canonicalize(&next)) {
                        Err(error) if [IoErrorKind::NotFound, IoErrorKind::NotADirectory].contains(&error.kind()) => {
                            next
                        }
                        canonical => canonical.map_err(|source| Error::io("look up", &next, source))?,
                    };
                }
                Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
            }
        }
        Ok(resolved)
    }

    /// `flock` on the file at `path`; see `os/lock.rs` for how the holder is found. With [`LockMode::Shared`] a
    /// missing file is an error (`NotFound`).
    fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn Lock>> {
        lock::take(path, mode)
    }

    fn shares_space(&self, one: &Path, other: &Path) -> bool {
        let file_system = |path: &Path| fs::metadata(path).map(|found| found.dev());
        !matches!((file_system(one), file_system(other)), (Ok(one), Ok(other)) if one != other)
    }

    /// What an unprivileged process may write; `path` need not exist as long as one of its parents does.
    fn available_bytes(&self, path: &Path) -> Result<u64> {
        let mut existing = named(path);
        loop {
            match retry_on_intr(|| rustix::fs::statvfs(existing)) {
                Ok(found) => return Ok(found.f_bavail.saturating_mul(found.f_frsize)),
                Err(Errno::NOENT) => match existing.parent() {
                    Some(parent) => existing = named(parent),
                    None => return Err(Error::io("look up free space", path, Errno::NOENT.into())),
                },
                Err(errno) => return Err(Error::io("look up free space", path, errno.into())),
            }
        }
    }

    fn memory_to_give_bytes(&self) -> Option<u64> {
        memory::to_give_bytes()
    }

    fn unix_time_ns(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Counted from this process's first question.
    fn monotonic_ns(&self) -> u64 {
        u64::try_from(CLOCK_START.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// All zeros where the system does not tell.
    fn boot_id(&self) -> [u8; 16] {
        *BOOT_ID.get_or_init(|| {
            let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
            parse_uuid(text.trim()).unwrap_or_default()
        })
    }

    /// # Panics
    ///
    /// If the system has neither `getrandom` nor `/dev/urandom`: identities that repeat would let a foreign pool pass
    /// for a store's own, which is worse than stopping.
    fn random_bytes(&self, bytes: &mut [u8]) {
        let mut filled = 0;
        while filled < bytes.len() {
            match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
                Ok(got) => filled += got,
                Err(Errno::INTR) => {}
                Err(_) => {
                    let read = StdFile::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes[filled..]));
                    assert!(read.is_ok(), "the system has no source of randomness: {read:?}");
                    return;
                }
            }
        }
    }
}

/// Makes a call again for as long as a signal interrupts it. (Most calls on files never are, but on file systems under FUSE or on
/// a network any may be.)
fn retried<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == IoErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Reads until the buffer is full or there is no more, however little a call of `read` gets, and however often it is
/// interrupted.
fn read_fully(into: &mut [u8], read: impl Fn(&mut [u8], usize) -> io::Result<usize>) -> io::Result<usize> {
    let mut got = 0;
    while got < into.len() {
        match retried(|| read(&mut into[got..], got))? {
            0 => break,
            more => got += more,
        }
    }
    Ok(got)
}

/// The empty path, as `Path::parent` gives it for a bare name, means the current directory.
fn named(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

/// `892b9218-da93-461a-b130-a9be188ab57a` as bytes.
fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let mut digits = text.chars().filter(|&character| character != '-');
    let mut uuid = [0; 16];
    for byte in &mut uuid {
        let high = digits.next()?.to_digit(16)?;
        let low = digits.next()?.to_digit(16)?;
        *byte = (high << 4 | low) as u8;
    }
    digits.next().is_none().then_some(uuid)
}

/// A file of [`OsEnv`].
#[derive(Debug)]
struct OsFile {
    file: StdFile,
    path: PathBuf,
}

impl OsFile {
    fn failed(&self, operation: &'static str) -> impl Fn(io::Error) -> Error {
        move |source| Error::io(operation, &self.path, source)
    }

    /// Writes zeros from the present end of the file, or from `offset_bytes` if that is further, up to `end_bytes`. If
    /// that fails the file is cut back to what it was.
    fn append_zeros(&self, offset_bytes: u64, end_bytes: u64) -> Result<()> {
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

#[cfg(test)]
mod tests;
