//! The order of keys by a function of C.

use std::cmp::Ordering;
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use slmdb::Comparator;

/// Compares two keys: negative, zero or positive, as the first is before, at or behind the second.
pub type Compare = unsafe extern "C" fn(
    state: *mut c_void,
    left: *const c_char,
    left_bytes: usize,
    right: *const c_char,
    right_bytes: usize,
) -> c_int;

/// Gives back what a caller's functions work on.
pub type Destroy = unsafe extern "C" fn(state: *mut c_void);

/// What a caller's functions work on. It is given back when the last user is gone.
pub struct State {
    /// The caller's pointer, passed to each of the functions.
    pub pointer: *mut c_void,
    /// What gives it back.
    pub destroy: Option<Destroy>,
}

// SAFETY: CALLBACK; the headers demand functions that any thread may call, several at once, with this pointer.
unsafe impl Send for State {}
// SAFETY: as above.
unsafe impl Sync for State {}

impl Drop for State {
    fn drop(&mut self) {
        if let Some(destroy) = self.destroy {
            // SAFETY: CALLBACK; it is called once, and no other function with this pointer after it.
            unsafe { destroy(self.pointer) };
        }
    }
}

/// An order by a function of C.
pub struct COrder {
    /// Its name.
    pub name: String,
    /// What compares.
    pub compare: Compare,
    /// What it works on.
    pub state: Arc<State>,
}

impl Comparator for COrder {
    fn name(&self) -> &str {
        &self.name
    }

    fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        let (left_start, right_start) = (left.as_ptr().cast(), right.as_ptr().cast());
        // SAFETY: CALLBACK; both keys live as long as the call.
        let order = unsafe { (self.compare)(self.state.pointer, left_start, left.len(), right_start, right.len()) };
        order.cmp(&0)
    }
}
