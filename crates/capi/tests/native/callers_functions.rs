//! Comparators and listeners: functions that the caller passes in.

use super::*;

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
