//! LevelDB's interface, called as C calls it.
//!
//! The tests keep the header's rules, so that SAFETY is always that the handles are what the functions gave.
// The rule is that of the head of this file.
#![allow(clippy::undocumented_unsafe_blocks, clippy::unwrap_used)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering};

use slmdb_capi::leveldb::comparator::*;
use slmdb_capi::leveldb::db::*;
use slmdb_capi::leveldb::filter_policy::*;
use slmdb_capi::leveldb::iterator::*;
use slmdb_capi::leveldb::management::*;
use slmdb_capi::leveldb::options::*;
use slmdb_capi::leveldb::properties::*;
use slmdb_capi::leveldb::request_options::*;
use slmdb_capi::leveldb::snapshot::*;
use slmdb_capi::leveldb::utility::*;
use slmdb_capi::leveldb::write_batch::*;

/// Calls with a place for an error, and gives what it returned and the error.
fn with_error<T>(call: impl FnOnce(*mut *mut c_char) -> T) -> (T, Option<String>) {
    let mut error: *mut c_char = null_mut();
    let returned = call(&mut error);
    if error.is_null() {
        return (returned, None);
    }
    // SAFETY: a text of the interface, which is freed once.
    let text = unsafe { CStr::from_ptr(error).to_str().unwrap().to_string() };
    unsafe { leveldb_free(error.cast()) };
    (returned, Some(text))
}

fn path_of(path: &Path) -> CString {
    CString::new(path.to_str().unwrap()).unwrap()
}

fn pointer(bytes: &[u8]) -> (*const c_char, usize) {
    (bytes.as_ptr().cast(), bytes.len())
}

/// A store in a directory of its own, with what goes with it.
struct Store {
    directory: tempfile::TempDir,
    options: *mut leveldb_options_t,
    db: *mut leveldb_t,
}

impl Store {
    fn new() -> Store {
        Store::with(|_| {})
    }

    fn with(set: impl FnOnce(*mut leveldb_options_t)) -> Store {
        let directory = tempfile::tempdir().unwrap();
        let options = unsafe { leveldb_options_create() };
        unsafe { leveldb_options_set_create_if_missing(options, 1) };
        set(options);
        let mut store = Store { directory, options, db: null_mut() };
        assert_eq!(store.open(), None);
        store
    }

    fn path(&self) -> CString {
        path_of(&self.directory.path().join("db"))
    }

    fn open(&mut self) -> Option<String> {
        let path = self.path();
        let (db, error) = with_error(|error| unsafe { leveldb_open(self.options, path.as_ptr(), error) });
        assert_eq!(db.is_null(), error.is_some());
        self.db = db;
        error
    }

