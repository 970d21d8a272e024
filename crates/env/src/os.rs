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
//! How paths are reached is in `os/reach.rs`, an open file in `os/file.rs`, locks in `os/lock.rs`, devices in `os/device.rs`, files
//! that are mapped for reading in `os/mapped.rs`, how much memory there is in `os/memory.rs`, what has a device begin to write in
//! `os/write_back.rs`, and what tells a process from its children in `os/process.rs`.

mod device;
mod file;
mod lock;
mod mapped;
mod memory;
mod process;
mod reach;
mod retried;
mod write_back;

use std::ffi::OsStr;
use std::fs::{self, File as StdFile};
use std::io::{self, ErrorKind as IoErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::{Errno, retry_on_intr};

pub use process::process_number;

use crate::{DaxDevice, DirectoryEntry, Env, Error, File, FileIdentity, Lock, LockMode, OpenMode, Result};
use file::OsFile;
use reach::HeldDirectories;
use retried::retried;

/// When this process first asked for [`Env::monotonic_ns`].
static CLOCK_START: LazyLock<Instant> = LazyLock::new(Instant::now);
/// The boot id can't change while this process lives.
static BOOT_ID: OnceLock<[u8; 16]> = OnceLock::new();

/// The real file system, clock and machine. Copies are the same.
#[derive(Debug, Clone, Default)]
pub struct OsEnv {
    held: HeldDirectories,
}

impl OsEnv {
    /// The environment of this process.
    pub fn new() -> OsEnv {
        OsEnv::default()
    }

    /// What the system says of what is at `path`; `None` if nothing is.
    fn find(&self, path: &Path) -> Result<Option<Stat>> {
        match self.held.look_up(path) {
            Ok(found) => Ok(Some(found)),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(Error::io("look up", path, error)),
        }
    }
}

impl Env for OsEnv {
    fn open_file(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        let (operation, flags) = match mode {
            OpenMode::Read => ("open", OFlags::RDONLY),
            OpenMode::ReadWrite => ("open", OFlags::RDWR),
            OpenMode::CreateNew => ("create", OFlags::RDWR | OFlags::CREATE | OFlags::EXCL),
            OpenMode::CreateOrTruncate => ("create", OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC),
        };
        let opened = self.held.open(path, flags).map_err(|source| Error::io(operation, path, source))?;
        Ok(Arc::new(OsFile { file: opened.into(), path: path.to_path_buf() }))
    }

    fn hold_directory(&self, directory: &Path) -> Result<Arc<dyn Env>> {
        let held = self.held.with(directory).map_err(|source| Error::io("open directory", directory, source))?;
        Ok(Arc::new(OsEnv { held }))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let (old, new) = (self.held.place(from), self.held.place(to));
        let renamed = retry_on_intr(|| rustix::fs::renameat(old.at, old.path, new.at, new.path));
        renamed.map_err(|errno| Error::io("rename", from, errno.into()))
    }

    fn link_file(&self, from: &Path, to: &Path) -> Result<bool> {
        let (old, new) = (self.held.place(from), self.held.place(to));
        match retry_on_intr(|| rustix::fs::linkat(old.at, old.path, new.at, new.path, AtFlags::empty())) {
            Ok(()) => Ok(true),
            // What file systems without links say, and those that have given a file as many names as they can.
            Err(Errno::XDEV | Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM | Errno::ACCESS | Errno::MLINK) => {
                Ok(false)
            }
            Err(errno) => Err(Error::io("link", from, errno.into())),
        }
    }

    fn remove_file(&self, path: &Path) -> Result<()> {
        let place = self.held.place(path);
        retry_on_intr(|| rustix::fs::unlinkat(place.at, place.path, AtFlags::empty()))
            .map_err(|errno| Error::io("remove", path, errno.into()))
    }

    fn create_directory(&self, path: &Path) -> Result<()> {
        let place = self.held.place(path);
        let made = match place.is_below_held() {
            false if place.is_held => Ok(()),
            false => retried(|| fs::create_dir_all(path)),
            true => match retry_on_intr(|| rustix::fs::mkdirat(place.at, place.path, Mode::from_raw_mode(0o777))) {
                Ok(()) | Err(Errno::EXIST) => Ok(()),
                Err(errno) => Err(errno.into()),
            },
        };
        made.map_err(|source| Error::io("create directory", path, source))
    }

    fn remove_directory(&self, path: &Path) -> Result<bool> {
        let failed = |source| Error::io("remove directory", path, source);
        let place = self.held.place(path);
        // The name is what is removed, and another directory may have it.
        if place.is_held && !self.held.is_in_place(&place, path).map_err(failed)? {
            return Ok(false);
        }
        let removed = match place.is_held {
            true => retry_on_intr(|| rustix::fs::rmdir(path)),
            false => retry_on_intr(|| rustix::fs::unlinkat(place.at, place.path, AtFlags::REMOVEDIR)),
        };
        match removed {
            Ok(()) => Ok(true),
            Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
            Err(errno) => Err(failed(errno.into())),
        }
    }

    /// See the module's essay for what is taken as success on file systems that can't do this.
    fn sync_directory(&self, path: &Path) -> Result<()> {
        let place = self.held.place(path);
        let opened = match place.is_held {
            true => None,
            false => Some(
                self.held
                    .open(path, OFlags::RDONLY | OFlags::DIRECTORY)
                    .map_err(|source| Error::io("open directory", path, source))?,
            ),
        };
        match retry_on_intr(|| rustix::fs::fsync(opened.as_ref().map_or(place.at, AsFd::as_fd))) {
            Ok(()) | Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(()),
            Err(errno) => Err(Error::io("sync directory", path, errno.into())),
        }
    }

    /// Symbolic links count as what they point to; a link to nothing is an entry of length 0.
    fn list_directory(&self, path: &Path) -> Result<Vec<DirectoryEntry>> {
        let failed = |source| Error::io("list directory", path, source);
        let directory = self.held.open(path, OFlags::RDONLY | OFlags::DIRECTORY).map_err(failed)?;
        let mut entries = Vec::new();
        for entry in Dir::new(directory).map_err(|errno| failed(errno.into()))? {
            let entry = entry.map_err(|errno| failed(errno.into()))?;
            let name = Path::new(OsStr::from_bytes(entry.file_name().to_bytes()));
            if [Path::new("."), Path::new("..")].contains(&name) {
                continue;
            }
            let place = path.join(name);
            let metadata = match self.held.look_up(&place) {
                Err(error) if error.kind() == IoErrorKind::NotFound => self.held.look_up_link(&place),
                other => other,
            };
            let metadata = match metadata {
                Ok(metadata) => metadata,
                // Removed since the directory was read: as if it had been removed before.
                Err(error) if error.kind() == IoErrorKind::NotFound => continue,
                Err(error) => return Err(Error::io("list directory", place, error)),
            };
            let kind = FileType::from_raw_mode(metadata.st_mode);
            entries.push(DirectoryEntry {
                name: name.to_string_lossy().into_owned(),
                length_bytes: if kind.is_file() { metadata.st_size as u64 } else { 0 },
                is_directory: kind.is_dir(),
            });
        }
        Ok(entries)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        match self.held.look_up(path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == IoErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::io("look up", path, error)),
        }
    }

    fn dax_device(&self, path: &Path) -> Result<Option<DaxDevice>> {
        self.find(path)?.map_or(Ok(None), |found| device::of(&found, path))
    }

    /// Made absolute with the current directory; links and `..` are left as they are.
    fn absolute(&self, path: &Path) -> Result<PathBuf> {
        std::path::absolute(path).map_err(|source| Error::io("make absolute", path, source))
    }

    fn is_directory(&self, path: &Path) -> Result<Option<bool>> {
        Ok(self.find(path)?.map(|found| FileType::from_raw_mode(found.st_mode).is_dir()))
    }

    fn identity(&self, path: &Path) -> Result<FileIdentity> {
        self.held.identity(path).map_err(|source| Error::io("look up", path, source))
    }

    fn resolved(&self, path: &Path) -> Result<PathBuf> {
        let mut resolved = PathBuf::from("/");
        let mut components = self.absolute(path)?;
        if let Some((directory, below)) = self.held.now_at(&components) {
            (resolved, components) = (directory, below);
        }
        for component in components.components() {
            match component {
                // What comes before has no links, or is not there.
                Component::ParentDir => drop(resolved.pop()),
                Component::Normal(name) => {
                    let next = resolved.join(name);
                    resolved = match retried(|| fs::canonicalize(&next)) {
                        Err(error) if is_missing(&error) => next,
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
        lock::take(&self.held, path, mode)
    }

    fn shares_space(&self, one: &Path, other: &Path) -> bool {
        let file_system = |path: &Path| self.held.look_up(path).map(|found| found.st_dev);
        !matches!((file_system(one), file_system(other)), (Ok(one), Ok(other)) if one != other)
    }

    /// What an unprivileged process may write; `path` need not exist as long as one of its parents does.
    fn available_bytes(&self, path: &Path) -> Result<u64> {
        let mut existing = path;
        loop {
            // What lies in a held directory shares its space.
            let place = self.held.place(existing);
            let found = match place.is_held || place.is_below_held() {
                true => retry_on_intr(|| rustix::fs::fstatvfs(place.at)),
                false => retry_on_intr(|| rustix::fs::statvfs(place.path)),
            };
            match (found, existing.parent()) {
                (Ok(found), _) => return Ok(found.f_bavail.saturating_mul(found.f_frsize)),
                (Err(Errno::NOENT), Some(parent)) => existing = parent,
                (Err(errno), _) => return Err(Error::io("look up free space", path, errno.into())),
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

/// Whether it says that nothing is at a path.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), IoErrorKind::NotFound | IoErrorKind::NotADirectory)
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

#[cfg(test)]
mod tests;
