//! Closed handles, null pointers, wrong numbers, options.

use super::*;

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
            ("delete_range", told(|message| slmdb_delete_range(db, null(), 0, key, 1, 0, message))),
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
        invalid(told(|message| slmdb_delete_range(db, null(), 1, null(), 0, 0, message)), "for the beginning, with");
        invalid(told(|message| slmdb_delete_range(db, null(), 0, null(), 1, 0, message)), "for the end, with");
        invalid(told(|message| slmdb_delete_range(db, key, 1, key, 1, 3, message)), "3 is no slmdb_sync_t");
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
        invalid(
            told(|message| slmdb_batch_delete_range(null_mut(), key, 1, null(), 0, message)),
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
        invalid(told(|message| slmdb_shared_create(0, 0, 0, null_mut(), message)), "the place for what is shared");
        slmdb_options_set_shared(options, null());
        slmdb_options_destroy(options);
        // No place for a message: the code tells.
        assert_eq!(slmdb_put(db, null(), 1, key, 1, 0, null_mut()), SLMDB_INVALID);
        assert_eq!(slmdb_contains_key(db, key, 1, &mut yes, null_mut()), SLMDB_OK);
        // Nothing to be told.
        slmdb_release(null_mut());
        slmdb_free(null_mut());
        slmdb_cursor_destroy(null_mut());
        slmdb_shared_destroy(null_mut());
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
