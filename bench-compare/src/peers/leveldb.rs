//! LevelDB, from Debian's `libleveldb-dev`.
//!
//! As the paper has it: everything as by default but the write buffer, the filter, the size of the cache, and how many files are open,
//! which has to follow the data. In particular table files have 2 MB, and the first thousand of them are mapped.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_uchar, c_void};
use std::path::Path;

use slmdb_bench::Result;
use slmdb_bench::store::{Description, Store};

use super::c_store::{
    Batch, CStore, Cache, Db, ErrorOut, FilterPolicy, Functions, Iterator, Options, Own, ReadOptions, Resources,
    WriteOptions, bytes_at, chars, functions,
};
use crate::footing::{BLOCK_BYTES, BLOOM_BITS_PER_KEY, Compression, Footing, WRITE_BUFFERS, mebibytes};

const NO_COMPRESSION: c_int = 0;
const SNAPPY_COMPRESSION: c_int = 1;

unsafe extern "C" {
    fn leveldb_get(
        db: *mut Db,
        options: *const ReadOptions,
        key: *const c_char,
        key_bytes: usize,
        value_bytes: *mut usize,
        error: ErrorOut,
    ) -> *mut c_char;

    fn leveldb_options_create() -> *mut Options;
    fn leveldb_options_destroy(options: *mut Options);
    fn leveldb_options_set_create_if_missing(options: *mut Options, yes: c_uchar);
    fn leveldb_options_set_write_buffer_size(options: *mut Options, bytes: usize);
    fn leveldb_options_set_max_open_files(options: *mut Options, files: c_int);
    fn leveldb_options_set_block_size(options: *mut Options, bytes: usize);
    fn leveldb_options_set_compression(options: *mut Options, kind: c_int);
    fn leveldb_options_set_cache(options: *mut Options, cache: *mut Cache);
    fn leveldb_options_set_filter_policy(options: *mut Options, policy: *mut FilterPolicy);
    fn leveldb_cache_create_lru(bytes: usize) -> *mut Cache;
    fn leveldb_cache_destroy(cache: *mut Cache);
    fn leveldb_filterpolicy_create_bloom(bits_per_key: c_int) -> *mut FilterPolicy;
    fn leveldb_filterpolicy_destroy(policy: *mut FilterPolicy);
    fn leveldb_major_version() -> c_int;
    fn leveldb_minor_version() -> c_int;
}

functions!(
    "leveldb",
    &LevelDb,
    open: leveldb_open,
    close: leveldb_close,
    put: leveldb_put,
    delete: leveldb_delete,
    write: leveldb_write,
    create_iterator: leveldb_create_iterator,
    iterator_destroy: leveldb_iter_destroy,
    iterator_valid: leveldb_iter_valid,
    iterator_seek_to_first: leveldb_iter_seek_to_first,
    iterator_seek_to_last: leveldb_iter_seek_to_last,
    iterator_seek: leveldb_iter_seek,
    iterator_next: leveldb_iter_next,
    iterator_prev: leveldb_iter_prev,
    iterator_key: leveldb_iter_key,
    iterator_value: leveldb_iter_value,
    iterator_get_error: leveldb_iter_get_error,
    batch_create: leveldb_writebatch_create,
    batch_destroy: leveldb_writebatch_destroy,
    batch_put: leveldb_writebatch_put,
    read_options_create: leveldb_readoptions_create,
    read_options_destroy: leveldb_readoptions_destroy,
    write_options_create: leveldb_writeoptions_create,
    write_options_destroy: leveldb_writeoptions_destroy,
    write_options_set_sync: leveldb_writeoptions_set_sync,
    compact_range: leveldb_compact_range,
    property_value: leveldb_property_value,
    free: leveldb_free,
);

/// Cache and filter, which LevelDB does not take over.
struct Shared {
    cache: *mut Cache,
    filter: *mut FilterPolicy,
}

// SAFETY: LevelDB uses both from several threads itself; this only destroys them.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Resources for Shared {}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: made in `open`, and destroyed once, after the store that used them was closed.
        unsafe {
            leveldb_cache_destroy(self.cache);
            leveldb_filterpolicy_destroy(self.filter);
        }
    }
}

