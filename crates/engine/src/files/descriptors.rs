//! [`ClosingEnv`]: the environment of an open store, which closes table files where too many files are open.
//!
//! A process may have only so many files open, and all its parts share that number. A store holds table files open that
//! it may read again soon. So when a file can't be opened, those are closed and the opening is tried once more. A table
//! file that is being read stays open until the read has ended.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use slmdb_env::{DaxDevice, DirectoryEntry, Env, File, FileIdentity, Lock, LockMode, OpenMode, Result};

use crate::files::caches::Caches;

/// The environment of an open store, which closes table files where too many files are open.
#[derive(Debug)]
pub struct ClosingEnv {
    /// The environment beneath.
    pub env: Arc<dyn Env>,
    /// The table files that are held open, and may be closed.
    pub caches: Arc<Caches>,
}

impl ClosingEnv {
    /// Attempts an operation that opens something, and once more after closing table files.
    fn opening<T>(&self, attempt: impl Fn() -> Result<T>) -> Result<T> {
        match attempt() {
            Err(lack) if lack.is_passing_lack() => {
                self.caches.close_all();
                attempt()
            }
            done => done,
        }
    }
}

impl Env for ClosingEnv {
    fn open_file(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        self.opening(|| self.env.open_file(path, mode))
    }

    fn hold_directory(&self, directory: &Path) -> Result<Arc<dyn Env>> {
        let env = self.opening(|| self.env.hold_directory(directory))?;
        Ok(Arc::new(ClosingEnv { env, caches: self.caches.clone() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.env.rename(from, to)
    }

    fn link_file(&self, from: &Path, to: &Path) -> Result<bool> {
        self.env.link_file(from, to)
    }

    fn remove_file(&self, path: &Path) -> Result<()> {
        self.env.remove_file(path)
    }

    fn create_directory(&self, path: &Path) -> Result<()> {
        self.env.create_directory(path)
    }

    fn remove_directory(&self, path: &Path) -> Result<bool> {
        self.env.remove_directory(path)
    }

    /// A sync that failed is not a passing lack, and is not tried again.
    fn sync_directory(&self, path: &Path) -> Result<()> {
        self.opening(|| self.env.sync_directory(path))
    }

    fn list_directory(&self, path: &Path) -> Result<Vec<DirectoryEntry>> {
        self.opening(|| self.env.list_directory(path))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.env.exists(path)
    }

    fn dax_device(&self, path: &Path) -> Result<Option<DaxDevice>> {
        self.opening(|| self.env.dax_device(path))
    }

    fn is_directory(&self, path: &Path) -> Result<Option<bool>> {
        self.env.is_directory(path)
    }

    fn identity(&self, path: &Path) -> Result<FileIdentity> {
        self.env.identity(path)
    }

    fn absolute(&self, path: &Path) -> Result<PathBuf> {
        self.env.absolute(path)
    }

    fn resolved(&self, path: &Path) -> Result<PathBuf> {
        self.env.resolved(path)
    }

    fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn Lock>> {
        self.opening(|| self.env.lock(path, mode))
    }

    fn shares_space(&self, one: &Path, other: &Path) -> bool {
        self.env.shares_space(one, other)
    }

    fn available_bytes(&self, path: &Path) -> Result<u64> {
        self.env.available_bytes(path)
    }

    fn memory_to_give_bytes(&self) -> Option<u64> {
        self.env.memory_to_give_bytes()
    }

    fn unix_time_ns(&self) -> u64 {
        self.env.unix_time_ns()
    }

    fn monotonic_ns(&self) -> u64 {
        self.env.monotonic_ns()
    }

    fn boot_id(&self) -> [u8; 16] {
        self.env.boot_id()
    }

    fn random_bytes(&self, bytes: &mut [u8]) {
        self.env.random_bytes(bytes);
    }
}
