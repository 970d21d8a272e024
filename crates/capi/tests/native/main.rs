//! slmdb's own interface, called as C calls it.
//!
//! The tests keep the header's rules, so that SAFETY is always that the handles are what the functions gave.
// The rule is that of the head of this file.
#![allow(clippy::undocumented_unsafe_blocks, clippy::unwrap_used)]

mod arguments;
mod callers_functions;
mod sharing;
mod upkeep;

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr::{null, null_mut};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use slmdb_capi::native::codes::*;
use slmdb_capi::native::cursor::*;
use slmdb_capi::native::maintenance::*;
use slmdb_capi::native::options::*;
use slmdb_capi::native::reads::*;
use slmdb_capi::native::shared::*;
use slmdb_capi::native::snapshot::*;
use slmdb_capi::native::store::*;
use slmdb_capi::native::values::*;
use slmdb_capi::native::write_batch::*;
use slmdb_capi::native::writes::*;

/// Calls with a place for a message. The message is there if and only if the call failed.
fn told(call: impl FnOnce(*mut *mut c_char) -> slmdb_code_t) -> (slmdb_code_t, String) {
    let mut message = std::ptr::dangling_mut();
    let code = call(&mut message);
    let text = taken(message);
    assert_eq!(code == SLMDB_OK, text.is_none(), "{code}: {text:?}");
    (code, text.unwrap_or_default())
}

/// A text that the interface gave, or nothing.
fn taken(text: *mut c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    let copy = unsafe { CStr::from_ptr(text) }.to_str().unwrap().to_string();
    unsafe { slmdb_free(text.cast()) };
    Some(copy)
}

fn ok(call: impl FnOnce(*mut *mut c_char) -> slmdb_code_t) {
    assert_eq!(told(call), (SLMDB_OK, String::new()));
}

fn c_path(path: &Path) -> CString {
    CString::new(path.to_str().unwrap()).unwrap()
}

struct Store {
    directory: tempfile::TempDir,
    db: *mut slmdb_t,
}

impl Store {
    fn new() -> Store {
        Store::with(null())
    }

    fn with(options: *const slmdb_options_t) -> Store {
        let directory = tempfile::tempdir().unwrap();
        let mut db = null_mut();
        let path = c_path(&directory.path().join("db"));
        ok(|message| unsafe { slmdb_open(path.as_ptr(), options, &mut db, message) });
        Store { directory, db }
    }

    fn path(&self) -> CString {
        c_path(&self.directory.path().join("db"))
    }

    fn put(&self, key: &str, value: &str) {
        let (key, value) = (key.as_bytes(), value.as_bytes());
        ok(|message| unsafe {
            slmdb_put(self.db, key.as_ptr().cast(), key.len(), value.as_ptr().cast(), value.len(), 0, message)
        });
    }

    fn get(&self, key: &str) -> Option<String> {
        let (mut value, mut length) = (null_mut(), 0);
        ok(|message| unsafe { slmdb_get(self.db, key.as_ptr().cast(), key.len(), &mut value, &mut length, message) });
        value_of(value, length)
    }

    fn report(&self, make: unsafe extern "C" fn(*const slmdb_t, *mut *mut c_char, *mut *mut c_char) -> c_int) -> Value {
        let mut report = null_mut();
        ok(|message| unsafe { make(self.db, &mut report, message) });
        serde_json::from_str(&taken(report).unwrap()).unwrap()
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        unsafe { slmdb_release(self.db) };
    }
}

fn value_of(value: *mut c_char, length: usize) -> Option<String> {
    if value.is_null() {
        assert_eq!(length, 0);
        return None;
    }
    let bytes = unsafe { std::slice::from_raw_parts(value.cast::<u8>(), length) }.to_vec();
    unsafe { slmdb_free(value.cast()) };
    Some(String::from_utf8(bytes).unwrap())
}

/// The functions for conditional writes.
type Conditional = unsafe extern "C" fn(
    *const slmdb_t,
    *const c_char,
    usize,
    *const c_char,
    usize,
    slmdb_sync_t,
    *mut u8,
    *mut *mut c_char,
) -> slmdb_code_t;

