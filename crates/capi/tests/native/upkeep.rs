//! Closing, reports, and what keeps a store.

use super::*;

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
