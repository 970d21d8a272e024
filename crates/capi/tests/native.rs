//! slmdb's own interface, called as C calls it.
//!
//! The tests keep the header's rules, so that SAFETY is always that the handles are what the functions gave.
// The rule is that of the head of this file.
#![allow(clippy::undocumented_unsafe_blocks, clippy::unwrap_used)]

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

/// Every call that takes a store, each with arguments that are right otherwise.
fn calls_of(db: *mut slmdb_t, directory: &CStr) -> Vec<(&'static str, (slmdb_code_t, String))> {
    let key = c"k".as_ptr();
    let (mut value, mut length, mut yes, mut report) = (null_mut(), 0, 0, null_mut());
    let (mut cursor, mut snapshot) = (null_mut(), null_mut());
    let mut about = slmdb_approximate_t { keys: 0, table_bytes: 0, memtable_bytes: 0 };
    unsafe {
        let batch = slmdb_batch_create();
        let answers = vec![
            ("get", told(|message| slmdb_get(db, key, 1, &mut value, &mut length, message))),
            ("contains_key", told(|message| slmdb_contains_key(db, key, 1, &mut yes, message))),
            ("put", told(|message| slmdb_put(db, key, 1, key, 1, 0, message))),
            ("delete", told(|message| slmdb_delete(db, key, 1, 0, message))),
            ("insert", told(|message| slmdb_insert_if_absent(db, key, 1, key, 1, 0, &mut yes, message))),
            ("update", told(|message| slmdb_update_if_present(db, key, 1, key, 1, 0, &mut yes, message))),
            ("write", told(|message| slmdb_write(db, batch, 0, message))),
            ("cursor", told(|message| slmdb_cursor_create(db, &mut cursor, message))),
            ("snapshot", told(|message| slmdb_snapshot_create(db, &mut snapshot, message))),
            ("sync", told(|message| slmdb_sync(db, message))),
            ("flush", told(|message| slmdb_flush(db, message))),
            ("compact_range", told(|message| slmdb_compact_range(db, null(), 0, null(), 0, message))),
            ("approximate", told(|message| slmdb_approximate(db, null(), 0, null(), 0, &mut about, message))),
            ("checkpoint", told(|message| slmdb_checkpoint(db, directory.as_ptr(), message))),
            ("stats", told(|message| slmdb_stats(db, &mut report, message))),
            ("table_files", told(|message| slmdb_table_files(db, &mut report, message))),
            ("verify", told(|message| slmdb_verify(db, &mut yes, &mut report, message))),
            ("close", told(|message| slmdb_close(db, message))),
        ];
        slmdb_batch_destroy(batch);
        answers
    }
}

#[test]
fn every_call_with_a_closed_handle_is_that_error() {
    let store = Store::new();
    ok(|message| unsafe { slmdb_close(store.db, message) });
    for (name, (code, message)) in calls_of(store.db, c"/nowhere") {
        assert_eq!((code, message.as_str()), (SLMDB_CLOSED, "the store was closed; open it again"), "{name}");
    }
}

#[test]
fn every_call_with_a_null_handle_is_invalid() {
    for (name, (code, message)) in calls_of(null_mut(), c"/nowhere") {
        assert_eq!(code, SLMDB_INVALID, "{name}");
        assert!(message.starts_with("a null pointer was passed for the store"), "{name}: {message}");
    }
}