    fn close(&mut self) {
        unsafe { leveldb_close(std::mem::replace(&mut self.db, null_mut())) };
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Option<String> {
        let ((key, key_bytes), (value, value_bytes)) = (pointer(key), pointer(value));
        with_error(|error| unsafe { leveldb_put(self.db, null(), key, key_bytes, value, value_bytes, error) }).1
    }

    fn get_with(&self, options: *const leveldb_readoptions_t, key: &[u8]) -> Result<Option<Vec<u8>>, String> {
        let (key, key_bytes) = pointer(key);
        let mut length = usize::MAX;
        let (value, error) =
            with_error(|error| unsafe { leveldb_get(self.db, options, key, key_bytes, &mut length, error) });
        if let Some(error) = error {
            assert!(value.is_null() && length == 0);
            return Err(error);
        }
        if value.is_null() {
            assert_eq!(length, 0);
            return Ok(None);
        }
        let bytes = unsafe { std::slice::from_raw_parts(value.cast::<u8>(), length) }.to_vec();
        unsafe { leveldb_free(value.cast()) };
        Ok(Some(bytes))
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.get_with(null(), key).unwrap()
    }

    fn write(&self, batch: *mut leveldb_writebatch_t) -> Option<String> {
        with_error(|error| unsafe { leveldb_write(self.db, null(), batch, error) }).1
    }

    fn property(&self, name: &CStr) -> Option<String> {
        let value = unsafe { leveldb_property_value(self.db, name.as_ptr()) };
        if value.is_null() {
            return None;
        }
        let text = unsafe { CStr::from_ptr(value).to_str().unwrap().to_string() };
        unsafe { leveldb_free(value.cast()) };
        Some(text)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.close();
        unsafe { leveldb_options_destroy(self.options) };
    }
}

#[test]
fn a_missing_or_existing_store_is_an_error_as_the_options_say() {
    let mut store = Store::new();
    assert!(store.put(b"k", b"v").is_none());
    store.close();
    unsafe { leveldb_options_set_error_if_exists(store.options, 1) };
    assert!(store.open().unwrap().starts_with("Invalid argument: there is a store in "));
    unsafe { leveldb_options_set_error_if_exists(store.options, 0) };
    unsafe { leveldb_options_set_create_if_missing(store.options, 0) };
    assert_eq!(store.open(), None);
    assert_eq!(store.get(b"k").as_deref(), Some(&b"v"[..]));
    store.close();
    let path = store.path();
    let destroy = || with_error(|error| unsafe { leveldb_destroy_db(store.options, path.as_ptr(), error) }).1;
    assert_eq!((destroy(), destroy()), (None, None), "there may be nothing to destroy");
    assert!(store.open().unwrap().starts_with("Invalid argument: there is no store in "));
}

#[test]
fn an_open_store_is_locked() {
    let mut store = Store::new();
    let first = store.db;
    assert!(store.open().unwrap().starts_with("IO error: the store is in use"));
    store.db = first;
}

#[test]
fn an_error_takes_the_place_of_the_last_and_success_leaves_it() {
    let store = Store::new();
    let mut error: *mut c_char = null_mut();
    unsafe { leveldb_put(store.db, null(), null(), 3, null(), 0, &mut error) };
    let first = unsafe { CStr::from_ptr(error) }.to_str().unwrap().to_string();
    assert!(first.contains("a null pointer was passed for the key"), "{first}");
    unsafe { leveldb_put(store.db, null(), c"k".as_ptr(), 1, null(), 7, &mut error) };
    let second = unsafe { CStr::from_ptr(error) }.to_str().unwrap().to_string();
    assert!(second.contains("a null pointer was passed for the value"), "{second}");
    unsafe { leveldb_put(store.db, null(), c"k".as_ptr(), 1, c"v".as_ptr(), 1, &mut error) };
    assert_eq!(unsafe { CStr::from_ptr(error) }.to_str().unwrap(), second);
    unsafe { leveldb_free(error.cast()) };
}

#[test]
fn empty_keys_and_values_are_keys_and_values() {
    let store = Store::new();
    assert_eq!(store.get(b""), None);
    let (_, error) = with_error(|error| unsafe { leveldb_put(store.db, null(), null(), 0, null(), 0, error) });
    assert_eq!(error, None);
    assert_eq!(store.get(b""), Some(Vec::new()));
    let (_, error) = with_error(|error| unsafe { leveldb_delete(store.db, null(), null(), 0, error) });
    assert_eq!((error, store.get(b"")), (None, None));
}

#[test]
fn null_handles_and_impossible_lengths_are_errors() {
    let store = Store::new();
    fn invalid<T>((_, error): (T, Option<String>)) {
        let error = error.expect("an error");
        assert!(error.starts_with("Invalid argument: "), "{error}");
    }
    let key = c"k".as_ptr();
    unsafe {
        invalid(with_error(|error| leveldb_open(null(), key, error)));
        invalid(with_error(|error| leveldb_open(store.options, null(), error)));
        invalid(with_error(|error| leveldb_put(null_mut(), null(), key, 1, key, 1, error)));
        invalid(with_error(|error| leveldb_delete(null_mut(), null(), key, 1, error)));
        invalid(with_error(|error| leveldb_write(store.db, null(), null_mut(), error)));
        invalid(with_error(|error| leveldb_get(null_mut(), null(), key, 1, null_mut(), error)));
        invalid(with_error(|error| leveldb_get(store.db, null(), key, usize::MAX, null_mut(), error)));
        invalid(with_error(|error| leveldb_put(store.db, null(), key, usize::MAX, key, 1, error)));
        invalid(with_error(|error| leveldb_put(store.db, null(), key, 1, key, usize::MAX, error)));
        invalid(with_error(|error| leveldb_delete(store.db, null(), key, usize::MAX, error)));
        invalid(with_error(|error| leveldb_destroy_db(null(), key, error)));
        invalid(with_error(|error| leveldb_repair_db(store.options, null(), error)));
        // No place for an error: it is not told.
        leveldb_put(null_mut(), null(), key, 1, key, 1, null_mut());
        // Nothing to be told.
        leveldb_close(null_mut());
        leveldb_free(null_mut());
        leveldb_iter_destroy(null_mut());
        leveldb_iter_next(null_mut());
        leveldb_writebatch_put(null_mut(), key, 1, key, 1);
        leveldb_writebatch_append(null_mut(), null());
        leveldb_compact_range(null_mut(), null(), 0, null(), 0);
        leveldb_approximate_sizes(store.db, 2, null(), null(), null(), null(), null_mut());
        leveldb_options_set_cache(null_mut(), null_mut());
        leveldb_release_snapshot(store.db, null());
        assert!(leveldb_property_value(null_mut(), c"leveldb.stats".as_ptr()).is_null());
        assert!(leveldb_property_value(store.db, null()).is_null());
        assert_eq!(leveldb_iter_valid(null()), 0);
        let iterator = leveldb_create_iterator(null_mut(), null());
        invalid(with_error(|error| leveldb_iter_get_error(iterator, error)));
        leveldb_iter_seek_to_first(iterator);
        assert_eq!(leveldb_iter_valid(iterator), 0);
        leveldb_iter_destroy(iterator);
    }
}

#[test]
fn keys_and_values_beyond_the_limits_are_errors() {
    let store = Store::new();
    let longest = vec![7; 65_535];
    assert_eq!(store.put(&longest, b"v"), None);
    assert_eq!(store.get(&longest).as_deref(), Some(&b"v"[..]));
    let longer = vec![7; 65_536];
    assert!(store.put(&longer, b"v").unwrap().contains("longer than the limit of 65535"));
    assert_eq!(store.get(&longer), None);
}

#[test]
fn a_batch_applies_in_order_and_shows_its_changes() {
    let store = Store::new();
    unsafe {
        let (batch, other) = (leveldb_writebatch_create(), leveldb_writebatch_create());
        leveldb_writebatch_put(batch, c"x".as_ptr(), 1, c"0".as_ptr(), 1);
        leveldb_writebatch_clear(batch);
        leveldb_writebatch_put(batch, c"a".as_ptr(), 1, c"1".as_ptr(), 1);
        leveldb_writebatch_delete(other, c"a".as_ptr(), 1);
        leveldb_writebatch_append(batch, other);
        leveldb_writebatch_put(batch, c"b".as_ptr(), 1, null(), 0);
        leveldb_writebatch_append(other, other);
        let seen = |batch| {
            let mut seen: Vec<String> = Vec::new();
            leveldb_writebatch_iterate(batch, (&raw mut seen).cast(), Some(on_put), Some(on_delete));
            leveldb_writebatch_iterate(batch, null_mut(), None, None);
            seen
        };
        assert_eq!(seen(batch), ["put a 1", "delete a", "put b "]);
        assert_eq!(seen(other), ["delete a", "delete a"], "a batch may be added to itself");
        assert_eq!(store.write(batch), None);
        leveldb_writebatch_destroy(batch);
        leveldb_writebatch_destroy(other);
    }
    assert_eq!((store.get(b"a"), store.get(b"b"), store.get(b"x")), (None, Some(Vec::new()), None));
}

unsafe fn words(start: *const c_char, length: usize) -> String {
    String::from_utf8(unsafe { std::slice::from_raw_parts(start.cast::<u8>(), length) }.to_vec()).unwrap()
}

unsafe extern "C" fn on_put(seen: *mut c_void, k: *const c_char, k_len: usize, v: *const c_char, v_len: usize) {
    unsafe { (*seen.cast::<Vec<String>>()).push(format!("put {} {}", words(k, k_len), words(v, v_len))) };
}

unsafe extern "C" fn on_delete(seen: *mut c_void, key: *const c_char, key_bytes: usize) {
    unsafe { (*seen.cast::<Vec<String>>()).push(format!("delete {}", words(key, key_bytes))) };
}

#[test]
fn a_batch_that_was_spoilt_writes_nothing_and_says_why() {
    let store = Store::new();
    let long = vec![0_u8; 70_000];
    unsafe {
        let (batch, other) = (leveldb_writebatch_create(), leveldb_writebatch_create());
        leveldb_writebatch_put(batch, c"a".as_ptr(), 1, c"1".as_ptr(), 1);
        leveldb_writebatch_put(batch, long.as_ptr().cast(), long.len(), c"1".as_ptr(), 1);
        assert!(store.write(batch).unwrap().contains("longer than the limit"));
        leveldb_writebatch_append(other, batch);
        assert!(store.write(other).unwrap().contains("longer than the limit"), "it spoils those it is added to");
        assert_eq!(store.get(b"a"), None);
        leveldb_writebatch_clear(batch);
        leveldb_writebatch_put(batch, c"a".as_ptr(), 1, c"2".as_ptr(), 1);
        assert_eq!(store.write(batch), None);
        leveldb_writebatch_destroy(batch);
        leveldb_writebatch_destroy(other);
    }
    assert_eq!(store.get(b"a").as_deref(), Some(&b"2"[..]));
}

/// Key and value, or nothing.
fn entry(iterator: *const leveldb_iterator_t) -> Option<(String, String)> {
    let (mut key_bytes, mut value_bytes) = (9, 9);
    unsafe {
        let (key, value) = (leveldb_iter_key(iterator, &mut key_bytes), leveldb_iter_value(iterator, &mut value_bytes));
        assert!(!key.is_null() && !value.is_null());
        let found = (words(key, key_bytes), words(value, value_bytes));
        if leveldb_iter_valid(iterator) == 1 {
            return Some(found);
        }
        assert_eq!(found, (String::new(), String::new()));
        None
    }
}

#[test]
fn an_iterator_moves_both_ways_over_its_own_moment() {
    let store = Store::new();
    for key in ["a", "c", "e"] {
        assert_eq!(store.put(key.as_bytes(), b"old"), None);
    }
    unsafe {
        let iterator = leveldb_create_iterator(store.db, null());
        assert_eq!(entry(iterator), None);
        store.put(b"c", b"new");
        store.put(b"d", b"new");
        let is = |key: &str| assert_eq!(entry(iterator), Some((key.to_string(), "old".to_string())));
        leveldb_iter_seek_to_first(iterator);
        is("a");
        leveldb_iter_next(iterator);
        is("c");
        leveldb_iter_next(iterator);
        is("e");
        leveldb_iter_next(iterator);
        assert_eq!(entry(iterator), None);
        leveldb_iter_next(iterator);
        leveldb_iter_prev(iterator);
        assert_eq!(entry(iterator), None, "on none it stays on none");
        leveldb_iter_seek_to_last(iterator);
        is("e");
        leveldb_iter_prev(iterator);
        is("c");
        leveldb_iter_seek(iterator, c"d".as_ptr(), 1);
        is("e");
        leveldb_iter_seek(iterator, null(), 0);
        is("a");
        leveldb_iter_prev(iterator);
        assert_eq!(entry(iterator), None);
        assert_eq!(with_error(|error| leveldb_iter_get_error(iterator, error)).1, None);
        leveldb_iter_seek(iterator, null(), 5);
        let error = with_error(|error| leveldb_iter_get_error(iterator, error)).1.unwrap();
        assert!(error.contains("a null pointer was passed for the key"), "{error}");
        assert_eq!(entry(iterator), None);
        leveldb_iter_destroy(iterator);
    }
}

#[test]
fn reads_of_an_iterator_may_come_from_several_threads() {
    struct Shared(*const leveldb_iterator_t);
    // SAFETY: only functions that take it as const are called.
    unsafe impl Sync for Shared {}
    let store = Store::new();
    store.put(b"k", &[b'v'; 5000]);
    unsafe { leveldb_compact_range(store.db, null(), 0, null(), 0) };
    let iterator = unsafe { leveldb_create_iterator(store.db, null()) };
    for _ in 0..50 {
        unsafe { leveldb_iter_seek_to_first(iterator) };
        let shared = &Shared(iterator);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(move || assert_eq!(entry(shared.0), Some(("k".to_string(), "v".repeat(5000)))));
            }
        });
    }
    unsafe { leveldb_iter_destroy(iterator) };
}

