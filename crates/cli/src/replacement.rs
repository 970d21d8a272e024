//! A file that takes a name only once it is whole: written under another name beside it, made durable, and renamed.

use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::failure::{Failure, Result};
use crate::interruption::Interruption;

/// How many symbolic links are followed, as many as Linux does.
const MAXIMUM_LINKS: usize = 40;

/// A file on its way to its name. Dropped before [`Replacement::put_in_place`], or interrupted, it leaves nothing.
pub struct Replacement {
    temporary: NamedTempFile,
    path: PathBuf,
    replaced: Option<Metadata>,
    interruption: Interruption,
}

/// Where a file of some name is to be written.
pub enum Target {
    /// Beside it, to be renamed.
    Beside(Box<Replacement>),
    /// Into what is there: a pipe, a device, or a file that this process has open already.
    Straight(File),
}

impl Target {
    /// What `path` names: links are followed, also to what is not there yet.
    pub fn of(path: &Path) -> Result<Target> {
        let failed = |error| Failure::io("create", path, error);
        let end = end_of_links(path);
        check_outside_stores(&end)?;
        let replaced = match fs::metadata(&end) {
            Ok(metadata) if metadata.is_dir() => return Err(failed(io::ErrorKind::IsADirectory.into())),
            Ok(metadata) if !metadata.is_file() || is_open_file(&end) => {
                return File::create(path).map(Target::Straight).map_err(failed);
            }
            Ok(_) if is_pool(&end) => {
                let path = path.display();
                return Err(Failure::invalid(format!("{path} is the fast tier of a store; give another name")));
            }
            Ok(metadata) => Some(metadata),
            Err(_) if end.as_os_str().as_bytes().ends_with(b"/") => {
                return Err(failed(io::ErrorKind::IsADirectory.into()));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound && end.file_name().is_some() => None,
            Err(error) => return Err(failed(error)),
        };
        let directory = directory_of(&end);
        fs::metadata(directory).map_err(failed)?;
        let interruption = Interruption::watch().map_err(failed)?;
        let new = Permissions::from_mode(0o666);
        let temporary = tempfile::Builder::new().prefix(".slmdb-export-").permissions(new).tempfile_in(directory);
        let temporary = temporary.map_err(|error| Failure::io("create a file", directory, error))?;
        Ok(Target::Beside(Box::new(Replacement { temporary, path: end, replaced, interruption })))
    }
}

impl Replacement {
    /// What stands under the name as long as this one does not.
    pub fn what_stays(&self) -> &'static str {
        if self.replaced.is_some() { "the file of that name is as it was" } else { "nothing stays under that name" }
    }

    /// Makes it durable and gives it its name, and the owner and the mode of the file that it replaces.
    pub fn put_in_place(self) -> io::Result<()> {
        let file = self.temporary.as_file();
        if let Some(replaced) = &self.replaced {
            // Only a privileged user can give files away, and others own what they replace.
            let _ = fchown(file, Some(replaced.uid()), Some(replaced.gid()));
            file.set_permissions(replaced.permissions())?;
        }
        file.sync_all()?;
        self.temporary.persist(&self.path).map_err(|error| error.error)?;
        File::open(directory_of(&self.path))?.sync_all()
    }
}

impl Write for Replacement {
    /// Fails with a [`Failure::Interrupted`] when a signal has asked the process to end.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.interruption.check().map_err(io::Error::other)?;
        self.temporary.as_file_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Refuses a path in the directory of a store, or below it: nobody but a store writes there.
pub fn check_outside_stores(path: &Path) -> Result<()> {
    let Some(store) = slmdb::containing_store(path)? else { return Ok(()) };
    let (path, store) = (path.display(), store.display());
    Err(Failure::invalid(format!("{path} is inside the store {store}, which alone writes there; give another place")))
}

/// Whether the file begins as the pool of a store does (docs/formats/pool.md).
fn is_pool(path: &Path) -> bool {
    let mut magic = [0; 8];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && &magic == b"slmpool\n"
}

/// What `path` leads to when every link at its end is followed.
fn end_of_links(path: &Path) -> PathBuf {
    let mut end = path.to_path_buf();
    for _ in 0..MAXIMUM_LINKS {
        if is_open_file(&end) {
            break;
        }
        let Ok(link) = fs::read_link(&end) else { break };
        end = directory_of(&end).join(link);
    }
    end
}

/// Whether `path` is one of the names that the system gives to files that a process has open: `/proc/self/fd/1`.
fn is_open_file(path: &Path) -> bool {
    fs::canonicalize(directory_of(path)).is_ok_and(|directory| directory.starts_with("/proc"))
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
