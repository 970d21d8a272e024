//! LMDB, as `lmdb-master-sys` bundles it.
//!
//! - `process`: `NOSYNC`, and `WRITEMAP` where memory is enough (it is quicker there and slower elsewhere, `lmdb.h` says). A commit stores
//!   into the shared map or writes to the file, both of which outlive the process; nothing is synced.
//! - `sync`: as by default, a commit writes its pages and syncs them, then the meta page.
//!
//! There is one writer at a time, and a commit for each put. Read transactions are kept and renewed, as LMDB's documentation
//! advises, one for each of a few slots that threads spread over (`NOTLS` ties them to themselves instead of to threads). LMDB
//! has no cache of its own: what of the map is in memory is the system's affair, so the memory budget is of no use to it; a
//! limit by cgroup counts for all. Read-ahead is off where the data may outgrow memory, as the documentation says.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{CStr, CString, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::{ptr, slice};

use lmdb_master_sys as sys;
use slmdb_bench::store::{Entry, Start, Store};
use slmdb_bench::{Error, Result};

use super::failure::failed;
use super::version::version_of;
use crate::footing::{Footing, machine_memory_bytes};

const NAME: &str = "lmdb";
/// What bundles it.
const PACKAGE: &str = "lmdb-master-sys";

/// Address space for the map. The file is sparse: nothing is taken that is not used.
const MAP_BYTES: usize = 1 << 40;

/// Read transactions that are kept.
const SLOTS: usize = 64;

/// An open environment with its one database.
struct Lmdb {
    environment: *mut sys::MDB_env,
    database: sys::MDB_dbi,
    /// Read transactions that have been reset; null where there is none, or somebody has it.
    idle: [AtomicPtr<sys::MDB_txn>; SLOTS],
}

// SAFETY: an environment may be used by any number of threads; with NOTLS so may read transactions, one thread at a time, and a
// write transaction stays in the thread that began it.
unsafe impl Send for Lmdb {}
// SAFETY: as above.
unsafe impl Sync for Lmdb {}

/// Opens one; makes it if it is missing.
pub fn open(directory: &Path, footing: &Footing, sync: bool) -> Result<Box<dyn Store>> {
    let path = CString::new(directory.as_os_str().as_bytes()).map_err(|error| failed(NAME, error))?;
    let mut flags = sys::MDB_NOTLS;
    if !sync {
        flags |= sys::MDB_NOSYNC;
    }
    if may_outgrow_memory(footing) {
        flags |= sys::MDB_NORDAHEAD;
    } else if !sync {
        flags |= sys::MDB_WRITEMAP;
    }
    let mut environment = ptr::null_mut();
    // SAFETY: it is given a place for a pointer.
    check(unsafe { sys::mdb_env_create(&mut environment) })?;
    let idle = [const { AtomicPtr::new(ptr::null_mut()) }; SLOTS];
    // Closes the environment even if what follows fails.
    let mut store = Lmdb { environment, database: 0, idle };
    // SAFETY: the environment is new and of this thread alone; the path ends in a zero; the transaction is committed or aborted.
    unsafe {
        check(sys::mdb_env_set_mapsize(environment, MAP_BYTES))?;
        check(sys::mdb_env_set_maxreaders(environment, 2 * SLOTS as u32))?;
        check(sys::mdb_env_open(environment, path.as_ptr(), flags, 0o644))?;
    }
    let database = store.write(|transaction| {
        let mut database = 0;
        // SAFETY: the transaction is live; no name means the one database there is.
        check(unsafe { sys::mdb_dbi_open(transaction, ptr::null(), sys::MDB_CREATE, &mut database) })?;
        Ok(database)
    })?;
    store.database = database;
    Ok(Box::new(store))
}

/// What it is, and how it is set up.
pub fn setup(footing: &Footing) -> String {
    let read_ahead =
        if may_outgrow_memory(footing) { "off, no WRITEMAP" } else { "on, WRITEMAP unless each commit is synced" };
    let version = version_of(PACKAGE);
    let (major, minor, patch) = (sys::MDB_VERSION_MAJOR, sys::MDB_VERSION_MINOR, sys::MDB_VERSION_PATCH);
    format!(
        "LMDB {major}.{minor}.{patch} (its development branch, of {PACKAGE} {version}): no memory of its own (the page cache is all), read-ahead {read_ahead}"
    )
}