#[test]
fn conditional_writes_tell_whether_they_were_done() {
    let store = Store::new();
    let call = |how: Conditional, value: &CStr| {
        let mut was_set = 7;
        let length = value.count_bytes();
        ok(|message| unsafe {
            how(store.db, c"k".as_ptr(), 1, value.as_ptr(), length, SLMDB_SYNC_YES, &mut was_set, message)
        });
        was_set
    };
    assert_eq!((call(slmdb_update_if_present, c"0"), store.get("k")), (0, None));
    assert_eq!((call(slmdb_insert_if_absent, c"1"), store.get("k").as_deref()), (1, Some("1")));
    assert_eq!((call(slmdb_insert_if_absent, c"2"), store.get("k").as_deref()), (0, Some("1")));
    assert_eq!((call(slmdb_update_if_present, c""), store.get("k").as_deref()), (1, Some("")));
}

#[test]
fn a_batch_is_written_whole() {
    let store = Store::new();
    store.put("b", "0");
    let batch = unsafe { slmdb_batch_create() };
    ok(|message| unsafe { slmdb_batch_put(batch, c"a".as_ptr(), 1, c"1".as_ptr(), 1, message) });
    ok(|message| unsafe { slmdb_batch_delete(batch, c"b".as_ptr(), 1, message) });
    let long = vec![0_u8; 70_000];
    let (code, _) = told(|message| unsafe { slmdb_batch_delete(batch, long.as_ptr().cast(), long.len(), message) });
    assert_eq!((code, unsafe { slmdb_batch_count(batch) }), (SLMDB_INVALID, 2), "after an error it is as it was");
    ok(|message| unsafe { slmdb_write(store.db, batch, SLMDB_SYNC_NO, message) });
    unsafe { slmdb_batch_clear(batch) };
    ok(|message| unsafe { slmdb_write(store.db, batch, SLMDB_SYNC_AS_OPTIONS, message) });
    unsafe { slmdb_batch_destroy(batch) };
    assert_eq!((store.get("a").as_deref(), store.get("b")), (Some("1"), None));
}

#[test]
fn a_range_is_deleted_and_a_null_pointer_is_no_bound() {
    let store = Store::new();
    let keys = ["a", "b", "c", "d"];
    let bound = |key: &CStr| (key.as_ptr(), key.count_bytes());
    let none = (null(), 0);
    for ((from, from_bytes), (to, to_bytes), left) in [
        (bound(c"b"), bound(c"d"), "ad"),
        (none, bound(c"c"), "cd"),
        (bound(c"bb"), none, "ab"),
        (none, none, ""),
        (bound(c""), none, ""),
        (none, bound(c""), "abcd"),
        (bound(c"d"), bound(c"a"), "abcd"),
    ] {
        let check = || assert_eq!(keys.into_iter().filter(|key| store.get(key).is_some()).collect::<String>(), left);
        keys.iter().for_each(|key| store.put(key, "1"));
        ok(|message| unsafe { slmdb_delete_range(store.db, from, from_bytes, to, to_bytes, SLMDB_SYNC_NO, message) });
        check();

        keys.iter().for_each(|key| store.put(key, "2"));
        let batch = unsafe { slmdb_batch_create() };
        ok(|message| unsafe { slmdb_batch_delete_range(batch, from, from_bytes, to, to_bytes, message) });
        assert_eq!(unsafe { slmdb_batch_count(batch) }, 1);
        ok(|message| unsafe { slmdb_write(store.db, batch, SLMDB_SYNC_NO, message) });
        unsafe { slmdb_batch_destroy(batch) };
        check();
    }
}

