//! What is in a directory: a store's files, others, a whole store, or the rest of one.

use std::path::{Path, PathBuf};

use slmdb_env::{DirectoryEntry, Env, Error, OpenMode, Result};
use slmdb_manifest::{FILE_NAME as MANIFEST_NAME, MAGIC, TEMPORARY_FILE_NAME};

use crate::files::file_names as names;
use crate::files::file_names::FileKind;

/// What a file system puts at its root, for its own repairs.
const LOST_AND_FOUND: &str = "lost+found";

/// Whether it has the name of a store's file, and may be one.
pub(super) fn is_own(entry: &DirectoryEntry) -> bool {
    let others =
        [names::LOCK, MANIFEST_NAME, TEMPORARY_FILE_NAME, names::DESTROYED, names::UNFINISHED_COPY, names::INDEX_IMAGE];
    !entry.is_directory && (names::kind(&entry.name) != FileKind::Other || others.contains(&entry.name.as_str()))
}

/// Whether it belongs to the file system itself.
pub(super) fn is_nobodys(entry: &DirectoryEntry) -> bool {
    entry.is_directory && entry.name == LOST_AND_FOUND
}

/// What of a directory is no store's.
pub(super) fn foreign(entries: &[DirectoryEntry]) -> Option<&DirectoryEntry> {
    entries.iter().find(|entry| !is_own(entry) && !is_nobodys(entry))
}

/// Whether a directory has a store, or the rest of one. A file that is called MANIFEST or LOCK may be foreign: it must
/// begin as ours do, or stand beside table files or arenas, or be all that there is.
pub(super) fn is_store(env: &dyn Env, directory: &Path) -> Result<bool> {
    if !env.exists(directory)? {
        return Ok(false);
    }
    let entries = env.list_directory(directory)?;
    let is_telling = |name: &str| names::kind(name) != FileKind::Other || name == names::UNFINISHED_COPY;
    if entries.iter().any(|entry| !entry.is_directory && is_telling(&entry.name)) {
        return Ok(true);
    }
    for name in [MANIFEST_NAME, names::DESTROYED] {
        let is_there = entries.iter().any(|entry| entry.name == name && !entry.is_directory);
        if is_there && is_manifest(env, &directory.join(name))? {
            return Ok(true);
        }
    }
    // The rest of a creation that was cut short at its very beginning.
    let is_beginning = |name: &str| [names::LOCK, TEMPORARY_FILE_NAME].contains(&name);
    Ok(!entries.is_empty() && entries.iter().all(|entry| !entry.is_directory && is_beginning(&entry.name)))
}

fn is_manifest(env: &dyn Env, path: &Path) -> Result<bool> {
    let mut magic = [0; MAGIC.len()];
    let read = env.open_file(path, OpenMode::Read)?.read_at(&mut magic, 0)?;
    Ok(read == magic.len() && magic == MAGIC)
}

/// The directory of the store that `path` lies in, however far below; `None` if it lies in none. Links are followed, and
/// nothing need be at `path`. A MANIFEST that can't be read is nobody's.
pub fn containing_store(env: &dyn Env, path: &Path) -> Result<Option<PathBuf>> {
    let resolved = env.resolved(path)?;
    let is_store = |directory: &&Path| {
        let manifest = directory.join(MANIFEST_NAME);
        env.exists(&manifest).is_ok_and(|exists| exists) && is_manifest(env, &manifest).is_ok_and(|is_one| is_one)
    };
    Ok(resolved.ancestors().skip(1).find(is_store).map(Path::to_path_buf))
}

/// [`Error::Invalid`] if `path` lies in the directory of a store: nobody but a store puts something there. `what` is to be
/// made at `path`.
pub fn check_outside_stores(env: &dyn Env, path: &Path, what: &str) -> Result<()> {
    let Some(store) = containing_store(env, path)? else { return Ok(()) };
    let (path, store) = (path.display(), store.display());
    Err(Error::invalid(format!(
        "{path} is inside the store {store}, which has its directory to itself; put {what} elsewhere"
    )))
}