#[test]
fn null_places_and_hostile_arguments_are_invalid() {
    let store = Store::new();
    let (db, key, path) = (store.db, c"k".as_ptr(), store.path());
    let (mut value, mut length, mut yes) = (null_mut(), 0, 0);
    let mut other = null_mut();
    let invalid = |(code, message): (slmdb_code_t, String), says: &str| {
        assert_eq!(code, SLMDB_INVALID, "{message}");
        assert!(message.contains(says), "{message}");
    };
    unsafe {
        invalid(told(|message| slmdb_get(db, key, 1, null_mut(), &mut length, message)), "the place for the value;");
        invalid(told(|message| slmdb_get(db, key, 1, &mut value, null_mut(), message)), "the value's length");
        invalid(
            told(|message| slmdb_get(db, null(), 1, &mut value, &mut length, message)),
            "a null pointer was passed for the key",
        );
        invalid(told(|message| slmdb_get(db, key, usize::MAX, &mut value, &mut length, message)), "can't have");
        invalid(told(|message| slmdb_put(db, key, usize::MAX, key, 1, 0, message)), "can't have a length");
        invalid(told(|message| slmdb_put(db, key, 1, key, 1, 3, message)), "3 is no slmdb_sync_t");
        invalid(told(|message| slmdb_put(db, key, 1, key, 1, -1, message)), "-1 is no slmdb_sync_t");
        invalid(told(|message| slmdb_insert_if_absent(db, key, 1, key, 1, 0, null_mut(), message)), "the answer");
        invalid(told(|message| slmdb_contains_key(db, key, 1, null_mut(), message)), "the answer");
        invalid(told(|message| slmdb_write(db, null(), 0, message)), "a null pointer was passed for the batch");
        invalid(
            told(|message| slmdb_open(null(), null(), &mut other, message)),
            "a null pointer was passed for the path",
        );
        invalid(told(|message| slmdb_open(path.as_ptr(), null(), null_mut(), message)), "the place for the store");
        invalid(told(|message| slmdb_open(c"".as_ptr(), null(), &mut other, message)), "the path of a store is empty");
        invalid(told(|message| slmdb_cursor_create(db, null_mut(), message)), "the place for the cursor");
        invalid(told(|message| slmdb_cursor_next(null_mut(), message)), "a null pointer was passed for the cursor");
        invalid(told(|message| slmdb_snapshot_cursor_create(null(), null_mut(), message)), "the place for");
        invalid(told(|message| slmdb_checkpoint(db, null(), message)), "a null pointer was passed for the path");
        invalid(
            told(|message| slmdb_batch_put(null_mut(), key, 1, key, 1, message)),
            "a null pointer was passed for the batch",
        );
        let options = slmdb_options_create();
        invalid(told(|message| slmdb_options_set_engine(options, c"rocksdb".as_ptr(), message)), "no engine");
        invalid(told(|message| slmdb_options_set_medium(options, 3, null(), message)), "3 is no slmdb_medium_t");
        invalid(told(|message| slmdb_options_set_medium(options, SLMDB_MEDIUM_DAX, null(), message)), "the path");
        invalid(told(|message| slmdb_options_set_medium(options, SLMDB_MEDIUM_DRAM, key, message)), "no pool");
        invalid(told(|message| slmdb_options_set_compression(options, 9, message)), "9 is no slmdb_compression_t");
        invalid(
            told(|message| slmdb_options_set_engine(null_mut(), key, message)),
            "a null pointer was passed for the options",
        );
        slmdb_options_destroy(options);
        // No place for a message: the code tells.
        assert_eq!(slmdb_put(db, null(), 1, key, 1, 0, null_mut()), SLMDB_INVALID);
        assert_eq!(slmdb_contains_key(db, key, 1, &mut yes, null_mut()), SLMDB_OK);
        // Nothing to be told.
        slmdb_release(null_mut());
        slmdb_free(null_mut());
        slmdb_cursor_destroy(null_mut());
        slmdb_options_set_sync(null_mut(), 1);
        slmdb_batch_clear(null_mut());
        assert_eq!((slmdb_batch_count(null()), slmdb_cursor_is_valid(null())), (0, 0));
        assert!(slmdb_cursor_key(null(), null_mut()).is_null());
        assert_eq!(slmdb_snapshot_sequence_number(null()), 0);
    }
}

#[test]
fn codes_have_names() {
    let name = |code| unsafe { CStr::from_ptr(slmdb_code_name(code)) }.to_str().unwrap();
    assert_eq!((name(SLMDB_OK), name(SLMDB_CORRUPTION), name(SLMDB_OTHER)), ("ok", "corruption", "other"));
    assert_eq!((name(-1), name(11), name(c_int::MAX)), ("unknown", "unknown", "unknown"));
    assert_eq!(unsafe { CStr::from_ptr(slmdb_version()) }.to_str().unwrap(), env!("CARGO_PKG_VERSION"));
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

#[test]
fn a_close_waits_for_the_calls_of_other_threads() {
    struct Handle(*mut slmdb_t);
    // SAFETY: the header allows any thread.
    unsafe impl Sync for Handle {}
    for _ in 0..5 {
        let store = Store::new();
        store.put("k", "v");
        let handle = &Handle(store.db);
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(move || {
                        let handle = handle;
                        loop {
                            let (mut value, mut length) = (null_mut(), 0);
                            let (code, _) = told(|message| unsafe {
                                slmdb_get(handle.0, c"k".as_ptr(), 1, &mut value, &mut length, message)
                            });
                            if code != SLMDB_OK {
                                return code;
                            }
                            assert_eq!(value_of(value, length).as_deref(), Some("v"));
                        }
                    })
                })
                .collect();
            ok(|message| unsafe { slmdb_close(handle.0, message) });
            // Nobody has it any more, so it can be opened at once.
            let mut again = null_mut();
            let path = store.path();
            ok(|message| unsafe { slmdb_open(path.as_ptr(), null(), &mut again, message) });
            unsafe { slmdb_release(again) };
            for reader in readers {
                assert_eq!(reader.join().unwrap(), SLMDB_CLOSED);
            }
        });
    }
}

