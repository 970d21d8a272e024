//! The record of what happened to the files of a [`MemoryEnv`](super::MemoryEnv), for crash simulators.

use std::path::PathBuf;
use std::sync::Arc;

use crate::{Recording, Step};

/// One thing that happened to the files. A file is meant by its number, whatever names it has. Paths are absolute and normal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileEvent {
    /// A name for a file came to be: of a new one, or by a link.
    Name {
        /// The file.
        file: u64,
        /// Its name.
        path: PathBuf,
    },
    /// A name was taken from a file and given to it anew, replacing whatever was there.
    Rename {
        /// The file.
        file: u64,
        /// The name it had.
        from: PathBuf,
        /// The name it has.
        to: PathBuf,
    },
    /// A name went away.
    Remove {
        /// The file that had it.
        file: u64,
        /// The name.
        path: PathBuf,
    },
    /// Bytes were written, or stored to a mapping; the file became longer where they end behind its end.
    Write {
        /// The file.
        file: u64,
        /// Where they begin.
        offset_bytes: u64,
        /// The bytes.
        bytes: Arc<[u8]>,
    },
    /// A file was cut, or became longer with zeros.
    SetLength {
        /// The file.
        file: u64,
        /// How long it is now.
        length_bytes: u64,
    },
    /// A file's content and length became durable, or seemed to: `done` is what the watcher said.
    Sync {
        /// The file.
        file: u64,
        /// Whether it was really done.
        done: bool,
    },
    /// A directory came to be, in one that was there.
    CreateDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// An empty directory went away.
    RemoveDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// The names in a directory became durable, or seemed to.
    SyncDirectory {
        /// The directory.
        path: PathBuf,
        /// Whether it was really done.
        done: bool,
    },
}

/// A [`FileEvent`] in its place.
#[derive(Debug, Clone)]
pub struct FileRecord {
    /// Its number in the [`Recording`].
    pub moment: u64,
    /// From where in the program it came, for syncs; else 0.
    pub call_path: u32,
    /// What happened.
    pub event: FileEvent,
}

/// What records.
#[derive(Debug)]
pub(super) struct Recorder {
    pub(super) recording: Arc<Recording>,
    pub(super) records: Vec<FileRecord>,
}

impl Recorder {
    pub(super) fn push(&mut self, event: FileEvent) {
        let moment = self.recording.draw();
        self.records.push(FileRecord { moment, call_path: 0, event });
    }

    /// Notes a sync; says whether it is to be done.
    pub(super) fn push_sync(&mut self, step: Step, event: impl FnOnce(bool) -> FileEvent) -> bool {
        let seen = self.recording.see(step);
        let moment = self.recording.draw();
        self.records.push(FileRecord { moment, call_path: seen.path, event: event(seen.done) });
        seen.done
    }
}
