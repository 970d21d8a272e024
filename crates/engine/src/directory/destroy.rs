//! Destroying a store: its files and its pool, and nothing else.
//!
//! 1. The directory is locked, as for writing, so the store is not open.
//! 2. The MANIFEST is renamed, durably. From here on there is no store: it can't be opened, repaired, or replaced by a
//!    new one. But the place of its pool can still be read.
//! 3. The pool is removed, if its UUID is this store's; then everything that has the name of a store's file.
//! 4. When that is durable, `LOCK` and the renamed MANIFEST are removed, and the directory if it is empty.
//!
//! If it is cut short, doing it again goes on. Before step 2 the store is as it was.

use std::path::Path;

use slmdb_env::{Env, Error, ErrorKind, LockMode, OpenMode, Result};
use slmdb_manifest::{FILE_NAME as MANIFEST_NAME, MAGIC, Manifest, MediumRecord, StoreState, TEMPORARY_FILE_NAME};
use slmdb_pmem::pool::{creation_finished, has_uuid, remove_pool_on};
use slmdb_pmem::{Medium, Persistent};

use super::open::check_directory;
use super::pool_binding;
use crate::files::file_names as names;
use crate::files::file_names::FileKind;
use crate::{Destroyed, Options, PoolFate};

/// Removes the store in `directory`, whichever engine made it, with its pool, and nothing else.
pub fn destroy(options: &Options, directory: &Path) -> Result<Destroyed> {
    destroy_on(options, directory, &Persistent::new())
}

/// Destroys a store. A device that holds its pool is accessed through a medium that the caller brings, for simulators.
pub fn destroy_on<M: Medium>(options: &Options, directory: &Path, medium: &M) -> Result<Destroyed> {
    let env = &*options.env;
    check_directory(env, directory)?;
    let directory = &env.absolute(directory)?;
    if !is_store(env, directory)? {
        return Err(Error::invalid(format!("there is no store in {}", directory.display())));
    }
    let lock = env.lock(&directory.join(names::LOCK), LockMode::Exclusive)?;
    let (manifest, marker) = (directory.join(MANIFEST_NAME), directory.join(names::DESTROYED));
    let has_manifest = env.exists(&manifest)?;
    let (pool, uuid) = pool_of(options, if has_manifest { &manifest } else { &marker })?;
    if has_manifest {
        env.rename(&manifest, &marker)?;
        env.sync_directory(directory)?;
    }
    if let (PoolFate::Removed(path), Some(uuid)) = (&pool, uuid) {
        // A device is freed for another store, and stays where it is.
        match env.dax_device(path)? {
            Some(_) => remove_pool_on(env, path, uuid, medium)?,
            None => env.remove_file(path)?,
        }
        path.parent().map_or(Ok(()), |parent| env.sync_directory(parent))?;
    }
    let mut destroyed = Destroyed { pool, ..Destroyed::default() };
    let mut last = Vec::new();
    for entry in env.list_directory(directory)? {
        let path = directory.join(&entry.name);
        if entry.is_directory || !is_own(&entry.name) {
            destroyed.left.push(entry.name);
            continue;
        }
        destroyed.files += 1;
        destroyed.bytes += entry.length_bytes;
        if [names::LOCK, names::DESTROYED].contains(&entry.name.as_str()) {
            last.push(path);
        } else {
            env.remove_file(&path)?;
        }
    }
    env.sync_directory(directory)?;
    // `LOCK` comes first. An opening that makes and locks a new one finds the other file, and no store.
    last.sort();
    last.iter().try_for_each(|path| env.remove_file(path))?;
    env.sync_directory(directory)?;
    destroyed.left.sort();
    if destroyed.left.is_empty() && env.remove_directory(directory)? {
        directory.parent().map_or(Ok(()), |parent| env.sync_directory(parent))?;
    }
    drop(lock);
    tracing::info!(directory = %directory.display(), files = destroyed.files, bytes = destroyed.bytes, "destroyed");
    Ok(destroyed)
}

