//! `leveldb_filterpolicy_t`: accepted and never asked. The index knows every key, so there is nothing to filter.

use std::ffi::{c_char, c_int, c_void};

use crate::common::arguments::{give_back, make};
use crate::common::order::{Destroy, State};

/// A filter policy.
pub struct leveldb_filterpolicy_t {
    /// Of a policy of the caller's. It is given back with the policy.
    _state: Option<State>,
}

/// LevelDB's `create_filter`.
pub type CreateFilter = unsafe extern "C" fn(
    state: *mut c_void,
    keys: *const *const c_char,
    key_lengths_bytes: *const usize,
    keys_count: c_int,
    filter_length_bytes: *mut usize,
) -> *mut c_char;

/// LevelDB's `key_may_match`.
pub type KeyMayMatch = unsafe extern "C" fn(
    state: *mut c_void,
    key: *const c_char,
    key_bytes: usize,
    filter: *const c_char,
    filter_bytes: usize,
) -> u8;

/// LevelDB's `name`, of a filter policy or a comparator.
pub type Name = unsafe extern "C" fn(state: *mut c_void) -> *const c_char;

/// A policy of the caller's. Of its functions only `destructor` is ever called.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_filterpolicy_create(
    state: *mut c_void,
    destructor: Option<Destroy>,
    _create_filter: Option<CreateFilter>,
    _key_may_match: Option<KeyMayMatch>,
    _name: Option<Name>,
) -> *mut leveldb_filterpolicy_t {
    make(leveldb_filterpolicy_t { _state: Some(State { pointer: state, destroy: destructor }) })
}

/// LevelDB's Bloom filter.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_filterpolicy_create_bloom(_bits_per_key: c_int) -> *mut leveldb_filterpolicy_t {
    make(leveldb_filterpolicy_t { _state: None })
}

/// Gives it back, and calls its `destructor`; null is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_filterpolicy_destroy(policy: *mut leveldb_filterpolicy_t) {
    // SAFETY: HANDLE.
    unsafe { give_back(policy) };
}
