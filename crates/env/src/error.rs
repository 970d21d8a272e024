//! The one error type of slmdb, from the lowest layer to the command line, grouped by what the caller can do about it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;

/// Operations of which nothing has happened when they lack memory, or a thread.
const LACKING_AT: [&str; 11] = [
    START_THREAD,
    "allocate",
    "create",
    "list directory",
    "look up",
    "look up length",
    "map",
    "map memory",
    "open",
    "open directory",
    "reserve addresses",
];

/// The operation of starting a thread, in an [`Error::Io`].
pub const START_THREAD: &str = "start a thread";

/// What can go wrong. Cheap to clone, so that one failure of a background job can be told to every waiting writer.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Somebody else has the store open. Wait, or end the holder.
    #[error("the store is in use by {} [{}]", holder.map_or("another process".to_string(), |pid| format!("process {pid}")), path.display())]
    Locked {
        /// The `LOCK` file.
        path: PathBuf,
        /// The holder's process id, where it can be found out.
        holder: Option<u32>,
    },
    /// The store takes no writes: it was opened read-only, or an earlier failure (the cause) stopped them. Reads go on;
    /// reopening recovers.
    #[error("the store is read-only: {cause}")]
    ReadOnly {
        /// Why.
        cause: String,
    },
    /// The pool or the disk has no room. Nothing of the operation was applied.
    #[error("no space left [{}]: {what}", path.display())]
    Full {
        /// The pool file, or the directory, that is full.
        path: PathBuf,
        /// What was to be stored there.
        what: String,
    },
    /// Bytes on the medium are not what was written there.
    #[error("damage found [{}@{offset}]: {what}", file.display())]
    Corruption {
        /// The damaged file.
        file: PathBuf,
        /// Where in it, in bytes.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
    /// Made by another version or with a feature that this build does not have.
    #[error("not supported{}: {what}", file.as_ref().map(|f| format!(" [{}]", f.display())).unwrap_or_default())]
    Unsupported {
        /// What is not supported.
        what: String,
        /// Where it was met.
        file: Option<PathBuf>,
    },
    /// The caller's request can't be carried out as it stands (a key too long, a store that does not exist, options
    /// that contradict the store). Nothing was done.
    #[error("{what}")]
    Invalid {
        /// What is wrong with it.
        what: String,
    },
    /// The operating system failed.
    #[error("{operation} failed [{}]: {source}", path.display())]
    Io {
        /// What was tried, as a verb: `read`, `sync`, `rename`.
        operation: &'static str,
        /// On which file.
        path: PathBuf,
        /// The cause.
        source: Arc<io::Error>,
    },
}

/// `std::result::Result` with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The groups of [`Error`], by what a caller can do. The names are those the command line prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// See [`Error::Locked`].
    Locked,
    /// See [`Error::ReadOnly`].
    ReadOnly,
    /// See [`Error::Full`].
    Full,
    /// See [`Error::Corruption`].
    Corruption,
    /// See [`Error::Unsupported`].
    Unsupported,
    /// See [`Error::Invalid`].
    Invalid,
    /// See [`Error::Io`].
    Io,
}

impl ErrorKind {
    /// The word for it on the command line: `locked`, `read-only`, `full`, `corruption`, `unsupported`, `invalid`, `io`.
    pub fn name(self) -> &'static str {
        match self {
            ErrorKind::Locked => "locked",
            ErrorKind::ReadOnly => "read-only",
            ErrorKind::Full => "full",
            ErrorKind::Corruption => "corruption",
            ErrorKind::Unsupported => "unsupported",
            ErrorKind::Invalid => "invalid",
            ErrorKind::Io => "io",
        }
    }
}

impl Error {
    /// The group this error belongs to.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Locked { .. } => ErrorKind::Locked,
            Error::ReadOnly { .. } => ErrorKind::ReadOnly,
            Error::Full { .. } => ErrorKind::Full,
            Error::Corruption { .. } => ErrorKind::Corruption,
            Error::Unsupported { .. } => ErrorKind::Unsupported,
            Error::Invalid { .. } => ErrorKind::Invalid,
            Error::Io { .. } => ErrorKind::Io,
        }
    }

    /// Whether the system lacked descriptors, memory or threads for something that had not begun: it may well be had in a moment, and
    /// may then be tried again. (What was written or synced and failed is never that, whatever the cause: it may have been half done.)
    pub fn is_passing_lack(&self) -> bool {
        let Error::Io { operation, source, .. } = self else { return false };
        match source.raw_os_error().map(Errno::from_raw_os_error) {
            // Only opening takes descriptors.
            Some(Errno::MFILE | Errno::NFILE) => true,
            Some(Errno::NOMEM | Errno::AGAIN) => LACKING_AT.contains(operation),
            // In our own words.
            None => source.kind() == io::ErrorKind::OutOfMemory && LACKING_AT.contains(operation),
            _ => false,
        }
    }

    /// Whether nothing has happened of what failed, and it may be tried again: for want of space, or of what may be had in a moment.
    pub fn may_be_tried_again(&self) -> bool {
        matches!(self, Error::Full { .. }) || self.is_passing_lack()
    }

    /// What to do about it, in a few words.
    pub fn advice(&self) -> &'static str {
        match self.kind() {
            ErrorKind::Io if self.is_passing_lack() => {
                "try again when the process has fewer stores or files open, or higher limits"
            }
            ErrorKind::Locked => "close the other opener, or wait for it",
            ErrorKind::ReadOnly => "reopen the store for writing once the cause is mended",
            ErrorKind::Full => "free some space and try again; nothing was written",
            ErrorKind::Corruption => "run `slmdb verify` to see the extent, and restore what is named from a copy",
            ErrorKind::Unsupported => "use the program, or a version and build of slmdb, or a machine, that has it",
            ErrorKind::Invalid => "correct the request",
            ErrorKind::Io => "look at the file system and the device",
        }
    }

    /// An [`Error::Corruption`].
    pub fn corruption(file: impl AsRef<Path>, offset: u64, what: impl Into<String>) -> Error {
        Error::Corruption { file: file.as_ref().to_path_buf(), offset, what: what.into() }
    }

    /// An [`Error::Invalid`].
    pub fn invalid(what: impl Into<String>) -> Error {
        Error::Invalid { what: what.into() }
    }

    /// An [`Error::Io`], or [`Error::Full`] when the cause is that the disk (or a quota) is full.
    pub fn io(operation: &'static str, path: impl AsRef<Path>, source: io::Error) -> Error {
        let path = path.as_ref().to_path_buf();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Error::Full { path, what: format!("{operation}: {source}") }
            }
            _ => Error::Io { operation, path, source: Arc::new(source) },
        }
    }
}