#[test]
fn a_batch_deletes_of_a_range_what_came_before() {
    let store = Store::new();
    store.put("a", "1");
    let batch = unsafe { slmdb_batch_create() };
    ok(|message| unsafe { slmdb_batch_put(batch, c"b".as_ptr(), 1, c"1".as_ptr(), 1, message) });
    ok(|message| unsafe { slmdb_batch_delete_range(batch, c"a".as_ptr(), 1, c"c".as_ptr(), 1, message) });
    ok(|message| unsafe { slmdb_batch_put(batch, c"b".as_ptr(), 1, c"2".as_ptr(), 1, message) });
    let long = vec![0_u8; 70_000];
    for (from_bytes, to_bytes) in [(long.len(), 1), (1, long.len())] {
        let long = long.as_ptr().cast();
        let add = |message| unsafe { slmdb_batch_delete_range(batch, long, from_bytes, long, to_bytes, message) };
        assert_eq!((told(add).0, unsafe { slmdb_batch_count(batch) }), (SLMDB_INVALID, 3));
    }
    assert_eq!(store.get("a").as_deref(), Some("1"));
    ok(|message| unsafe { slmdb_write(store.db, batch, SLMDB_SYNC_YES, message) });
    unsafe { slmdb_batch_destroy(batch) };
    assert_eq!((store.get("a"), store.get("b").as_deref()), (None, Some("2")));
}

/// Key and value of a cursor, or nothing.
fn entry(cursor: *mut slmdb_cursor_t) -> Option<(String, String)> {
    let (mut key_bytes, mut value, mut value_bytes) = (0, null(), 0);
    let key = unsafe { slmdb_cursor_key(cursor, &mut key_bytes) };
    let (code, message) = told(|message| unsafe { slmdb_cursor_value(cursor, &mut value, &mut value_bytes, message) });
    if unsafe { slmdb_cursor_is_valid(cursor) } == 0 {
        assert!(key.is_null() && value.is_null() && code == SLMDB_INVALID, "{message}");
        return None;
    }
    let text = |start: *const c_char, length| {
        String::from_utf8(unsafe { std::slice::from_raw_parts(start.cast::<u8>(), length) }.to_vec()).unwrap()
    };
    Some((text(key, key_bytes), text(value, value_bytes)))
}

#[test]
fn cursors_and_snapshots_see_their_moment_and_outlive_the_store() {
    let store = Store::new();
    store.put("a", "1");
    store.put("c", "3");
    let (mut snapshot, mut cursor, mut of_now) = (null_mut(), null_mut(), null_mut());
    ok(|message| unsafe { slmdb_snapshot_create(store.db, &mut snapshot, message) });
    assert_eq!(unsafe { slmdb_snapshot_sequence_number(snapshot) }, 2);
    store.put("b", "2");
    ok(|message| unsafe { slmdb_snapshot_cursor_create(snapshot, &mut cursor, message) });
    ok(|message| unsafe { slmdb_cursor_create(store.db, &mut of_now, message) });
    let at = |cursor, key: &str| assert_eq!(entry(cursor).map(|(key, _)| key).as_deref(), Some(key));
    assert_eq!(entry(cursor), None);
    ok(|message| unsafe { slmdb_cursor_seek_first(cursor, message) });
    assert_eq!(entry(cursor), Some(("a".into(), "1".into())));
    ok(|message| unsafe { slmdb_cursor_next(cursor, message) });
    at(cursor, "c");
    ok(|message| unsafe { slmdb_cursor_seek_before(of_now, c"c".as_ptr(), 1, message) });
    at(of_now, "b");
    ok(|message| unsafe { slmdb_cursor_prev(of_now, message) });
    at(of_now, "a");
    ok(|message| unsafe { slmdb_cursor_seek_last(of_now, message) });
    at(of_now, "c");
    ok(|message| unsafe { slmdb_cursor_seek(of_now, c"aa".as_ptr(), 2, message) });
    at(of_now, "b");
    ok(|message| unsafe { slmdb_close(store.db, message) });
    at(of_now, "b");
    let (mut value, mut length) = (null_mut(), 0);
    ok(|message| unsafe { slmdb_snapshot_get(snapshot, c"b".as_ptr(), 1, &mut value, &mut length, message) });
    assert_eq!(value_of(value, length), None);
    let (path, mut again) = (store.path(), null_mut());
    let (code, _) = told(|message| unsafe { slmdb_open(path.as_ptr(), null(), &mut again, message) });
    assert_eq!((code, again), (SLMDB_LOCKED, null_mut()), "as long as they are held");
    unsafe {
        slmdb_cursor_destroy(cursor);
        slmdb_cursor_destroy(of_now);
        slmdb_snapshot_destroy(snapshot);
    }
    ok(|message| unsafe { slmdb_open(path.as_ptr(), null(), &mut again, message) });
    unsafe { slmdb_release(again) };
}
