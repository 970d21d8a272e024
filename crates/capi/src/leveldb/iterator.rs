//! `leveldb_iterator_t`: a position that moves over a store as it was at one moment.

use std::ffi::c_char;
use std::sync::{Mutex, OnceLock, PoisonError};

use slmdb::{Cursor, Slice};

use crate::common::arguments::{bytes, change, give_back, handle, make};
use crate::common::failure::{Failure, Result, caught};
use crate::common::memory::answer;
use crate::leveldb::db::leveldb_t;
use crate::leveldb::errors::tell;
use crate::leveldb::request_options::leveldb_readoptions_t;

/// A position. Its functions for reading may be called by several threads at once, as LevelDB's may: so a move copies the
/// key, and the value is read once, under a lock.
pub struct leveldb_iterator_t {
    cursor: Option<Mutex<Cursor>>,
    /// The key of the entry it is on; `None`: it is on none.
    key: Option<Vec<u8>>,
    /// The value of the entry it is on, once it was asked for.
    value: OnceLock<Slice>,
    /// The first failure. It stays, as in LevelDB.
    failure: OnceLock<Failure>,
}

impl leveldb_iterator_t {
    fn of(made: Result<Cursor>) -> leveldb_iterator_t {
        let (cursor, failure) = match made {
            Ok(cursor) => (Some(Mutex::new(cursor)), OnceLock::new()),
            Err(failure) => (None, OnceLock::from(failure)),
        };
        leveldb_iterator_t { cursor, key: None, value: OnceLock::new(), failure }
    }

    fn step(&mut self, step: impl FnOnce(&mut Cursor) -> Result<()>) {
        self.value = OnceLock::new();
        let Some(cursor) = &mut self.cursor else { return };
        let cursor = cursor.get_mut().unwrap_or_else(PoisonError::into_inner);
        let stepped = caught(|| {
            step(cursor)?;
            Ok(cursor.valid())
        });
        if let Ok(true) = stepped {
            let key = self.key.get_or_insert_default();
            key.clear();
            key.extend_from_slice(cursor.key());
        } else {
            self.key = None;
        }
        if let Err(failure) = stepped {
            let _ = self.failure.set(failure);
        }
    }

    /// The value; empty on no entry, and if it can't be read, which [`leveldb_iter_get_error`] tells.
    fn value(&self) -> &[u8] {
        if let Some(value) = self.value.get() {
            return value;
        }
        let (Some(cursor), Some(_)) = (&self.cursor, &self.key) else { return &[] };
        let mut cursor = cursor.lock().unwrap_or_else(PoisonError::into_inner);
        match caught(|| Ok(cursor.value()?)) {
            Ok(value) => self.value.get_or_init(|| value),
            Err(failure) => {
                let _ = self.failure.set(failure);
                &[]
            }
        }
    }
}

/// An iterator over the store as it is now, or as the snapshot of the options sees it. It is on no entry yet. If it can't be
/// made, [`leveldb_iter_get_error`] tells why.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_create_iterator(
    db: *mut leveldb_t,
    options: *const leveldb_readoptions_t,
) -> *mut leveldb_iterator_t {
    let made = caught(|| {
        // SAFETY: HANDLE.
        let (db, options) = unsafe { (handle(db, "the store")?, options.as_ref()) };
        match options.map_or(Ok(None), leveldb_readoptions_t::moment)? {
            Some(moment) => Ok(moment.as_ref().as_ref().map_err(Clone::clone)?.cursor()?),
            None => Ok(db.db.cursor()?),
        }
    });
    make(leveldb_iterator_t::of(made))
}

/// Gives it back; null is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_destroy(iterator: *mut leveldb_iterator_t) {
    // SAFETY: HANDLE.
    unsafe { give_back(iterator) };
}

/// Whether it is on an entry.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_valid(iterator: *const leveldb_iterator_t) -> u8 {
    // SAFETY: HANDLE.
    unsafe { iterator.as_ref() }.is_some_and(|iterator| iterator.key.is_some()).into()
}

/// To the first entry.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_seek_to_first(iterator: *mut leveldb_iterator_t) {
    // SAFETY: HANDLE.
    unsafe { change(iterator, |iterator| iterator.step(|cursor| Ok(cursor.seek_first()?))) };
}

/// To the last entry.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_seek_to_last(iterator: *mut leveldb_iterator_t) {
    // SAFETY: HANDLE.
    unsafe { change(iterator, |iterator| iterator.step(|cursor| Ok(cursor.seek_last()?))) };
}

/// To the first entry at or after a key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_seek(iterator: *mut leveldb_iterator_t, key: *const c_char, key_bytes: usize) {
    // SAFETY: HANDLE, BYTES.
    unsafe {
        change(iterator, |iterator| iterator.step(|cursor| Ok(cursor.seek(bytes(key, key_bytes, "the key")?)?)));
    }
}

/// To the next entry; on none it stays on none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_next(iterator: *mut leveldb_iterator_t) {
    // SAFETY: HANDLE.
    unsafe { change(iterator, |iterator| iterator.step(|cursor| Ok(cursor.next()?))) };
}

/// To the previous entry; on none it stays on none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_prev(iterator: *mut leveldb_iterator_t) {
    // SAFETY: HANDLE.
    unsafe { change(iterator, |iterator| iterator.step(|cursor| Ok(cursor.prev()?))) };
}

/// The key of the entry it is on, until the next move; empty on none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_key(iterator: *const leveldb_iterator_t, key_bytes: *mut usize) -> *const c_char {
    // SAFETY: HANDLE.
    let iterator = unsafe { iterator.as_ref() };
    let key = iterator.and_then(|iterator| iterator.key.as_deref()).unwrap_or_default();
    // SAFETY: PLACE.
    unsafe { answer(key_bytes, key.len()) };
    key.as_ptr().cast()
}

/// The value of the entry it is on, until the next move; empty on none, and if it can't be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_value(
    iterator: *const leveldb_iterator_t,
    value_bytes: *mut usize,
) -> *const c_char {
    // SAFETY: HANDLE.
    let value = unsafe { iterator.as_ref() }.map_or(&[][..], leveldb_iterator_t::value);
    // SAFETY: PLACE.
    unsafe { answer(value_bytes, value.len()) };
    value.as_ptr().cast()
}

/// Tells the first failure, if there was one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_get_error(iterator: *const leveldb_iterator_t, errptr: *mut *mut c_char) {
    // SAFETY: HANDLE.
    if let Some(failure) = unsafe { iterator.as_ref() }.and_then(|iterator| iterator.failure.get()) {
        // SAFETY: the header demands a pointer that is null or came from this interface.
        unsafe { tell(errptr, failure) };
    }
}
