//! What is at a pool's path: whether a pool could be made there, whether one is there, and taking it away.

use std::path::Path;

use slmdb_env::{Env, Error, File, OpenMode, Result};

use super::device::{self, no_direct_file};
use super::header::{HEADER_FRONT_BYTES, Header, is_replaceable};
use crate::layout::{MAGIC, UNIT_BYTES, UUID_OFFSET};
use crate::mapping::{Mapping, Sharing};
use crate::medium::Medium;
use crate::persistent::Persistent;

/// Whether the file at `path` is a pool whose creation was finished. `false` for a missing, empty or unfinished one.
/// A caller that redoes a creation on this answer must know from elsewhere that the pool never held anything.
pub fn creation_finished(env: &dyn Env, path: &Path) -> Result<bool> {
    if !env.exists(path)? {
        return Ok(false);
    }
    let device = env.dax_device(path)?;
    let file = env.open_file(path, OpenMode::Read)?;
    let front = match device {
        Some(device) => device::first_unit(&*file, &device)?,
        None => front_of_file(&*file)?,
    };
    Ok(front.len() >= 8 && front[..8] != [0; 8])
}

/// Whether a device-dax is at `path` where a store that has no pool yet could make one. `false`: there is none.
/// [`Error::Invalid`] if the device holds something, [`Error::Unsupported`] if it can't hold a pool.
pub fn check_new_device(env: &dyn Env, path: &Path) -> Result<bool> {
    let Some(device) = env.dax_device(path)? else { return Ok(false) };
    device::check_replaceable(&*env.open_file(path, OpenMode::Read)?, &device, None)?;
    Ok(true)
}

/// Whether a new file at `path`, where nothing is yet, could be mapped as persistent memory: [`Error::Unsupported`] that
/// names the emulation if not. A file is made there for a moment. A device-dax has to be persistent, and nothing is made.
pub fn check_direct(env: &dyn Env, path: &Path) -> Result<()> {
    if let Some(device) = env.dax_device(path)? {
        return device::check_persistence(&device, true, path);
    }
    let file = env.open_file(path, OpenMode::CreateNew)?;
    // While it has no name it can't be left behind.
    env.remove_file(path)?;
    file.allocate(0, UNIT_BYTES)?;
    let descriptor = file.descriptor().ok_or_else(|| no_direct_file(path))?;
    Mapping::reserve(UNIT_BYTES, path)?.file(descriptor, 0, UNIT_BYTES, Sharing::Direct, path)
}

/// A pool may be made where nothing is, over an unfinished creation, and over the same store's pool: nowhere else.
pub(super) fn refuse_foreign_file(env: &dyn Env, path: &Path, uuid: [u8; 16]) -> Result<()> {
    if !env.exists(path)? {
        return Ok(());
    }
    let file = env.open_file(path, OpenMode::Read)?;
    if is_replaceable(&front_of_file(&*file)?, Some(uuid), path) {
        return Ok(());
    }
    Err(Error::invalid(format!("{} is there and is not a pool of this store; it is left alone", path.display())))
}

/// The first unit of a file, or what there is of it.
pub(super) fn front_of_file(file: &dyn File) -> Result<Vec<u8>> {
    let mut unit = vec![0; UNIT_BYTES as usize];
    let read = file.read_at(&mut unit, 0)?;
    unit.truncate(read);
    Ok(unit)
}

/// Whether what is at `path` says that it is a pool with this uuid, whatever else may be wrong with it.
pub fn has_uuid(env: &dyn Env, path: &Path, uuid: [u8; 16]) -> Result<bool> {
    let file = env.open_file(path, OpenMode::Read)?;
    let front = match env.dax_device(path)? {
        Some(device) => device::first_unit(&*file, &device)?,
        None => front_of_file(&*file)?,
    };
    let has_magic = front.get(..8).is_some_and(|magic| magic == MAGIC.to_le_bytes());
    Ok(has_magic && front.get(UUID_OFFSET..UUID_OFFSET + 16).is_some_and(|found| found == uuid))
}

/// How often the pool at `path` was opened for writing; `None` if its header can't be read.
pub fn openings(env: &dyn Env, path: &Path) -> Result<Option<u32>> {
    let file = env.open_file(path, OpenMode::Read)?;
    let (front, bytes) = match env.dax_device(path)? {
        Some(device) => (device::first_unit(&*file, &device)?, device.size_bytes),
        None => (front_of_file(&*file)?, file.length_bytes()?),
    };
    let header = Header::parse(&front[..front.len().min(HEADER_FRONT_BYTES)], bytes, path);
    Ok(header.ok().map(|header| header.open_count))
}

/// Takes away the pool with this uuid: removes the file, or makes the device free for another store. Nothing at `path`
/// is fine, and so is an unfinished creation; anything else is left alone, with [`Error::Invalid`]. REQUIRES: its store is
/// locked, and nobody has the pool open.
///
/// That the name is gone becomes durable only when the caller syncs the directory.
pub fn remove_pool(env: &dyn Env, path: &Path, uuid: [u8; 16]) -> Result<()> {
    remove_pool_on(env, path, uuid, &Persistent::new())
}

/// As [`remove_pool`], with the medium through which a device is cleared.
pub fn remove_pool_on<M: Medium>(env: &dyn Env, path: &Path, uuid: [u8; 16], medium: &M) -> Result<()> {
    if let Some(device) = env.dax_device(path)? {
        let file = env.open_file(path, OpenMode::ReadWrite)?;
        device::check_replaceable(&*file, &device, Some(uuid))?;
        return device::clear(&*file, &device, medium);
    }
    if !env.exists(path)? {
        return Ok(());
    }
    refuse_foreign_file(env, path, uuid)?;
    env.remove_file(path)
}
