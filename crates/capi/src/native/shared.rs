//! `slmdb_shared_t`: what stores of a process have in common.

use std::ffi::c_char;
use std::ptr::null_mut;
use std::sync::Arc;

use slmdb::{Shared, SharedOptions};

use crate::common::arguments::{give_back, make, place};
use crate::common::memory::answer;
use crate::native::codes::{slmdb_code_t, told};

/// Background threads, memory and open table files that stores have in common.
pub struct slmdb_shared_t(pub(super) Arc<Shared>);

/// For stores that take so much together; 0 is the default.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_shared_create(
    memory_budget_bytes: u64,
    threads: usize,
    open_tables_max: usize,
    shared: *mut *mut slmdb_shared_t,
    message: *mut *mut c_char,
) -> slmdb_code_t {
    // SAFETY: PLACE.
    unsafe {
        answer(shared, null_mut());
        told(message, || {
            place(shared, "the place for what is shared")?;
            let defaults = SharedOptions::default();
            let options = SharedOptions {
                memory_budget_bytes: given(memory_budget_bytes, defaults.memory_budget_bytes),
                threads: given(threads, defaults.threads),
                open_tables_max: given(open_tables_max, defaults.open_tables_max),
            };
            answer(shared, make(slmdb_shared_t(Shared::new(options)?)));
            Ok(())
        })
    }
}

/// What was given, if it is not 0.
fn given<T: Default + PartialEq>(number: T, default: T) -> T {
    if number == T::default() { default } else { number }
}

/// Gives it back; null is nothing. Stores and options that have it keep it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_shared_destroy(shared: *mut slmdb_shared_t) {
    // SAFETY: HANDLE.
    unsafe { give_back(shared) };
}