#[test]
fn a_store_is_kept_with_reports() {
    let store = Store::new();
    for key in 0..1000 {
        store.put(&format!("{key:04}"), "value");
    }
    let mut about = slmdb_approximate_t { keys: 0, table_bytes: 0, memtable_bytes: 0 };
    let (from, to) = (c"0100".as_ptr(), c"0200".as_ptr());
    ok(|message| unsafe { slmdb_approximate(store.db, from, 4, to, 4, &mut about, message) });
    assert_eq!((about.keys, about.table_bytes, about.memtable_bytes), (100, 0, 900));
    ok(|message| unsafe { slmdb_sync(store.db, message) });
    ok(|message| unsafe { slmdb_flush(store.db, message) });
    ok(|message| unsafe { slmdb_compact_range(store.db, from, 4, null(), 0, message) });
    let stats = store.report(slmdb_stats);
    assert_eq!((&stats["index_keys"], &stats["engine"]), (&Value::from(1000), &Value::from("slm")));
    let files = store.report(slmdb_table_files);
    assert_eq!(files[0]["smallest_key"], "0000", "{files}");

    let copy = c_path(&store.directory.path().join("copy"));
    ok(|message| unsafe { slmdb_checkpoint(store.db, copy.as_ptr(), message) });
    let (mut is_clean, mut report) = (0, null_mut());
    ok(|message| unsafe { slmdb_verify(store.db, &mut is_clean, &mut report, message) });
    let verified: Value = serde_json::from_str(&taken(report).unwrap()).unwrap();
    assert_eq!((is_clean, &verified["findings"]), (1, &serde_json::json!([])));
    ok(|message| unsafe { slmdb_verify(store.db, null_mut(), null_mut(), message) });

    let mut report = null_mut();
    ok(|message| unsafe { slmdb_repair_store(copy.as_ptr(), null(), &mut report, message) });
    let repaired: Value = serde_json::from_str(&taken(report).unwrap()).unwrap();
    assert_eq!((&repaired["index_keys"], &repaired["losses"]), (&Value::from(1000), &serde_json::json!([])));
    ok(|message| unsafe { slmdb_destroy_store(copy.as_ptr(), null(), &mut report, message) });
    let destroyed: Value = serde_json::from_str(&taken(report).unwrap()).unwrap();
    assert_eq!((&destroyed["left"], &destroyed["pool"]["fate"]), (&serde_json::json!([]), &Value::from("none")));
    assert!(!store.directory.path().join("copy").exists());
    let path = store.path();
    let (code, _) = told(|message| unsafe { slmdb_destroy_store(path.as_ptr(), null(), null_mut(), message) });
    assert_eq!(code, SLMDB_LOCKED, "it is open");
}

#[test]
fn damage_is_told_by_verify_with_its_file() {
    let store = Store::new();
    store.put("k", &"v".repeat(3000));
    ok(|message| unsafe { slmdb_flush(store.db, message) });
    let files = std::fs::read_dir(store.directory.path().join("db")).unwrap();
    let table = files.map(|file| file.unwrap().path()).find(|path| path.extension().is_some_and(|e| e == "sst"));
    let table = table.expect("a table file");
    let mut bytes = std::fs::read(&table).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&table, bytes).unwrap();
    let (mut is_clean, mut report) = (7, null_mut());
    ok(|message| unsafe { slmdb_verify(store.db, &mut is_clean, &mut report, message) });
    let report = taken(report).unwrap();
    assert_eq!(is_clean, 0);
    assert!(report.contains(table.file_name().unwrap().to_str().unwrap()), "{report}");
}

unsafe extern "C" fn on_event(state: *mut c_void, event: *const c_char, event_bytes: usize) {
    let text = unsafe { CStr::from_ptr(event) };
    assert_eq!(text.count_bytes(), event_bytes);
    let event: Value = serde_json::from_str(text.to_str().unwrap()).unwrap();
    let events = unsafe { &*state.cast::<Events>() };
    events.names.lock().unwrap().push(event["event"].as_str().unwrap().to_string());
}

unsafe extern "C" fn count_destroyed(state: *mut c_void) {
    unsafe { &*state.cast::<Events>() }.destroyed.fetch_add(1, Ordering::SeqCst);
}

unsafe extern "C" fn backwards(
    _: *mut c_void,
    left: *const c_char,
    left_bytes: usize,
    right: *const c_char,
    right_bytes: usize,
) -> c_int {
    let bytes = |start: *const c_char, length| unsafe { std::slice::from_raw_parts(start.cast::<u8>(), length) };
    bytes(right, right_bytes).cmp(bytes(left, left_bytes)) as c_int
}

#[derive(Default)]
struct Events {
    names: Mutex<Vec<String>>,
    destroyed: AtomicUsize,
}

