//! [`WatchedEnv`]: an environment that passes everything on to another and notes what is read and written.

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use slmdb_env::{DaxDevice, DirectoryEntry, Env, File, FileIdentity, Lock, LockMode, Mapped, OpenMode, Result};

/// What was noted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Notes {
    /// Offset and length of each `read_at`.
    pub reads: Vec<(u64, usize)>,
    /// Offset and length of each `write_at`.
    pub writes: Vec<(u64, usize)>,
    pub advised_random: bool,
    /// Offset and length of each `advise_written`.
    pub advised_written: Vec<(u64, u64)>,
}

/// See the module.
#[derive(Debug)]
pub struct WatchedEnv<E> {
    inner: E,
    /// Writes are noted but go nowhere: for files too large for a test.
    discards_writes: bool,
    notes: Arc<Mutex<Notes>>,
}

impl<E: Env> WatchedEnv<E> {
    pub fn new(inner: E) -> WatchedEnv<E> {
        WatchedEnv { inner, discards_writes: false, notes: Arc::default() }
    }

    pub fn that_discards_writes(inner: E) -> WatchedEnv<E> {
        WatchedEnv { discards_writes: true, ..WatchedEnv::new(inner) }
    }

    /// What was noted since the last call.
    pub fn take_notes(&self) -> Notes {
        std::mem::take(&mut self.notes.lock().unwrap())
    }
}

#[derive(Debug)]
struct WatchedFile {
    inner: Arc<dyn File>,
    discards_writes: bool,
    notes: Arc<Mutex<Notes>>,
}

impl File for WatchedFile {
    fn path(&self) -> &Path {
        self.inner.path()
    }
    fn read_at(&self, into: &mut [u8], offset_bytes: u64) -> Result<usize> {
        self.notes.lock().unwrap().reads.push((offset_bytes, into.len()));
        self.inner.read_at(into, offset_bytes)
    }
    fn write_at(&self, bytes: &[u8], offset_bytes: u64) -> Result<()> {
        self.notes.lock().unwrap().writes.push((offset_bytes, bytes.len()));
        if self.discards_writes { Ok(()) } else { self.inner.write_at(bytes, offset_bytes) }
    }
    fn sync_data(&self) -> Result<()> {
        self.inner.sync_data()
    }
    fn length_bytes(&self) -> Result<u64> {
        self.inner.length_bytes()
    }
    fn set_length(&self, length_bytes: u64) -> Result<()> {
        self.inner.set_length(length_bytes)
    }
    fn allocate(&self, offset_bytes: u64, length_bytes: u64) -> Result<()> {
        self.inner.allocate(offset_bytes, length_bytes)
    }
    fn reserve(&self, length_bytes: u64) -> Result<()> {
        self.inner.reserve(length_bytes)
    }
    fn advise_random(&self) {
        self.notes.lock().unwrap().advised_random = true;
        self.inner.advise_random();
    }
    fn advise_written(&self, offset_bytes: u64, length_bytes: u64) {
        self.notes.lock().unwrap().advised_written.push((offset_bytes, length_bytes));
        self.inner.advise_written(offset_bytes, length_bytes);
    }
    fn map(&self, length_bytes: u64) -> Option<Arc<dyn Mapped>> {
        self.inner.map(length_bytes)
    }
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inner.descriptor()
    }
}

impl<E: Env> Env for WatchedEnv<E> {
    fn open_file(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        let inner = self.inner.open_file(path, mode)?;
        let notes = self.notes.clone();
        Ok(Arc::new(WatchedFile { inner, discards_writes: self.discards_writes, notes }))
    }
    fn hold_directory(&self, directory: &Path) -> Result<Arc<dyn Env>> {
        self.inner.hold_directory(directory)
    }
    fn identity(&self, path: &Path) -> Result<FileIdentity> {
        self.inner.identity(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.rename(from, to)
    }
    fn link_file(&self, from: &Path, to: &Path) -> Result<bool> {
        self.inner.link_file(from, to)
    }
    fn remove_file(&self, path: &Path) -> Result<()> {
        self.inner.remove_file(path)
    }
    fn remove_directory(&self, path: &Path) -> Result<bool> {
        self.inner.remove_directory(path)
    }
    fn dax_device(&self, path: &Path) -> Result<Option<DaxDevice>> {
        self.inner.dax_device(path)
    }
    fn create_directory(&self, path: &Path) -> Result<()> {
        self.inner.create_directory(path)
    }
    fn sync_directory(&self, path: &Path) -> Result<()> {
        self.inner.sync_directory(path)
    }
    fn list_directory(&self, path: &Path) -> Result<Vec<DirectoryEntry>> {
        self.inner.list_directory(path)
    }
    fn exists(&self, path: &Path) -> Result<bool> {
        self.inner.exists(path)
    }
    fn is_directory(&self, path: &Path) -> Result<Option<bool>> {
        self.inner.is_directory(path)
    }
    fn resolved(&self, path: &Path) -> Result<PathBuf> {
        self.inner.resolved(path)
    }
    fn absolute(&self, path: &Path) -> Result<PathBuf> {
        self.inner.absolute(path)
    }
    fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn Lock>> {
        self.inner.lock(path, mode)
    }
    fn available_bytes(&self, path: &Path) -> Result<u64> {
        self.inner.available_bytes(path)
    }
    fn memory_to_give_bytes(&self) -> Option<u64> {
        self.inner.memory_to_give_bytes()
    }
    /// Stands still, so that a table of the same entries is the same file.
    fn unix_time_ns(&self) -> u64 {
        1_700_000_000_000_000_000
    }
    fn monotonic_ns(&self) -> u64 {
        self.inner.monotonic_ns()
    }
    fn boot_id(&self) -> [u8; 16] {
        self.inner.boot_id()
    }
    fn random_bytes(&self, bytes: &mut [u8]) {
        self.inner.random_bytes(bytes);
    }
}