/// Opens one; makes it if it is missing.
pub fn open(directory: &Path, footing: &Footing, sync: bool) -> Result<Box<dyn Store>> {
    // SAFETY: everything is made here; cache and filter outlive the store in `Shared`; options are copied by `open`.
    unsafe {
        let shared = Shared {
            cache: leveldb_cache_create_lru(footing.block_cache_bytes() as usize),
            filter: leveldb_filterpolicy_create_bloom(BLOOM_BITS_PER_KEY as c_int),
        };
        let options = leveldb_options_create();
        leveldb_options_set_create_if_missing(options, 1);
        leveldb_options_set_write_buffer_size(options, footing.write_buffer_bytes as usize);
        leveldb_options_set_max_open_files(options, open_files_max(footing));
        leveldb_options_set_block_size(options, BLOCK_BYTES);
        leveldb_options_set_compression(options, compression(footing));
        leveldb_options_set_cache(options, shared.cache);
        leveldb_options_set_filter_policy(options, shared.filter);
        let store = CStore::open(&FUNCTIONS, directory, options, sync, Box::new(shared));
        leveldb_options_destroy(options);
        Ok(Box::new(store?))
    }
}

fn compression(footing: &Footing) -> c_int {
    match footing.compression {
        Compression::None => NO_COMPRESSION,
        Compression::Lz4 => SNAPPY_COMPRESSION,
    }
}

/// "One open file per 2MB of working set" (leveldb/options.h), with as much again for what is not compacted yet; or the default.
fn open_files_max(footing: &Footing) -> c_int {
    const DEFAULT: u64 = 1000;
    const FILE_BYTES: u64 = 2 << 20;
    c_int::try_from(DEFAULT.max(2 * footing.data_bytes / FILE_BYTES + 100)).unwrap_or(c_int::MAX)
}

/// What it is, and how it is set up.
pub fn setup(footing: &Footing) -> String {
    // SAFETY: these have no conditions.
    let (major, minor) = unsafe { (leveldb_major_version(), leveldb_minor_version()) };
    format!(
        "LevelDB {major}.{minor}: block cache {}, {WRITE_BUFFERS} write buffers of {}, blocks of {BLOCK_BYTES} bytes, Bloom {BLOOM_BITS_PER_KEY} bits, \
         {} files open at most{}",
        mebibytes(footing.block_cache_bytes()),
        mebibytes(footing.write_buffer_bytes),
        open_files_max(footing),
        footing.compressed_by("Snappy"),
    )
}

/// LevelDB's own way of things.
struct LevelDb;

impl Own for LevelDb {
    fn get(&self, store: &CStore, key: &[u8], look: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let mut value_bytes = 0;
        // SAFETY: store and options are alive.
        let value = store.checked(|error| unsafe {
            leveldb_get(store.db, store.read_options, chars(key), key.len(), &mut value_bytes, error)
        })?;
        if value.is_null() {
            return Ok(false);
        }
        // SAFETY: an array of so many bytes, ours to free.
        unsafe {
            look(bytes_at(value, value_bytes));
            leveldb_free(value.cast());
        }
        Ok(true)
    }

    /// There is no call for it: an empty batch, written with a sync, takes the log with it.
    fn sync(&self, store: &CStore) -> Result<()> {
        // SAFETY: made here, used by one call, destroyed.
        unsafe {
            let options = leveldb_writeoptions_create();
            leveldb_writeoptions_set_sync(options, 1);
            let written = store.write(&[], options);
            leveldb_writeoptions_destroy(options);
            written
        }
    }

    /// There is no call for it: a compaction of a range writes the MemTable out first, and behind all keys there is nothing more to do.
    fn flush(&self, store: &CStore) -> Result<()> {
        let behind_all_keys = [0xff; 32];
        let behind = chars(&behind_all_keys);
        // SAFETY: the store is open; the bytes are copied.
        unsafe {
            leveldb_compact_range(store.db, behind, behind_all_keys.len(), behind, behind_all_keys.len());
        }
        Ok(())
    }

    fn memory_properties(&self) -> &'static [&'static CStr] {
        &[c"leveldb.approximate-memory-usage"]
    }

    fn description(&self, what: Description) -> &'static CStr {
        match what {
            Description::Stats => c"leveldb.stats",
            Description::TableFiles => c"leveldb.sstables",
        }
    }
}