#[test]
fn functions_that_are_passed_in_are_called_and_given_back() {
    let events = Events::default();
    let state: *mut c_void = (&raw const events).cast_mut().cast();
    let destroyed = || events.destroyed.load(Ordering::SeqCst);
    unsafe {
        let options = slmdb_options_create();
        let set = |name: *const c_char, compare: Option<_>| {
            told(|message| slmdb_options_set_comparator(options, name, compare, state, Some(count_destroyed), message))
        };
        assert_eq!(set(null(), Some(backwards)).0, SLMDB_INVALID);
        assert_eq!(set(c"test.backwards".as_ptr(), None).0, SLMDB_INVALID);
        assert_eq!(destroyed(), 2, "after an error at once");
        assert_eq!(set(c"test.backwards".as_ptr(), Some(backwards)).0, SLMDB_OK);
        ok(|message| slmdb_options_set_event_listener(options, Some(on_event), state, Some(count_destroyed), message));
        let store = Store::with(options);
        slmdb_options_destroy(options);
        assert_eq!(destroyed(), 2, "the open store uses them");
        store.put("a", "1");
        store.put("b", "2");
        ok(|message| slmdb_flush(store.db, message));
        let mut cursor = null_mut();
        ok(|message| slmdb_cursor_create(store.db, &mut cursor, message));
        ok(|message| slmdb_cursor_seek_first(cursor, message));
        assert_eq!(entry(cursor).unwrap().0, "b");
        slmdb_cursor_destroy(cursor);
        ok(|message| slmdb_close(store.db, message));
        assert_eq!(destroyed(), 4);
        let names = events.names.lock().unwrap();
        let flushes: Vec<&String> = names.iter().filter(|name| name.starts_with("flush")).collect();
        assert_eq!(flushes, ["flush_began", "flush_ended"], "{names:?}");
    }
}

#[test]
fn options_are_heeded() {
    let directory = tempfile::tempdir().unwrap();
    let pool = c_path(&directory.path().join("pool"));
    unsafe {
        let options = slmdb_options_create();
        ok(|message| slmdb_options_set_medium(options, SLMDB_MEDIUM_EMULATED, pool.as_ptr(), message));
        ok(|message| slmdb_options_set_engine(options, c"slm".as_ptr(), message));
        ok(|message| slmdb_options_set_compression(options, SLMDB_COMPRESSION_NONE, message));
        slmdb_options_set_sync(options, 1);
        slmdb_options_set_memory_budget_bytes(options, 32 << 20);
        slmdb_options_set_memtable_bytes(options, 1 << 20);
        slmdb_options_set_immutable_memtables_max(options, 3);
        slmdb_options_set_block_bytes(options, 1024);
        slmdb_options_set_open_tables_max(options, 100);
        slmdb_options_set_compaction_threads(options, 1);
        slmdb_options_set_space_amplification_max(options, 2.0);
        slmdb_options_set_pool_initial_bytes(options, 8 << 20);
        slmdb_options_set_pool_growth_bytes(options, 8 << 20);
        slmdb_options_set_pool_maximum_bytes(options, 1 << 30);
        slmdb_options_set_caches_are_persistent(options, 0);
        let store = Store::with(options);
        let stats = store.report(slmdb_stats);
        assert_eq!((&stats["medium"], &stats["memory_budget_bytes"]), (&"emulated".into(), &(32 << 20).into()));
        store.put("k", "v");
        ok(|message| slmdb_close(store.db, message));

        let path = store.path();
        let open = |options: *const slmdb_options_t| {
            let mut db = null_mut();
            let opened = told(|message| slmdb_open(path.as_ptr(), options, &mut db, message));
            (db, opened)
        };
        slmdb_options_set_error_if_exists(options, 1);
        assert_eq!(open(options).1.0, SLMDB_INVALID);
        slmdb_options_set_error_if_exists(options, 0);
        slmdb_options_set_block_bytes(options, 1);
        assert!(open(options).1.1.contains("block_bytes must be"));
        slmdb_options_set_block_bytes(options, 4096);
        slmdb_options_set_read_only(options, 1);
        let (db, (code, message)) = open(options);
        assert_eq!(code, SLMDB_OK, "{message}");
        let (code, _) = told(|message| slmdb_put(db, c"k".as_ptr(), 1, c"w".as_ptr(), 1, 0, message));
        assert_eq!(code, SLMDB_READ_ONLY);
        slmdb_release(db);
        slmdb_options_set_read_only(options, 0);
        slmdb_options_set_create_if_missing(options, 0);
        let elsewhere = c_path(&directory.path().join("elsewhere"));
        let mut db = null_mut();
        let (code, message) = told(|message| slmdb_open(elsewhere.as_ptr(), options, &mut db, message));
        assert_eq!(code, SLMDB_INVALID, "{message}");
        slmdb_options_destroy(options);
    }
}