/// Whether data and overhead (pages two thirds full) may come to more than half of the memory there is.
fn may_outgrow_memory(footing: &Footing) -> bool {
    let limits = [machine_memory_bytes(), footing.memory_limit_bytes];
    limits.into_iter().flatten().any(|memory_bytes| footing.data_bytes / 2 * 3 > memory_bytes / 2)
}

/// What a call gave, if that is an error.
fn check(code: c_int) -> Result<()> {
    if code == sys::MDB_SUCCESS {
        return Ok(());
    }
    // SAFETY: it gives a C string for any number, which nobody frees.
    let text = unsafe { CStr::from_ptr(sys::mdb_strerror(code)) };
    Err(Error::Peer(NAME.to_string(), text.to_string_lossy().into_owned()))
}

/// The same for what may not be there: false.
fn found(code: c_int) -> Result<bool> {
    if code == sys::MDB_NOTFOUND {
        return Ok(false);
    }
    check(code).map(|()| true)
}

/// Bytes as LMDB takes them. (It does not write to them, whatever the type says.)
fn val(bytes: &[u8]) -> sys::MDB_val {
    sys::MDB_val { mv_size: bytes.len(), mv_data: bytes.as_ptr().cast_mut().cast() }
}

const fn no_val() -> sys::MDB_val {
    sys::MDB_val { mv_size: 0, mv_data: ptr::null_mut::<c_void>() }
}

/// Bytes as LMDB gives them.
///
/// # Safety
///
/// LMDB has filled it in, and the transaction it comes from lives as long as the result.
unsafe fn bytes_of<'a>(val: &sys::MDB_val) -> &'a [u8] {
    if val.mv_size == 0 {
        return &[];
    }
    // SAFETY: by this function's own contract.
    unsafe { slice::from_raw_parts(val.mv_data.cast(), val.mv_size) }
}

/// Each thread's own slot, as long as there are not too many threads.
fn own_slot() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static SLOT: Cell<Option<usize>> = const { Cell::new(None) });
    SLOT.with(|slot| {
        let number = slot.get().unwrap_or_else(|| THREADS.fetch_add(1, Ordering::Relaxed) % SLOTS);
        slot.set(Some(number));
        number
    })
}

impl Lmdb {
    /// Does something in a write transaction, and commits it if that went well.
    fn write<T>(&self, work: impl FnOnce(*mut sys::MDB_txn) -> Result<T>) -> Result<T> {
        let mut transaction = ptr::null_mut();
        // SAFETY: the environment is open.
        check(unsafe { sys::mdb_txn_begin(self.environment, ptr::null_mut(), 0, &mut transaction) })?;
        match work(transaction) {
            Ok(result) => {
                // SAFETY: it is live, and ends here.
                check(unsafe { sys::mdb_txn_commit(transaction) })?;
                Ok(result)
            }
            Err(error) => {
                // SAFETY: it is live, and ends here.
                unsafe { sys::mdb_txn_abort(transaction) };
                Err(error)
            }
        }
    }

    /// A read transaction that sees everything committed so far.
    fn read(&self) -> Result<Reading<'_>> {
        let slot = &self.idle[own_slot()];
        let mut transaction = slot.swap(ptr::null_mut(), Ordering::Acquire);
        // SAFETY: the environment is open; whoever takes a transaction from its slot is the only one to have it, and it was reset.
        let code = unsafe {
            if transaction.is_null() {
                sys::mdb_txn_begin(self.environment, ptr::null_mut(), sys::MDB_RDONLY, &mut transaction)
            } else {
                sys::mdb_txn_renew(transaction)
            }
        };
        check(code)?;
        Ok(Reading { store: self, transaction, slot })
    }

    fn put_in(&self, transaction: *mut sys::MDB_txn, key: &[u8], value: &[u8]) -> Result<()> {
        // SAFETY: the transaction is live; the bytes are copied.
        check(unsafe { sys::mdb_put(transaction, self.database, &mut val(key), &mut val(value), 0) })
    }
}

impl Drop for Lmdb {
    fn drop(&mut self) {
        for slot in &self.idle {
            let transaction = slot.swap(ptr::null_mut(), Ordering::Acquire);
            if !transaction.is_null() {
                // SAFETY: it is nobody else's, and ends here.
                unsafe { sys::mdb_txn_abort(transaction) };
            }
        }
        // SAFETY: no transaction is left: those of others borrow the store.
        unsafe { sys::mdb_env_close(self.environment) };
    }
}