#[test]
fn a_snapshot_is_read_until_it_is_released() {
    let store = Store::new();
    store.put(b"k", b"old");
    unsafe {
        let (snapshot, options) = (leveldb_create_snapshot(store.db), leveldb_readoptions_create());
        store.put(b"k", b"new");
        leveldb_readoptions_set_snapshot(options, snapshot);
        assert_eq!(store.get_with(options, b"k"), Ok(Some(b"old".to_vec())));
        let iterator = leveldb_create_iterator(store.db, options);
        leveldb_iter_seek_to_first(iterator);
        leveldb_release_snapshot(store.db, snapshot);
        assert_eq!(entry(iterator), Some(("k".to_string(), "old".to_string())), "an iterator outlives it");
        leveldb_iter_destroy(iterator);
        assert!(store.get_with(options, b"k").unwrap_err().contains("was released"));
        let late = leveldb_create_iterator(store.db, options);
        assert!(with_error(|error| leveldb_iter_get_error(late, error)).1.unwrap().contains("was released"));
        leveldb_iter_destroy(late);
        leveldb_readoptions_set_snapshot(options, null());
        assert_eq!(store.get_with(options, b"k"), Ok(Some(b"new".to_vec())));
        let of_nothing = leveldb_create_snapshot(null_mut());
        leveldb_readoptions_set_snapshot(options, of_nothing);
        assert!(store.get_with(options, b"k").unwrap_err().contains("a null pointer was passed for the store"));
        leveldb_release_snapshot(store.db, of_nothing);
        leveldb_readoptions_destroy(options);
    }
}