/// Whether a name is that of a store's file.
fn is_own(name: &str) -> bool {
    let others = [names::LOCK, MANIFEST_NAME, TEMPORARY_FILE_NAME, names::DESTROYED, names::INDEX_IMAGE];
    names::kind(name) != FileKind::Other || others.contains(&name)
}

/// Whether a directory has a store, or the rest of one. A file that is called MANIFEST or LOCK may be foreign: it must
/// begin as ours do, or stand beside table files or arenas, or be all that there is.
fn is_store(env: &dyn Env, directory: &Path) -> Result<bool> {
    if !env.exists(directory)? {
        return Ok(false);
    }
    let entries = env.list_directory(directory)?;
    if entries.iter().any(|entry| !entry.is_directory && names::kind(&entry.name) != FileKind::Other) {
        return Ok(true);
    }
    for name in [MANIFEST_NAME, names::DESTROYED] {
        if entries.iter().any(|entry| entry.name == name && !entry.is_directory) {
            let mut magic = [0; MAGIC.len()];
            let read = env.open_file(&directory.join(name), OpenMode::Read)?.read_at(&mut magic, 0)?;
            if read == magic.len() && magic == MAGIC {
                return Ok(true);
            }
        }
    }
    // The rest of a creation that was cut short at its very beginning.
    let is_beginning = |name: &str| [names::LOCK, TEMPORARY_FILE_NAME].contains(&name);
    Ok(!entries.is_empty() && entries.iter().all(|entry| !entry.is_directory && is_beginning(&entry.name)))
}

/// What is to become of the pool that a MANIFEST or the options name, and its UUID, if that is known.
fn pool_of(options: &Options, manifest: &Path) -> Result<(PoolFate, Option<[u8; 16]>)> {
    let env = &*options.env;
    let state = match Manifest::read_file(env, manifest) {
        Ok(reading) => reading.state,
        Err(error) if env.exists(manifest)? && error.kind() != ErrorKind::Corruption => return Err(error),
        Err(error) => {
            let path = options.medium.as_ref().and_then(|medium| medium.pool_path()).map(Path::to_path_buf);
            let why = format!("whose pool it is, if there is one, is not known: {error}");
            return Ok((PoolFate::Left { path, why }, None));
        }
    };
    let is_virgin = pool_binding::is_virgin(&state);
    let StoreState { medium: MediumRecord { kind, pool_path, pool_uuid, .. }, unfinished_repair, .. } = state;
    // A repair that was cut short may have left the old pool or the new one, whole or not.
    let in_repair = unfinished_repair.map(|repair| [Some(repair.new_pool), repair.old_pool]);
    let uuids: Vec<_> = [pool_uuid].into_iter().chain(in_repair.into_iter().flatten()).flatten().collect();
    let asked = options.medium.as_ref();
    if let Some(asked) = asked.filter(|asked| asked.kind() != kind) {
        return Err(Error::invalid(format!("the store's fast tier is {kind:?}, not {:?}", asked.kind())));
    }
    let asked = asked.and_then(|medium| medium.pool_path()).map(|path| env.absolute(path)).transpose()?;
    let Some(path) = asked.or(pool_path).filter(|_| !uuids.is_empty()) else {
        return Ok((PoolFate::None, None));
    };
    if !env.exists(&path)? {
        return Ok((PoolFate::Missing(path), None));
    }
    for &uuid in &uuids {
        if has_uuid(env, &path, uuid)? {
            return Ok((PoolFate::Removed(path), Some(uuid)));
        }
    }
    if !creation_finished(env, &path)? {
        // A device that was freed already, or on which a creation was cut short, is free.
        if env.dax_device(&path)?.is_some() {
            return Ok((PoolFate::Missing(path), None));
        }
        // A file whose creation was cut short does not name its store yet.
        if is_virgin || unfinished_repair.is_some() {
            return Ok((PoolFate::Removed(path), uuids.first().copied()));
        }
    }
    Ok((PoolFate::Left { path: Some(path), why: "it is not the pool of this store".into() }, None))
}