/// A read transaction, put back where it came from at its end.
struct Reading<'s> {
    store: &'s Lmdb,
    transaction: *mut sys::MDB_txn,
    slot: &'s AtomicPtr<sys::MDB_txn>,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        // SAFETY: it is live, and ours alone.
        unsafe { sys::mdb_txn_reset(self.transaction) };
        let other = self.slot.swap(self.transaction, Ordering::AcqRel);
        if !other.is_null() {
            // SAFETY: another thread of the same slot had put it there; now nobody else has it, and it ends here.
            unsafe { sys::mdb_txn_abort(other) };
        }
    }
}

impl Store for Lmdb {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(|transaction| self.put_in(transaction, key, value))
    }

    fn put_all(&self, entries: &[(&[u8], &[u8])]) -> Result<()> {
        self.write(|transaction| entries.iter().try_for_each(|(key, value)| self.put_in(transaction, key, value)))
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.write(|transaction| {
            // SAFETY: the transaction is live.
            found(unsafe { sys::mdb_del(transaction, self.database, &mut val(key), ptr::null_mut()) }).map(|_| ())
        })
    }

    fn get(&self, key: &[u8], look: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let reading = self.read()?;
        let mut value = no_val();
        // SAFETY: the transaction is live.
        let found = found(unsafe { sys::mdb_get(reading.transaction, self.database, &mut val(key), &mut value) })?;
        if found {
            // SAFETY: LMDB has filled it in; the transaction lives beyond this call.
            look(unsafe { bytes_of(&value) });
        }
        Ok(found)
    }

    /// One descent: a cursor finds the entry, and puts in its place.
    fn update_if_present(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.write(|transaction| {
            let mut cursor = ptr::null_mut();
            // SAFETY: the transaction is live; the cursor is closed before it ends; the bytes are copied.
            unsafe {
                check(sys::mdb_cursor_open(transaction, self.database, &mut cursor))?;
                let is_there = found(sys::mdb_cursor_get(cursor, &mut val(key), &mut no_val(), sys::MDB_SET));
                let updated = is_there.and_then(|is_there| {
                    if is_there {
                        check(sys::mdb_cursor_put(cursor, &mut val(key), &mut val(value), sys::MDB_CURRENT))?;
                    }
                    Ok(is_there)
                });
                sys::mdb_cursor_close(cursor);
                updated
            }
        })
    }

    fn walk(&self, start: Start<'_>, visit: &mut dyn FnMut(&mut dyn Entry) -> Result<bool>) -> Result<()> {
        let reading = self.read()?;
        let mut cursor = ptr::null_mut();
        // SAFETY: the transaction is live, and stays so until after the cursor is closed.
        check(unsafe { sys::mdb_cursor_open(reading.transaction, reading.store.database, &mut cursor) })?;
        let mut on = OnCursor { cursor, key: no_val(), value: no_val() };
        let (first, next) = match start {
            Start::At(key) => {
                on.key = val(key);
                (sys::MDB_SET_RANGE, sys::MDB_NEXT)
            }
            Start::First => (sys::MDB_FIRST, sys::MDB_NEXT),
            Start::Last => (sys::MDB_LAST, sys::MDB_PREV),
        };
        let mut there = on.go(first)?;
        while there && visit(&mut on)? {
            there = on.go(next)?;
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        // SAFETY: the environment is open.
        check(unsafe { sys::mdb_env_sync(self.environment, 1) })
    }

    // Nothing waits in memory, and free pages are used again: there is nothing to flush or compact.
}

/// The entry a cursor is on.
struct OnCursor {
    cursor: *mut sys::MDB_cursor,
    key: sys::MDB_val,
    value: sys::MDB_val,
}

impl OnCursor {
    /// Moves; false if there is nothing.
    fn go(&mut self, operation: sys::MDB_cursor_op) -> Result<bool> {
        // SAFETY: the cursor is open; a key that is sought is still borrowed by `walk`.
        found(unsafe { sys::mdb_cursor_get(self.cursor, &mut self.key, &mut self.value, operation) })
    }
}

impl Entry for OnCursor {
    fn key(&self) -> &[u8] {
        // SAFETY: visited only after a move that found something; it stays until the next, which takes the end of this borrow.
        unsafe { bytes_of(&self.key) }
    }

    fn value(&mut self) -> Result<&[u8]> {
        // SAFETY: as for the key.
        Ok(unsafe { bytes_of(&self.value) })
    }
}

impl Drop for OnCursor {
    fn drop(&mut self) {
        // SAFETY: it is open, and closed once; `walk` declares it after its transaction, so that one is still live.
        unsafe { sys::mdb_cursor_close(self.cursor) }
    }
}