/// Read options must not keep a store open.
#[test]
fn options_that_refer_to_a_snapshot_do_not_keep_the_store_locked() {
    let mut store = Store::new();
    unsafe {
        let (snapshot, options) = (leveldb_create_snapshot(store.db), leveldb_readoptions_create());
        leveldb_readoptions_set_snapshot(options, snapshot);
        leveldb_release_snapshot(store.db, snapshot);
        store.close();
        assert_eq!(store.open(), None);
        leveldb_readoptions_destroy(options);
    }
}

unsafe extern "C" fn backwards(
    _: *mut c_void,
    left: *const c_char,
    left_len: usize,
    right: *const c_char,
    right_len: usize,
) -> c_int {
    let (left, right) = unsafe { (words(left, left_len), words(right, right_len)) };
    right.cmp(&left) as c_int
}

unsafe extern "C" fn name_backwards(_: *mut c_void) -> *const c_char {
    c"test.backwards".as_ptr()
}

unsafe extern "C" fn name_other(_: *mut c_void) -> *const c_char {
    c"test.other".as_ptr()
}

unsafe extern "C" fn no_name(_: *mut c_void) -> *const c_char {
    null()
}

unsafe extern "C" fn count_destroyed(state: *mut c_void) {
    unsafe { (*state.cast::<AtomicUsize>()).fetch_add(1, Ordering::SeqCst) };
}

