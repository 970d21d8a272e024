//! Where a store that has a pool is at home.
//!
//! A copy of the store's directory names the same pool, with the right UUID. Two stores that write into one pool lose the data
//! of both. So the MANIFEST records which directory it lies in, by what a copy of the directory does not have: its number, and
//! when it was made. A copy is refused, and repair gives it a pool of its own. A directory that is renamed, or whose file system is
//! mounted elsewhere, stays the same.
//!
//! The MANIFEST also records how often the pool had been opened, which tells an older copy of the pool. Whoever has a pool open
//! holds a lock of its file, whatever the MANIFESTs say.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use slmdb_env::{Env, Error, Lock, LockMode, OpenMode, Result};
use slmdb_manifest::{Home, MediumKind, StoreState};
use slmdb_pmem::{AnyMedium, Pool};

use super::contents::check_outside_stores;
use super::pool_binding;
use crate::Options;

/// The pool that the MANIFEST names, if it belongs to the store of another directory: this one was copied, or moved to another
/// file system. `None` if the pool came along, and the options name its new place.
pub(crate) fn others_pool(options: &Options, directory: &Path, state: &StoreState) -> Result<Option<PathBuf>> {
    let env = &*options.env;
    let (Some(home), Some(pool)) = (state.home, &state.medium.pool_path) else { return Ok(None) };
    if env.identity(directory)?.is_same(&home.directory) {
        return Ok(None);
    }
    if let Some(asked) = options.pool_path()?
        && env.exists(&asked)?
        && !(env.exists(pool)? && env.identity(&asked)?.is_same(&env.identity(pool)?))
    {
        return Ok(None);
    }
    Ok(Some(pool.clone()))
}

/// [`Error::Invalid`] for a store whose pool belongs to another one: what it wrote into the pool would be lost to that one.
pub(crate) fn check_own_pool(options: &Options, directory: &Path, state: &StoreState) -> Result<()> {
    let Some(pool) = others_pool(options, directory, state)? else { return Ok(()) };
    let (directory, pool) = (directory.display(), pool.display());
    Err(Error::invalid(format!(
        "{directory} was copied, or moved to another file system, and the pool {pool} belongs to the directory it came from: \
         `slmdb repair --db {directory}` gives it a pool of its own; or name the place of a pool that came along \
         (`slmdb checkpoint` makes copies that need none)"
    )))
}

/// Chooses where a copy of a store gets a pool of its own: where the options say, or beside the pool of the other one. Nothing may
/// be there.
pub(crate) fn choose_place(options: &mut Options, others: &Path, state: &mut StoreState) -> Result<()> {
    let env = options.env.clone();
    let path = match options.pool_path()? {
        Some(path) => path,
        None if env.dax_device(others)?.is_none() => {
            let mut random = [0; 4];
            env.random_bytes(&mut random);
            let mut name = others.as_os_str().to_os_string();
            name.push(format!("-{:08x}", u32::from_be_bytes(random)));
            name.into()
        }
        None => {
            let what = format!(
                "the device {} is the pool of the store that this one came from: name another pool",
                others.display()
            );
            return Err(Error::invalid(what));
        }
    };
    check_outside_stores(&*env, &path, "the pool")?;
    pool_binding::check_free(&*env, &path)?;
    state.medium.pool_path = Some(path.clone());
    pool_binding::hold_pool(options, Some(&path))
}

/// Records that a store is at home in its directory, and that its pool was opened so often. On `Dram` there is nothing to record.
pub(crate) fn set_home(env: &dyn Env, directory: &Path, state: &mut StoreState, pool_openings: u32) -> Result<()> {
    if state.medium.kind != MediumKind::Dram {
        state.home = Some(Home { directory: env.identity(directory)?, pool_openings });
    }
    Ok(())
}

/// Records how often a store's pool was opened for writing.
pub fn note_openings(state: &mut StoreState, pool: &Pool<AnyMedium>) {
    if let Some(home) = &mut state.home {
        home.pool_openings = pool.open_count();
    }
}

/// Locks the pool, so that nobody else opens it, whatever store names it; a file is made for one that is to be made. `None`: the
/// store has none, or the pool's file system has no locks.
pub(crate) fn lock_pool(options: &Options, state: &StoreState) -> Result<Option<Box<dyn Lock>>> {
    let env = &*options.env;
    let Some(path) = state.medium.pool_path.as_deref().filter(|_| state.medium.pool_uuid.is_some()) else {
        return Ok(None);
    };
    if !env.exists(path)? {
        if options.read_only || !pool_binding::is_virgin(state) {
            return Ok(None);
        }
        env.open_file(path, OpenMode::CreateOrTruncate)?;
    }
    lock_file(env, path, if options.read_only { LockMode::Shared } else { LockMode::Alone })
}

/// Locks a pool's file. `None`: its file system has no locks.
pub(super) fn lock_file(env: &dyn Env, path: &Path, mode: LockMode) -> Result<Option<Box<dyn Lock>>> {
    match env.lock(path, mode) {
        Err(Error::Io { source, .. }) if source.kind() == ErrorKind::Unsupported => Ok(None),
        locked => locked.map(Some),
    }
}
