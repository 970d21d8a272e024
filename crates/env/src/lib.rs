//! The operating system as slmdb sees it.
//!
//! Every file operation of every layer goes through [`Env`] and [`File`], and so do the clock, randomness and the boot
//! id. [`OsEnv`] is the real one; [`memory::MemoryEnv`] keeps files in memory, counts operations and fails the k-th on
//! request, which is the seam behind which a crash simulator stands. [`Error`] is the one error type of slmdb.
//!
//! `unsafe` is allowed in three modules: one maps files for reading (`os/mapped.rs`), two make a system call that no safe
//! library has (`os/process.rs`, `os/write_back.rs`).
#![deny(unsafe_code)]

mod error;
pub mod memory;
pub mod os;
mod recording;

pub use error::{Error, ErrorKind, Result, START_THREAD};
pub use os::{OsEnv, process_number};
pub use recording::{Recording, Seen, Step, Watcher};

use std::fmt::Debug;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
    /// shared. [`Error::Io`] if `to` exists. Durable only after [`Env::sync_directory`].
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
    /// The device-dax at `path`; `None` where a file or a directory is, or nothing. [`Error::Unsupported`] for devices of
    /// other kinds, pipes and the like. Nothing is opened.
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
    /// Takes a lock without waiting; [`Error::Locked`] names the holder where it can be found out.
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

/// An open file. All operations are positioned, so that any number of threads can share one.
pub trait File: Debug + Send + Sync + 'static {
    /// The path it was opened at, for messages.
    fn path(&self) -> &Path;
    /// Reads up to `into.len()` bytes at `offset_bytes`; fewer only at the end of the file.
    fn read_at(&self, into: &mut [u8], offset_bytes: u64) -> Result<usize>;
    /// Writes all of `bytes` at `offset_bytes`, growing the file where needed.
    fn write_at(&self, bytes: &[u8], offset_bytes: u64) -> Result<()>;
    /// Makes content and length durable (fdatasync).
    fn sync_data(&self) -> Result<()>;
    /// Length in bytes.
    fn length_bytes(&self) -> Result<u64>;
    /// Cuts or grows (with a hole) to this length.
    fn set_length(&self, length_bytes: u64) -> Result<()>;
    /// Allocates real space for `[offset, offset + length)` and grows the file to cover it, so that a full disk is an
    /// error now and not a `SIGBUS` later. Where the file system can't, zeros are written.
    fn allocate(&self, offset_bytes: u64, length_bytes: u64) -> Result<()>;
    /// Whether [`File::allocate`] takes space without writing it, on the file system of this file. REQUIRES: the file is open for
    /// writing, and not empty.
    fn takes_space_at_once(&self) -> bool {
        true
    }
    /// Sees to it that a file that becomes as long as `length_bytes` finds its space there. Its length stays as it is; cutting
    /// it gives back what is beyond the new end. Where the file system can't, nothing happens.
    fn reserve(&self, length_bytes: u64) -> Result<()>;
    /// How many bytes the file system could hold that holds this file, all its files together; `None` where that can't be found out.
    fn file_system_bytes(&self) -> Option<u64> {
        None
    }
    /// Tells the system that reads will be random, so that it reads no more than is asked for. Never fails visibly.
    fn advise_random(&self);
    /// Says that this range will be read soon: a device may begin with it meanwhile. Where nothing comes of that, reading takes
    /// longer, and is as right.
    fn advise_will_read(&self, offset_bytes: u64, length_bytes: u64) {
        let _ = (offset_bytes, length_bytes);
    }
    /// Says that this range is written and stays as it is: a device may begin with it, so that [`File::sync_data`] has less to wait for.
    /// Nothing is durable by that. Never fails visibly.
    fn advise_written(&self, offset_bytes: u64, length_bytes: u64) {
        let _ = (offset_bytes, length_bytes);
    }
    /// What is in the file is not needed any more, but its place is: what is cached of it may go, and need never be written. It holds
    /// zeros afterwards, or what it held. Never fails visibly.
    fn give_up_content(&self) {}
    /// Maps the first `length_bytes` of the file for reading, if that can be: whoever reads much of a file that is in memory saves a
    /// call of the system for each read. `None` says no more than that it has to be read by [`File::read_at`].
    fn map(&self, length_bytes: u64) -> Option<Arc<dyn Mapped>> {
        let _ = length_bytes;
        None
    }
    /// The descriptor, for mapping; `None` in environments that have none.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;
    /// Where there is no descriptor: what was just stored to memory that stands for a mapping of this file, so that the file has
    /// it, too, as if it had been mapped. Bytes behind the file's end go nowhere, as with a mapping. Nothing by default.
    fn store_mapped(&self, bytes: &[u8], offset_bytes: u64) {
        let _ = (bytes, offset_bytes);
    }

    /// Reads exactly `into.len()` bytes; a file that ends before is [`Error::Corruption`].
    fn read_exact_at(&self, into: &mut [u8], offset_bytes: u64) -> Result<()> {
        let got = self.read_at(into, offset_bytes)?;
        if got == into.len() {
            return Ok(());
        }
        let what = format!("the file ends {} bytes early", into.len() - got);
        Err(Error::corruption(self.path(), offset_bytes.saturating_add(got as u64), what))
    }
}

/// A file that is mapped for reading. It goes on when the file is closed or its name is taken away, as an open file does.
///
/// What is read is copied, so that it can't change any more, whatever happens to the file. A mapping answers only for what it has
/// at once: for the rest (what is not in memory, what can't be read, what is behind the end) the file is to be read, which waits, or
/// has the error.
pub trait Mapped: Debug + Send + Sync + 'static {
    /// How much of the file is mapped, in bytes.
    fn length_bytes(&self) -> u64;
    /// Reads exactly `into.len()` bytes, or says `false`: then the file has to be read, and `into` may hold anything.
    fn read_at(&self, into: &mut [u8], offset_bytes: u64) -> Result<bool>;
    /// Reads exactly so many bytes into memory of their own; `None`: the file has to be read.
    fn read_shared(&self, length_bytes: usize, offset_bytes: u64) -> Result<Option<Arc<[u8]>>> {
        let mut bytes: Arc<[u8]> = std::iter::repeat_n(0, length_bytes).collect();
        // Nobody else has them yet.
        let is_read = self.read_at(Arc::get_mut(&mut bytes).unwrap_or_default(), offset_bytes)?;
        Ok(is_read.then_some(bytes))
    }
    /// Says that these bytes will be read in a moment, so that the processor fetches what of them is in memory. A hint, which costs next to
    /// nothing; nothing by default.
    fn prefetch(&self, offset_bytes: u64, length_bytes: usize) {
        let _ = (offset_bytes, length_bytes);
    }
    /// Says that what was in memory may have left it meanwhile: it is to be looked at again. To be said now and then. Nothing by default.
    fn doubt(&self) {}
}
