//! `leveldb_cache_t`: how much memory a store may use.

use crate::common::arguments::{give_back, make};

/// A cache. It holds nothing itself: each store that is opened with it has a cache of its own, of this size.
pub struct leveldb_cache_t {
    pub(super) capacity_bytes: usize,
}

/// A cache of `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_cache_create_lru(capacity: usize) -> *mut leveldb_cache_t {
    make(leveldb_cache_t { capacity_bytes: capacity })
}

/// Gives it back; null is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_cache_destroy(cache: *mut leveldb_cache_t) {
    // SAFETY: HANDLE.
    unsafe { give_back(cache) };
}
