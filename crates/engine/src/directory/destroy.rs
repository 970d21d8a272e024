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

use slmdb_env::{Error, ErrorKind, LockMode, Result};
use slmdb_manifest::{FILE_NAME as MANIFEST_NAME, Manifest, MediumRecord, StoreState};
use slmdb_pmem::pool::{creation_finished, has_uuid, remove_pool_on};
use slmdb_pmem::{AnyMedium, Persistent};

use super::open::check_directory;
use super::{contents, home, pool_binding};
use crate::files::file_names as names;
use crate::{Destroyed, Options, PoolFate};

/// Removes the store in `directory`, whichever engine made it, with its pool, and nothing else.
pub fn destroy(options: &Options, directory: &Path) -> Result<Destroyed> {
    destroy_on(options, directory, &Persistent::new().into())
}

/// Destroys a store. A device that holds its pool is accessed through a medium that the caller brings, for simulators.
pub fn destroy_on(options: &Options, directory: &Path, medium: &AnyMedium) -> Result<Destroyed> {
    check_directory(&*options.env, directory)?;
    // The directory itself is removed, not a link to it.
    let directory = &options.env.resolved(directory)?;
    if !contents::is_store(&*options.env, directory)? {
        return Err(Error::invalid(format!("there is no store in {}", directory.display())));
    }
    let mut options = options.holding(directory)?;
    let lock = options.env.lock(&directory.join(names::LOCK), LockMode::Exclusive)?;
    let (manifest, marker) = (directory.join(MANIFEST_NAME), directory.join(names::DESTROYED));
    let has_manifest = options.env.exists(&manifest)?;
    let (pool, uuid) = pool_of(&mut options, directory, if has_manifest { &manifest } else { &marker })?;
    let env = &*options.env;
    let pool_lock = match &pool {
        PoolFate::Removed(path) => home::lock_file(env, path, LockMode::Alone)?,
        _ => None,
    };
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
        if !contents::is_own(&entry) {
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
    if destroyed.left.is_empty() {
        // A file system may be mounted on it, or somebody else may own the one above. The data are gone all the same.
        destroyed.is_directory_left = !env.remove_directory(directory).unwrap_or(false);
        if !destroyed.is_directory_left {
            directory.parent().map_or(Ok(()), |parent| env.sync_directory(parent))?;
        }
    }
    drop((lock, pool_lock));
    tracing::info!(directory = %directory.display(), files = destroyed.files, bytes = destroyed.bytes, "destroyed");
    Ok(destroyed)
}

/// What is to become of the pool that a MANIFEST or the options name, and its UUID, if that is known. From here on the options'
/// environment holds the pool's directory.
fn pool_of(options: &mut Options, directory: &Path, manifest: &Path) -> Result<(PoolFate, Option<[u8; 16]>)> {
    let env = options.env.clone();
    let env = &*env;
    if env.exists(&directory.join(names::UNFINISHED_COPY))? {
        // Copies have none.
        return Ok((PoolFate::None, None));
    }
    let state = match Manifest::read_file(env, manifest) {
        Ok(reading) => reading.state,
        Err(error) if env.exists(manifest)? && error.kind() != ErrorKind::Corruption => return Err(error),
        Err(error) => {
            let path = options.pool_path()?;
            let why = format!("whose pool it is, if there is one, is not known: {error}");
            return Ok((PoolFate::Left { path, why }, None));
        }
    };
    if let Some(path) = home::others_pool(options, directory, &state)? {
        let why =
            "it belongs to the directory that this one was copied from, or moved from to another file system".into();
        return Ok((PoolFate::Left { path: Some(path), why }, None));
    }
    let is_virgin = pool_binding::is_virgin(&state);
    let StoreState { medium: MediumRecord { kind, pool_path, pool_uuid, .. }, unfinished_repair, .. } = state;
    // A repair that was cut short may have left the old pool or the new one, whole or not.
    let in_repair = unfinished_repair.map(|repair| [Some(repair.new_pool), repair.old_pool]);
    let uuids: Vec<_> = [pool_uuid].into_iter().chain(in_repair.into_iter().flatten()).flatten().collect();
    let asked = options.medium.as_ref();
    if let Some(asked) = asked.filter(|asked| asked.kind() != kind) {
        return Err(Error::invalid(format!("the store's fast tier is {kind:?}, not {:?}", asked.kind())));
    }
    let Some(path) = options.pool_path()?.or(pool_path).filter(|_| !uuids.is_empty()) else {
        return Ok((PoolFate::None, None));
    };
    if !env.exists(&path)? {
        return Ok((PoolFate::Missing(path), None));
    }
    // The file itself is removed, not a link to it.
    let path = env.resolved(&path)?;
    pool_binding::hold_pool(options, Some(&path))?;
    let env = &*options.env;
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
