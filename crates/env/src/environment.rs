//! [`Env`]: what slmdb asks of an operating system.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::Result;
use crate::file::File;

/// How [`Env::open_file`] opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// An existing file, for reading.
    Read,
    /// An existing file, for reading and writing.
    ReadWrite,
    /// A file that must not exist yet, for reading and writing.
    CreateNew,
    /// A file that is made, or emptied if it exists, for reading and writing.
    CreateOrTruncate,
}

/// How a [`Env::lock`] is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMode {
    /// One holder, nobody else: for writers. Makes the file if there is none and writes the process id into it.
    Exclusive,
    /// Any number of these at once, but no exclusive one: for readers. Changes no byte; the file must exist.
    Shared,
    /// One holder, nobody else: for a file that is more than a lock. Changes no byte; the file must exist.
    Alone,
}

/// A held lock; dropping it releases it.
pub trait Lock: Debug + Send + Sync {}

/// All of them.
impl Lock for Vec<Box<dyn Lock>> {}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The file's name within the directory (lossless for the names slmdb makes; others are given lossily).
    pub name: String,
    /// Its length in bytes (0 for what is not a regular file).
    pub length_bytes: u64,
    /// Whether it is a directory.
    pub is_directory: bool,
}

/// What tells a file or a directory from every other one of its file system, copies of it included. It stays the same when it is
/// renamed, and when its file system is mounted elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileIdentity {
    /// Its number in the file system, which another one may get once this one is removed.
    pub inode: u64,
    /// When it was made, in nanoseconds since 1970 UTC; 0 where the file system does not tell.
    pub born_ns: u64,
}

impl FileIdentity {
    /// Whether both are of one, as far as both tell.
    pub fn is_same(&self, other: &FileIdentity) -> bool {
        self.inode == other.inode && (self.born_ns == other.born_ns || self.born_ns == 0 || other.born_ns == 0)
    }
}

/// Memory that is a character device (device-dax): it can be mapped, but neither read, written, synced nor resized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DaxDevice {
    /// Its size in bytes; a multiple of the alignment, and not 0.
    pub size_bytes: u64,
    /// A mapping begins and ends at multiples of this, in the device and in memory: a power of two, a page at least.
    pub alignment_bytes: u64,
    /// Whether it keeps what it holds when the power goes. Ordinary memory (high-bandwidth, CXL) is given out as device-dax,
    /// too.
    pub is_persistent: bool,
}

/// File system, clock, randomness and identity of the machine. Errors carry the path.
pub trait Env: Debug + Send + Sync + 'static {
    /// Opens a file. Interrupted calls are tried again by every operation here.
    fn open_file(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>>;
    /// An environment for which `directory`, as the path is given here, is the directory that has this path at the moment: all
    /// that is done there and below reaches that one, wherever it is moved, and nothing that may have its path later.
    fn hold_directory(&self, directory: &Path) -> Result<Arc<dyn Env>>;
    /// Renames within one file system, replacing `to`. Durable only after [`Env::sync_directory`].
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;
    /// Gives a file a second name, and says whether that could be done: not between file systems, nor where names can't be
    /// shared. [`Error::Io`](crate::Error::Io) if `to` exists. Durable only after [`Env::sync_directory`].
    fn link_file(&self, from: &Path, to: &Path) -> Result<bool>;
    /// Unlinks a file. Durable only after [`Env::sync_directory`].
    fn remove_file(&self, path: &Path) -> Result<()>;
    /// Makes a directory and its missing parents; an existing one is fine.
    fn create_directory(&self, path: &Path) -> Result<()>;
    /// Removes a directory if nothing is in it, and says whether that was so. One that is held and was moved stays. Durable
    /// only after [`Env::sync_directory`] of the one above.
    fn remove_directory(&self, path: &Path) -> Result<bool>;
    /// Makes the names in a directory durable.
    fn sync_directory(&self, path: &Path) -> Result<()>;
    /// What is in a directory, in no particular order.
    fn list_directory(&self, path: &Path) -> Result<Vec<DirectoryEntry>>;
    /// Whether something exists at `path`.
    fn exists(&self, path: &Path) -> Result<bool>;
    /// The device-dax at `path`; `None` where a file or a directory is, or nothing. [`Error::Unsupported`](crate::Error::Unsupported)
    /// for devices of other kinds, pipes and the like. Nothing is opened.
    fn dax_device(&self, path: &Path) -> Result<Option<DaxDevice>>;
    /// Whether a directory is at `path`; `None` if there is nothing, or if something above it is no directory.
    fn is_directory(&self, path: &Path) -> Result<Option<bool>>;
    /// What tells the file or directory at `path` from copies of it.
    fn identity(&self, path: &Path) -> Result<FileIdentity>;
    /// An absolute path for `path`, which need not exist.
    fn absolute(&self, path: &Path) -> Result<PathBuf>;
    /// Likewise, without `.` and `..`, and without links as far as there is something at them: two of these are the same, or one is
    /// inside the other, if what is there is.
    fn resolved(&self, path: &Path) -> Result<PathBuf>;
    /// Takes a lock without waiting; [`Error::Locked`](crate::Error::Locked) names the holder where it can be found out.
    fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn Lock>>;
    /// Bytes that this process could still write into the file system that holds `path`.
    fn available_bytes(&self, path: &Path) -> Result<u64>;
    /// Whether what one of two files takes is missing for the other: they lie on one file system. Unknown counts as yes.
    fn shares_space(&self, _one: &Path, _other: &Path) -> bool {
        true
    }
    /// Bytes of memory that the system could still give this process, what it would take from its caches of files included;
    /// `None` where that can't be found out. It reads some files: to be asked now and then.
    fn memory_to_give_bytes(&self) -> Option<u64> {
        None
    }
    /// Nanoseconds since 1970 UTC. For people and file properties, never for decisions.
    fn unix_time_ns(&self) -> u64;
    /// Nanoseconds on a clock that never goes back.
    fn monotonic_ns(&self) -> u64;
    /// Which boot of the machine this is: stays the same until it restarts.
    fn boot_id(&self) -> [u8; 16];
    /// Fills `bytes` with random bytes.
    fn random_bytes(&self, bytes: &mut [u8]);
}