#[test]
fn a_comparator_orders_keys_and_is_destroyed_once_nobody_uses_it() {
    let destroyed = AtomicUsize::new(0);
    let state = (&raw const destroyed).cast_mut().cast();
    let count = || destroyed.load(Ordering::SeqCst);
    let comparator =
        unsafe { leveldb_comparator_create(state, Some(count_destroyed), Some(backwards), Some(name_backwards)) };
    let mut store = Store::with(|options| unsafe { leveldb_options_set_comparator(options, comparator) });
    store.put(b"a", b"1");
    store.put(b"b", b"2");
    unsafe {
        let iterator = leveldb_create_iterator(store.db, null());
        leveldb_iter_seek_to_first(iterator);
        assert_eq!(entry(iterator).unwrap().0, "b");
        leveldb_iter_destroy(iterator);
        leveldb_comparator_destroy(comparator);
    }
    assert_eq!((count(), store.get(b"a")), (0, Some(b"1".to_vec())), "the open store still uses it");
    store.close();
    assert_eq!(count(), 1);
    assert!(store.open().unwrap().contains("was destroyed before"));

    let path = store.path();
    let open_with = |comparator| unsafe {
        let options = leveldb_options_create();
        leveldb_options_set_comparator(options, comparator);
        let (db, error) = with_error(|error| leveldb_open(options, path.as_ptr(), error));
        leveldb_close(db);
        leveldb_options_destroy(options);
        leveldb_comparator_destroy(comparator);
        error
    };
    unsafe {
        assert!(open_with(null_mut()).unwrap().contains("test.backwards"), "the order of bytes is another");
        let other = leveldb_comparator_create(state, Some(count_destroyed), Some(backwards), Some(name_other));
        assert!(open_with(other).unwrap().contains("test.other"));
        assert_eq!(count(), 2);
        let nameless = leveldb_comparator_create(null_mut(), None, Some(backwards), Some(no_name));
        assert!(open_with(nameless).unwrap().contains("null pointer as its name"));
        let empty = leveldb_comparator_create(null_mut(), None, None, None);
        assert!(open_with(empty).unwrap().contains("no function that compares"));
        let right = leveldb_comparator_create(null_mut(), None, Some(backwards), Some(name_backwards));
        assert_eq!(open_with(right), None);
    }
}

