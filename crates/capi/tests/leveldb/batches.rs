//! Batches: what they do, show, and refuse.

use super::*;

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
