//! Comparators and filter policies: functions that the caller passes in.

use super::*;
use crate::moments::entry;

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
fn a_comparator_is_destroyed_once_nobody_uses_it() {
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