#[test]
fn a_filter_policy_is_accepted_and_given_back() {
    let destroyed = AtomicUsize::new(0);
    let policy = unsafe {
        let state = (&raw const destroyed).cast_mut().cast();
        leveldb_filterpolicy_create(state, Some(count_destroyed), None, None, None)
    };
    let store = Store::with(|options| unsafe { leveldb_options_set_filter_policy(options, policy) });
    store.put(b"k", b"v");
    assert_eq!(store.get(b"k").as_deref(), Some(&b"v"[..]));
    unsafe { leveldb_filterpolicy_destroy(policy) };
    assert_eq!(destroyed.load(Ordering::SeqCst), 1);
    unsafe { leveldb_filterpolicy_destroy(leveldb_filterpolicy_create_bloom(10)) };
}

#[test]
fn properties_and_sizes_tell_of_table_files() {
    let store = Store::with(|options| unsafe { leveldb_options_set_compression(options, 0) });
    assert_eq!(store.property(c"leveldb.num-files-at-level0").as_deref(), Some("0"));
    for key in 0..2000 {
        assert_eq!(store.put(format!("{key:06}").as_bytes(), &[7; 100]), None);
    }
    unsafe { leveldb_compact_range(store.db, null(), 0, null(), 0) };
    assert_eq!(store.property(c"leveldb.num-files-at-level0").as_deref(), Some("1"));
    assert_eq!(store.property(c"leveldb.num-files-at-level6").as_deref(), Some("0"));
    for unknown in [
        c"leveldb.num-files-at-level7",
        c"leveldb.num-files-at-level",
        c"leveldb.num-files-at-level+1",
        c"leveldb.nosuch",
        c"stats",
        c"",
    ] {
        assert_eq!(store.property(unknown), None, "{unknown:?}");
    }
    assert!(store.property(c"leveldb.stats").unwrap().contains("table files"));
    assert!(store.property(c"leveldb.sstables").unwrap().contains("['000000' .. '001999']"));
    let memory_bytes: u64 = store.property(c"leveldb.approximate-memory-usage").unwrap().parse().unwrap();
    assert!(memory_bytes > 0);

    let (starts, limits) = (["000000", "001000", "9", "z"], ["001000", "002000", "0", "zz"]);
    let pointers = |texts: [&str; 4]| texts.map(|text| text.as_ptr().cast::<c_char>());
    let lengths = |texts: [&str; 4]| texts.map(str::len);
    let mut sizes = [u64::MAX; 4];
    unsafe {
        leveldb_approximate_sizes(
            store.db,
            4,
            pointers(starts).as_ptr(),
            lengths(starts).as_ptr(),
            pointers(limits).as_ptr(),
            lengths(limits).as_ptr(),
            sizes.as_mut_ptr(),
        );
    }
    let about = 80_000..130_000;
    assert!(about.contains(&sizes[0]) && about.contains(&sizes[1]), "{sizes:?}");
    assert_eq!(sizes[2..], [0, 0], "upside down, and empty");
}

#[test]
fn a_store_is_repaired() {
    let mut store = Store::new();
    store.put(b"k", b"v");
    store.close();
    let path = store.path();
    assert_eq!(with_error(|error| unsafe { leveldb_repair_db(store.options, path.as_ptr(), error) }).1, None);
    assert_eq!(store.open(), None);
    assert_eq!(store.get(b"k").as_deref(), Some(&b"v"[..]));
}

/// An empty store in the place of LevelDB's data would look like a loss of all of it.
#[test]
fn what_leveldb_itself_made_is_refused_and_left_alone() {
    let mut store = Store::new();
    let path = store.path();
    let directory = store.directory.path().join("of-leveldb");
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("CURRENT"), "MANIFEST-000002\n").unwrap();
    let of_leveldb = path_of(&directory);
    unsafe {
        for call in [
            with_error(|error| leveldb_open(store.options, of_leveldb.as_ptr(), error)).1,
            with_error(|error| leveldb_destroy_db(store.options, of_leveldb.as_ptr(), error)).1,
            with_error(|error| leveldb_repair_db(store.options, of_leveldb.as_ptr(), error)).1,
        ] {
            assert!(call.unwrap().contains("LevelDB itself made"));
        }
    }
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1);
    store.close();
    assert!(Path::new(path.to_str().unwrap()).exists());
}

#[test]
fn the_version_is_that_of_the_interface() {
    assert_eq!(unsafe { (leveldb_major_version(), leveldb_minor_version()) }, (1, 23));
}
