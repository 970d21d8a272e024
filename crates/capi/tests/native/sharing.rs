//! Stores that have threads, memory and open files in common.

use super::*;

/// Makes what stores share.
fn share(
    memory_budget_bytes: u64,
    threads: usize,
    open_tables_max: usize,
) -> (*mut slmdb_shared_t, slmdb_code_t, String) {
    let mut shared = std::ptr::dangling_mut();
    let (code, message) = told(|message| unsafe {
        slmdb_shared_create(memory_budget_bytes, threads, open_tables_max, &mut shared, message)
    });
    (shared, code, message)
}

#[test]
fn stores_keep_what_they_share_whatever_was_given_back() {
    let (shared, code, message) = share(64 << 20, 1, 100);
    assert_eq!(code, SLMDB_OK, "{message}");
    let options = unsafe { slmdb_options_create() };
    unsafe {
        slmdb_options_set_memtable_bytes(options, 1 << 20);
        // This store's own, which what is shared takes the place of.
        slmdb_options_set_memory_budget_bytes(options, 32 << 20);
        slmdb_options_set_shared(options, shared);
    }
    let stores: Vec<Store> = (0..5).map(|_| Store::with(options)).collect();
    unsafe {
        slmdb_shared_destroy(shared);
        slmdb_options_destroy(options);
    }
    for (number, store) in stores.iter().enumerate() {
        assert_eq!(store.report(slmdb_stats)["memory_budget_bytes"], 64 << 20);
        store.put("k", &number.to_string());
        ok(|message| unsafe { slmdb_flush(store.db, message) });
    }
    ok(|message| unsafe { slmdb_close(stores[0].db, message) });
    for (number, store) in stores.iter().enumerate().skip(1) {
        assert_eq!(store.get("k"), Some(number.to_string()));
    }
}

#[test]
fn zero_is_the_default_of_each() {
    let (shared, code, message) = share(0, 0, 0);
    assert_eq!(code, SLMDB_OK, "{message}");
    let options = unsafe { slmdb_options_create() };
    unsafe { slmdb_options_set_shared(options, shared) };
    let store = Store::with(options);
    assert_eq!(store.report(slmdb_stats)["memory_budget_bytes"], 256 << 20);
    unsafe {
        slmdb_options_destroy(options);
        slmdb_shared_destroy(shared);
    }
}

#[test]
fn what_cant_be_shared_is_invalid() {
    for threads in [5, usize::MAX] {
        let (shared, code, message) = share(0, threads, 0);
        assert_eq!((shared, code), (null_mut(), SLMDB_INVALID));
        assert!(message.starts_with("stores may share from 1 to 4 threads"), "{message}");
    }
}
