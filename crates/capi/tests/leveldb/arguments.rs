//! Errors, null pointers, lengths and limits.

use super::*;

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
