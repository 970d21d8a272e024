//! Iterators and snapshots, and the moments that they see.

use super::*;

/// Key and value, or nothing.
pub fn entry(iterator: *const leveldb_iterator_t) -> Option<(String, String)> {
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
fn read_options_do_not_keep_the_store_locked() {
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
