//! `leveldb_writebatch_t`: changes that are applied together.

use std::ffi::{c_char, c_void};

use slmdb::{Change, WriteBatch};

use crate::common::arguments::{bytes, change, give_back, make};
use crate::common::failure::{Failure, Result};

/// Changes that are applied together. The functions that add to it can't tell an error, so it remembers the first: then
/// it is not applied, and `leveldb_write` tells why.
#[derive(Default)]
pub struct leveldb_writebatch_t {
    batch: WriteBatch,
    failure: Option<Failure>,
}

impl leveldb_writebatch_t {
    /// The changes. Error: one of them could not be added.
    pub(super) fn whole(&self) -> Result<&WriteBatch> {
        self.failure.clone().map_or(Ok(&self.batch), Err)
    }

    fn add(&mut self, add: impl FnOnce(&mut WriteBatch) -> Result<()>) {
        if self.failure.is_none() {
            self.failure = add(&mut self.batch).err();
        }
    }
}

/// An empty batch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writebatch_create() -> *mut leveldb_writebatch_t {
    make(leveldb_writebatch_t::default())
}

/// Gives it back; null is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writebatch_destroy(batch: *mut leveldb_writebatch_t) {
    // SAFETY: HANDLE.
    unsafe { give_back(batch) };
}

/// Empties it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writebatch_clear(batch: *mut leveldb_writebatch_t) {
    // SAFETY: HANDLE.
    unsafe {
        change(batch, |batch| {
            batch.batch.clear();
            batch.failure = None;
        });
    }
}

/// Adds a put.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writebatch_put(
    batch: *mut leveldb_writebatch_t,
    key: *const c_char,
    key_bytes: usize,
    value: *const c_char,
    value_bytes: usize,
) {
    // SAFETY: HANDLE, BYTES.
    unsafe {
        change(batch, |batch| {
            batch.add(|to| Ok(to.put(bytes(key, key_bytes, "the key")?, bytes(value, value_bytes, "the value")?)?));
        });
    }
}

/// Adds a delete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writebatch_delete(
    batch: *mut leveldb_writebatch_t,
    key: *const c_char,
    key_bytes: usize,
) {
    // SAFETY: HANDLE, BYTES.
    unsafe { change(batch, |batch| batch.add(|to| Ok(to.delete(bytes(key, key_bytes, "the key")?)?))) };
}

/// LevelDB's `put` of [`leveldb_writebatch_iterate`].
pub type OnPut = unsafe extern "C" fn(
    state: *mut c_void,
    key: *const c_char,
    key_bytes: usize,
    value: *const c_char,
    value_bytes: usize,
);

/// LevelDB's `deleted` of [`leveldb_writebatch_iterate`].
pub type OnDelete = unsafe extern "C" fn(state: *mut c_void, key: *const c_char, key_bytes: usize);

/// Calls a function for each put and each delete, in their order. A null function is not called. LevelDB has none for deletes
/// of ranges: it passes over them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writebatch_iterate(
    batch: *const leveldb_writebatch_t,
    state: *mut c_void,
    put: Option<OnPut>,
    deleted: Option<OnDelete>,
) {
    // SAFETY: HANDLE.
    let Some(batch) = (unsafe { batch.as_ref() }) else { return };
    for one in batch.batch.iter() {
        match one {
            Change::Put { key, value } => {
                if let Some(put) = put {
                    // SAFETY: CALLBACK; key and value live as long as the call.
                    unsafe { put(state, key.as_ptr().cast(), key.len(), value.as_ptr().cast(), value.len()) };
                }
            }
            Change::Delete { key } => {
                if let Some(deleted) = deleted {
                    // SAFETY: CALLBACK; the key lives as long as the call.
                    unsafe { deleted(state, key.as_ptr().cast(), key.len()) };
                }
            }
            Change::DeleteRange { .. } => {}
        }
    }
}

/// Adds the changes of another batch, which may be the same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writebatch_append(
    destination: *mut leveldb_writebatch_t,
    source: *const leveldb_writebatch_t,
) {
    // A copy, because both may be the same.
    // SAFETY: HANDLE.
    let Some((added, failure)) = (unsafe { source.as_ref() }).map(|from| (from.batch.clone(), from.failure.clone()))
    else {
        return;
    };
    // SAFETY: HANDLE.
    unsafe {
        change(destination, |destination| {
            destination.add(|to| {
                added.iter().try_for_each(|one| match one {
                    Change::Put { key, value } => to.put(key, value),
                    Change::Delete { key } => to.delete(key),
                    Change::DeleteRange { range } => to.delete_range::<&[u8]>(range),
                })?;
                failure.map_or(Ok(()), Err)
            });
        });
    }
}
