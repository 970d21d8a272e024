//! `leveldb_snapshot_t`: a store as it was at one moment.

use std::sync::{Arc, Weak};

use slmdb::Snapshot;

use crate::common::arguments::{give_back, handle, make};
use crate::common::failure::{Result, caught};
use crate::leveldb::db::leveldb_t;

/// A moment, or why it could not be held on to: the function that takes a snapshot can't tell an error.
pub(super) type Moment = Result<Snapshot>;

/// A store as it was at one moment.
pub struct leveldb_snapshot_t(Arc<Moment>);

impl leveldb_snapshot_t {
    /// A reference that does not keep it.
    pub(super) fn reference(&self) -> Weak<Moment> {
        Arc::downgrade(&self.0)
    }
}

/// Takes a snapshot. If that fails, reads of it give the error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_create_snapshot(db: *mut leveldb_t) -> *const leveldb_snapshot_t {
    // SAFETY: HANDLE.
    let taken = caught(|| Ok(unsafe { handle(db, "the store") }?.db.snapshot()?));
    make(leveldb_snapshot_t(Arc::new(taken)))
}

/// Gives a snapshot back; null is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_release_snapshot(_db: *mut leveldb_t, snapshot: *const leveldb_snapshot_t) {
    // SAFETY: HANDLE.
    unsafe { give_back(snapshot.cast_mut()) };
}
