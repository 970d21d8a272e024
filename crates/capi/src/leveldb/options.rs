//! `leveldb_options_t`: how a store is opened, and what slmdb makes of LevelDB's options.

use std::ffi::c_int;

use slmdb::{CompactionOptions, Compression, Options};

use crate::common::arguments::{change, give_back, make};
use crate::common::failure::Result;
use crate::leveldb::cache::leveldb_cache_t;
use crate::leveldb::comparator::{ComparatorReference, leveldb_comparator_t};
use crate::leveldb::env::leveldb_env_t;
use crate::leveldb::filter_policy::leveldb_filterpolicy_t;

/// LevelDB's `leveldb_no_compression`.
const NO_COMPRESSION: c_int = 0;

/// LevelDB's logger. There is no function that makes one.
pub struct leveldb_logger_t {
    _nothing: u8,
}

/// How a store is opened. What was not set is as slmdb does it.
#[derive(Default)]
pub struct leveldb_options_t {
    comparator: Option<ComparatorReference>,
    create_if_missing: bool,
    error_if_exists: bool,
    write_buffer_bytes: Option<usize>,
    open_files_max: Option<c_int>,
    cache_bytes: Option<usize>,
    block_bytes: Option<usize>,
    restart_interval: Option<c_int>,
    file_bytes_max: Option<usize>,
    is_uncompressed: bool,
}

impl leveldb_options_t {
    /// The same as slmdb's. Numbers are brought within limits, as LevelDB does it.
    pub(super) fn of_slmdb(&self) -> Result<Options> {
        let mut options =
            Options::default().create_if_missing(self.create_if_missing).error_if_exists(self.error_if_exists);
        let mut memtable_bytes = 64 << 20;
        if let Some(bytes) = self.write_buffer_bytes {
            memtable_bytes = (bytes as u64).clamp(64 << 10, 1 << 30);
            options = options.memtable_bytes(memtable_bytes);
        }
        if let Some(bytes) = self.cache_bytes {
            // The budget is for MemTables, too: one that is written, and two that wait for their flush.
            options = options.memory_budget_bytes((bytes as u64).saturating_add(3 * memtable_bytes));
        }
        if let Some(count) = self.open_files_max {
            options = options.open_tables_max(count.clamp(64, 50_000) as usize);
        }
        if let Some(bytes) = self.block_bytes {
            options = options.block_bytes(bytes.clamp(1 << 10, 1 << 20));
        }
        if let Some(entries) = self.restart_interval {
            let entries = entries.clamp(1, c_int::from(u16::MAX)) as usize;
            options = options.advanced(|advanced| advanced.restart_interval(entries));
        }
        if let Some(bytes) = self.file_bytes_max {
            let table_file_bytes = (bytes as u64).clamp(1 << 20, 1 << 30);
            let compaction = CompactionOptions { table_file_bytes, ..CompactionOptions::default() };
            options = options.advanced(|advanced| advanced.compaction(compaction));
        }
        if self.is_uncompressed {
            options = options.compression(Compression::None);
        }
        if let Some(comparator) = &self.comparator {
            options = options.comparator(comparator.order()?);
        }
        Ok(options)
    }
}

/// Options with LevelDB's defaults: a missing store is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_create() -> *mut leveldb_options_t {
    make(leveldb_options_t::default())
}

/// Gives them back; null is nothing. What they refer to stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_destroy(options: *mut leveldb_options_t) {
    // SAFETY: HANDLE.
    unsafe { give_back(options) };
}

/// The order of keys; null is the order of their bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_comparator(
    options: *mut leveldb_options_t,
    comparator: *mut leveldb_comparator_t,
) {
    // SAFETY: HANDLE.
    let comparator = unsafe { comparator.as_ref() }.map(ComparatorReference::of);
    // SAFETY: HANDLE.
    unsafe { change(options, |options| options.comparator = comparator) };
}

/// Accepted. The index is exact, so no filter is asked.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_filter_policy(
    _options: *mut leveldb_options_t,
    _policy: *mut leveldb_filterpolicy_t,
) {
}

/// Whether a missing store is made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_create_if_missing(options: *mut leveldb_options_t, yes: u8) {
    // SAFETY: HANDLE.
    unsafe { change(options, |options| options.create_if_missing = yes != 0) };
}

/// Whether an existing store is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_error_if_exists(options: *mut leveldb_options_t, yes: u8) {
    // SAFETY: HANDLE.
    unsafe { change(options, |options| options.error_if_exists = yes != 0) };
}

/// Accepted. Checksums are always verified.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_paranoid_checks(_options: *mut leveldb_options_t, _yes: u8) {}

/// Accepted. There is one environment.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_env(_options: *mut leveldb_options_t, _env: *mut leveldb_env_t) {}

/// Accepted. Nothing is logged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_info_log(
    _options: *mut leveldb_options_t,
    _logger: *mut leveldb_logger_t,
) {
}

/// Size of a MemTable, in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_write_buffer_size(options: *mut leveldb_options_t, bytes: usize) {
    // SAFETY: HANDLE.
    unsafe { change(options, |options| options.write_buffer_bytes = Some(bytes)) };
}

/// How many table files are held open at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_max_open_files(options: *mut leveldb_options_t, count: c_int) {
    // SAFETY: HANDLE.
    unsafe { change(options, |options| options.open_files_max = Some(count)) };
}

/// How much memory the store may use for cached blocks; null is slmdb's default.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_cache(options: *mut leveldb_options_t, cache: *mut leveldb_cache_t) {
    // SAFETY: HANDLE.
    let bytes = unsafe { cache.as_ref() }.map(|cache| cache.capacity_bytes);
    // SAFETY: HANDLE.
    unsafe { change(options, |options| options.cache_bytes = bytes) };
}

/// Size of a block before compression, in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_block_size(options: *mut leveldb_options_t, bytes: usize) {
    // SAFETY: HANDLE.
    unsafe { change(options, |options| options.block_bytes = Some(bytes)) };
}

/// Entries between two keys that are stored whole.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_block_restart_interval(options: *mut leveldb_options_t, entries: c_int) {
    // SAFETY: HANDLE.
    unsafe { change(options, |options| options.restart_interval = Some(entries)) };
}

/// Size of the files that compactions make, in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_max_file_size(options: *mut leveldb_options_t, bytes: usize) {
    // SAFETY: HANDLE.
    unsafe { change(options, |options| options.file_bytes_max = Some(bytes)) };
}

/// 0 is none. Anything else is LZ4, which takes Snappy's part.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_options_set_compression(options: *mut leveldb_options_t, compression: c_int) {
    // SAFETY: HANDLE.
    unsafe { change(options, |options| options.is_uncompressed = compression == NO_COMPRESSION) };
}
