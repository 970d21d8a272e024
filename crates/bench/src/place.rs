//! Where stores are made to be measured: directories that were empty, or that a benchmark has made and marked. Nothing else is
//! ever removed.

use std::fs;
use std::path::Path;

use crate::error::{Error, Result};

/// A file with this name says that everything in the directory was made to be measured, and may be removed.
pub const MARKER_NAME: &str = "MADE-BY-SLMDB-BENCH";

/// An error if there is something in the directory that no benchmark has made.
pub fn may_be_cleared(directory: &Path) -> Result<()> {
    if directory.join(MARKER_NAME).exists() || is_empty(directory)? {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "there is something in {} that was not made to be measured, and would be removed; name another directory with --db, or \
         measure the store that is there with --use_existing_db",
        directory.display()
    )))
}

/// Makes the directory, if it is missing, and marks it.
pub fn mark(directory: &Path) -> Result<()> {
    let marker = directory.join(MARKER_NAME);
    let marked = fs::create_dir_all(directory).and_then(|()| fs::write(&marker, ""));
    Ok(marked.map_err(|error| slmdb::Error::io("create", &marker, error))?)
}

/// Removes the directory with all that is in it, if that was made to be measured.
pub fn remove(directory: &Path) -> Result<()> {
    may_be_cleared(directory)?;
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(slmdb::Error::io("remove", directory, error).into())
        }
        _ => Ok(()),
    }
}

fn is_empty(directory: &Path) -> Result<bool> {
    match fs::read_dir(directory) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(slmdb::Error::io("read", directory, error).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_marked_stays() {
        let place = tempfile::tempdir().unwrap();
        let (made, notes) = (place.path().join("made"), place.path().join("notes"));
        mark(&made).unwrap();
        fs::create_dir(made.join("sub")).unwrap();
        remove(&made).unwrap();
        assert!(!made.exists());
        remove(&made).unwrap();

        fs::create_dir(&notes).unwrap();
        fs::write(notes.join("a.txt"), "a").unwrap();
        assert!(matches!(remove(&notes), Err(Error::Refused(_))));
        assert_eq!(fs::read(notes.join("a.txt")).unwrap(), b"a");
    }
}
