//! How paths are reached: from a directory that is held, or as the system looks them up.
//!
//! A path leads to whatever has that name at the moment. A store that reached its files by path alone would write into
//! another store, once its own directory was moved and the other put in its place. So whoever opens a store holds its
//! directory ([`Env::hold_directory`](crate::Env::hold_directory)): that path, and all paths below it, are reached through
//! the open directory from then on (`openat` and its kin), wherever it is moved.
//!
//! Every descriptor made here is above 2. A program may run with its standard streams closed, and what a library then
//! prints to "standard error" would land in a file of the store.

use std::fs::File as StdFile;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat, StatxFlags};
use rustix::io::{Errno, retry_on_intr};

use crate::FileIdentity;

/// The highest descriptor of a standard stream.
const STANDARD_ERROR: i32 = 2;

/// A directory that is held open.
#[derive(Debug)]
struct HeldDirectory {
    /// The path that it was found at. It may have another one by now.
    path: PathBuf,
    directory: OwnedFd,
}

/// The directories that are held.
#[derive(Debug, Clone, Default)]
pub(super) struct HeldDirectories(Vec<Arc<HeldDirectory>>);

/// A path as the system takes it: a directory, and a path that begins there.
pub(super) struct Place<'a> {
    pub at: BorrowedFd<'a>,
    pub path: &'a Path,
    /// Whether it is a held directory itself.
    pub is_held: bool,
}

impl Place<'_> {
    /// Whether it lies in a held directory.
    pub fn is_below_held(&self) -> bool {
        !self.is_held && self.at.as_raw_fd() != CWD.as_raw_fd()
    }
}

impl HeldDirectories {
    /// These, and the one at `path`.
    pub fn with(&self, path: &Path) -> io::Result<HeldDirectories> {
        let directory = self.open(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut all = self.0.clone();
        all.push(Arc::new(HeldDirectory { path: path.to_path_buf(), directory }));
        Ok(HeldDirectories(all))
    }

    /// Where `path` is.
    pub fn place<'a>(&'a self, path: &'a Path) -> Place<'a> {
        match self.find(path) {
            Some((held, below)) => {
                let is_held = below.as_os_str().is_empty();
                Place { at: held.directory.as_fd(), path: named(below), is_held }
            }
            None => Place { at: CWD, path: named(path), is_held: false },
        }
    }

    /// The path that the system has for the held directory that `path` is or lies in, and what of `path` comes behind that.
    /// `None` if it lies in none, or the system does not tell.
    pub fn now_at(&self, path: &Path) -> Option<(PathBuf, PathBuf)> {
        let (held, below) = self.find(path)?;
        let now = std::fs::read_link(format!("/proc/self/fd/{}", held.directory.as_raw_fd())).ok()?;
        // A directory that was removed has a name that leads nowhere.
        let is_there = is_same(&rustix::fs::fstat(&held.directory).ok()?, Ok(rustix::fs::stat(&now).ok()?)).ok()?;
        is_there.then(|| (now, below.to_path_buf()))
    }

    /// The held directory that `path` is or lies in, and what comes behind that. Of several the last one counts.
    fn find<'a>(&'a self, path: &'a Path) -> Option<(&'a HeldDirectory, &'a Path)> {
        self.0.iter().rev().find_map(|held| {
            let below = path.strip_prefix(&held.path).ok()?;
            let leads_down = below.components().all(|component| matches!(component, Component::Normal(_)));
            leads_down.then_some((&**held, below))
        })
    }

    /// Opens what is at `path`. Something that is no file makes nobody wait.
    pub fn open(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let place = self.place(path);
        let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let opened = retry_on_intr(|| rustix::fs::openat(place.at, place.path, flags, Mode::from_raw_mode(0o666)))?;
        above_standard_streams(opened)
    }

    /// What the system says of what is at `path`, links followed.
    pub fn look_up(&self, path: &Path) -> io::Result<Stat> {
        let place = self.place(path);
        Ok(retry_on_intr(|| rustix::fs::statat(place.at, place.path, AtFlags::empty()))?)
    }

    /// As [`HeldDirectories::look_up`], of a link itself.
    pub fn look_up_link(&self, path: &Path) -> io::Result<Stat> {
        let place = self.place(path);
        Ok(retry_on_intr(|| rustix::fs::statat(place.at, place.path, AtFlags::SYMLINK_NOFOLLOW))?)
    }

    /// What tells the file or directory at `path` from its copies.
    pub fn identity(&self, path: &Path) -> io::Result<FileIdentity> {
        let (place, wanted) = (self.place(path), StatxFlags::INO | StatxFlags::BTIME);
        let found = match retry_on_intr(|| rustix::fs::statx(place.at, place.path, AtFlags::empty(), wanted)) {
            // A kernel without the call does not tell when something was made.
            Err(Errno::NOSYS) => return Ok(FileIdentity { inode: self.look_up(path)?.st_ino, born_ns: 0 }),
            found => found?,
        };
        let seconds = u64::try_from(found.stx_btime.tv_sec).unwrap_or(0);
        let born_ns = seconds.wrapping_mul(1_000_000_000).wrapping_add(u64::from(found.stx_btime.tv_nsec));
        let is_told = found.stx_mask & StatxFlags::BTIME.bits() != 0;
        Ok(FileIdentity { inode: found.stx_ino, born_ns: if is_told { born_ns } else { 0 } })
    }

    /// Whether `path` leads to a file that is open.
    pub fn leads_to(&self, path: &Path, file: &StdFile) -> io::Result<bool> {
        is_same(&retry_on_intr(|| rustix::fs::fstat(file))?, self.look_up(path))
    }

    /// Whether a held directory is still where it was found.
    pub fn is_in_place(&self, place: &Place<'_>, path: &Path) -> io::Result<bool> {
        let by_path = retry_on_intr(|| rustix::fs::stat(path)).map_err(io::Error::from);
        is_same(&retry_on_intr(|| rustix::fs::fstat(place.at))?, by_path)
    }
}

/// Whether both are the same file. What is not there is no file.
fn is_same(one: &Stat, other: io::Result<Stat>) -> io::Result<bool> {
    match other {
        Ok(other) => Ok((one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The same open file, under a number that is none of the standard streams'.
fn above_standard_streams(opened: OwnedFd) -> io::Result<OwnedFd> {
    if opened.as_raw_fd() > STANDARD_ERROR {
        return Ok(opened);
    }
    Ok(rustix::io::fcntl_dupfd_cloexec(&opened, STANDARD_ERROR + 1)?)
}

/// The empty path, as `Path::parent` gives it for a bare name, means the current directory.
fn named(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

#[cfg(test)]
mod tests;
