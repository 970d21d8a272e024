//! [`ReservedFile`]: disk space that is allocated before anything is admitted that would need it.
//!
//! It is a file of the directory, `NNNNNNNNNN.space`, as long as the table file of a MemTable can become. The flush gives it the table file's name and writes into it, so no other writer can take the
//! space in between. What is too long is cut off at the end. It holds no data: the next opening removes what a crash
//! left of it.
//!
//! One more belongs to no MemTable: the [reserve](super::reserve).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use slmdb_env::{Env, Error, File, OpenMode, Result};
use slmdb_sync::scheduled::Mutex;

use crate::files::file_names as names;
use crate::lock_order;

/// Disk space that no other writer can take.
pub struct ReservedFile {
    path: PathBuf,
    /// `None` once a flush has taken it.
    file: Mutex<Option<Arc<dyn File>>>,
    length_bytes: AtomicU64,
}

impl ReservedFile {
    /// Makes the file, with no bytes yet, for the table file of the MemTable of `generation`, or for the [reserve](names::RESERVE).
    pub fn new(env: &dyn Env, directory: &Path, generation: u64) -> Result<ReservedFile> {
        let path = names::space(directory, generation);
        let file = env.open_file(&path, OpenMode::CreateOrTruncate)?;
        Ok(ReservedFile {
            path,
            file: Mutex::ranked(lock_order::RESERVED_FILE, Some(file)),
            length_bytes: AtomicU64::new(0),
        })
    }

    /// Sets disk space aside for the table file of a MemTable, or none if the disk has less: its flush then waits for it. `None` if not
    /// even an empty file can be made.
    pub fn set_aside(
        env: &dyn Env,
        directory: &Path,
        generation: u64,
        bytes: u64,
    ) -> Result<Option<Arc<ReservedFile>>> {
        let space = ReservedFile::new(env, directory, generation).and_then(|space| match space.raise(bytes) {
            Err(error) if !error.may_be_tried_again() => Err(error),
            _ => Ok(Some(Arc::new(space))),
        });
        match space {
            Err(error) if error.may_be_tried_again() => Ok(None),
            other => other,
        }
    }

    /// Its length in bytes.
    pub fn length_bytes(&self) -> u64 {
        self.length_bytes.load(Ordering::Acquire)
    }

    /// Makes it at least this long. After [`Error::Full`] it is as long as before.
    pub fn raise(&self, length_bytes: u64) -> Result<()> {
        let file = self.file.lock();
        let before = self.length_bytes();
        if let (Some(file), true) = (&*file, length_bytes > before) {
            file.allocate(before, length_bytes - before)?;
            self.length_bytes.store(length_bytes, Ordering::Release);
        }
        Ok(())
    }

    /// Gives `bytes` back to the file system. Returns whether there were any.
    pub fn lower_by(&self, bytes: u64) -> Result<bool> {
        let file = self.file.lock();
        let before = self.length_bytes();
        match &*file {
            Some(file) if before > 0 => {
                let after = before.saturating_sub(bytes);
                file.set_length(after)?;
                self.length_bytes.store(after, Ordering::Release);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Turns the space into the file `path`, which must not exist, to be written from the front. `None` if it has been
    /// taken and not been [put back](ReservedFile::put_back).
    pub fn take(&self, env: &dyn Env, path: &Path) -> Result<Option<Arc<dyn File>>> {
        let mut file = self.file.lock();
        if file.is_none() {
            return Ok(None);
        }
        if env.exists(path)? {
            return Err(Error::invalid(format!("{} is there already", path.display())));
        }
        env.rename(&self.path, path)?;
        match env.open_file(path, OpenMode::ReadWrite) {
            // It stays reserved space.
            Err(lack) if lack.is_passing_lack() => {
                env.rename(path, &self.path)?;
                Err(lack)
            }
            opened => {
                *file = None;
                opened.map(Some)
            }
        }
    }

    /// Turns the file into reserved space again, whatever is in it, after the flush that took it found no space for
    /// something else. Returns `false` if the file was not made from it.
    pub fn put_back(&self, env: &dyn Env, path: &Path) -> Result<bool> {
        let mut file = self.file.lock();
        if file.is_some() || env.exists(&self.path)? {
            return Ok(false);
        }
        // Opened first: a file that can't be opened keeps its name, by which it is removed.
        drop(env.open_file(path, OpenMode::ReadWrite)?);
        env.rename(path, &self.path)?;
        let left = env.open_file(&self.path, OpenMode::ReadWrite)?;
        self.length_bytes.store(left.length_bytes()?, Ordering::Release);
        *file = Some(left);
        Ok(true)
    }

    /// Gives the space back, unless a flush has taken it.
    pub fn discard(&self, env: &dyn Env) -> Result<()> {
        match self.file.lock().take() {
            Some(_) => env.remove_file(&self.path),
            None => Ok(()),
        }
    }
}

/// Removes what a crash has left of reserved space.
pub fn remove_leftovers(env: &dyn Env, directory: &Path) -> Result<()> {
    for entry in env.list_directory(directory)? {
        if matches!(names::kind(&entry.name), names::FileKind::Space(_)) {
            env.remove_file(&directory.join(&entry.name))?;
        }
    }
    Ok(())
}
