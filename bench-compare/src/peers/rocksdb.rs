//! RocksDB, from Debian's `librocksdb-dev`.
//!
//! As by default but for the paper's settings and what "Basic Tuning" in its wiki advises where it makes a difference: background jobs,
//! syncs of table files while they are written, levels that are sized from the last one (a default since 8.4), and compactions that
//! read ahead (a default since 8.7); and the size of the cache. Filters and indexes of open files are held beside the cache, as by
//! default, which is quicker and takes more memory. Blocks keep LevelDB's 4 KiB: larger ones would be worse for single reads.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_void};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

use slmdb_bench::Result;
use slmdb_bench::store::{Description, Numbers, Store};

use super::c_store::{
    Batch, CStore, Cache, Db, ErrorOut, FilterPolicy, Functions, Iterator, Options, Own, ReadOptions, Resources,
    WriteOptions, bytes_at, chars, functions, opaque,
};
use super::failure::failed_in;
use crate::footing::{BLOCK_BYTES, BLOOM_BITS_PER_KEY, Compression, Footing, WRITE_BUFFERS, mebibytes, processors};

const NO_COMPRESSION: c_int = 0;
const LZ4_COMPRESSION: c_int = 4;
/// RocksDB's default since 8.7.
const COMPACTION_READ_AHEAD_BYTES: usize = 2 << 20;
const BYTES_PER_SYNC: u64 = 1 << 20;
const BACKGROUND_JOBS: usize = 6;

opaque!(
    /// How table files are made.
    TableOptions,
    /// How is flushed.
    FlushOptions,
    /// A value that stays where it is.
    Pinned,
    /// A directory for files, and how much of them it is for.
    DbPath,
);

unsafe extern "C" {
    fn rocksdb_get_pinned(
        db: *mut Db,
        options: *const ReadOptions,
        key: *const c_char,
        key_bytes: usize,
        error: ErrorOut,
    ) -> *mut Pinned;
    fn rocksdb_pinnableslice_value(pinned: *const Pinned, bytes: *mut usize) -> *const c_char;
    fn rocksdb_pinnableslice_destroy(pinned: *mut Pinned);

    fn rocksdb_options_create() -> *mut Options;
    fn rocksdb_options_destroy(options: *mut Options);
    fn rocksdb_options_set_create_if_missing(options: *mut Options, yes: c_uchar);
    fn rocksdb_options_set_write_buffer_size(options: *mut Options, bytes: usize);
    fn rocksdb_options_set_max_write_buffer_number(options: *mut Options, count: c_int);
    fn rocksdb_options_increase_parallelism(options: *mut Options, threads: c_int);
    fn rocksdb_options_compaction_readahead_size(options: *mut Options, bytes: usize);
    fn rocksdb_options_set_bytes_per_sync(options: *mut Options, bytes: u64);
    fn rocksdb_options_set_level_compaction_dynamic_level_bytes(options: *mut Options, yes: c_uchar);
    fn rocksdb_options_set_compression(options: *mut Options, kind: c_int);
    fn rocksdb_options_set_max_bytes_for_level_base(options: *mut Options, bytes: u64);
    fn rocksdb_options_set_target_file_size_base(options: *mut Options, bytes: u64);
    fn rocksdb_options_set_db_paths(options: *mut Options, paths: *const *const DbPath, count: usize);
    fn rocksdb_dbpath_create(path: *const c_char, bytes: u64) -> *mut DbPath;
    fn rocksdb_dbpath_destroy(path: *mut DbPath);
    fn rocksdb_options_set_block_based_table_factory(options: *mut Options, table: *mut TableOptions);
    fn rocksdb_block_based_options_create() -> *mut TableOptions;
    fn rocksdb_block_based_options_destroy(table: *mut TableOptions);
    fn rocksdb_block_based_options_set_block_size(table: *mut TableOptions, bytes: usize);
    fn rocksdb_block_based_options_set_block_cache(table: *mut TableOptions, cache: *mut Cache);
    fn rocksdb_block_based_options_set_filter_policy(table: *mut TableOptions, policy: *mut FilterPolicy);
    fn rocksdb_cache_create_lru(bytes: usize) -> *mut Cache;
    fn rocksdb_cache_destroy(cache: *mut Cache);
    fn rocksdb_filterpolicy_create_bloom_full(bits_per_key: f64) -> *mut FilterPolicy;
    fn rocksdb_flushoptions_create() -> *mut FlushOptions;
    fn rocksdb_flushoptions_destroy(options: *mut FlushOptions);
    fn rocksdb_flushoptions_set_wait(options: *mut FlushOptions, yes: c_uchar);
    fn rocksdb_flush(db: *mut Db, options: *const FlushOptions, error: ErrorOut);
    fn rocksdb_flush_wal(db: *mut Db, sync: c_uchar, error: ErrorOut);
}

functions!(
    "rocksdb",
    &RocksDb,
    open: rocksdb_open,
    close: rocksdb_close,
    put: rocksdb_put,
    delete: rocksdb_delete,
    write: rocksdb_write,
    create_iterator: rocksdb_create_iterator,
    iterator_destroy: rocksdb_iter_destroy,
    iterator_valid: rocksdb_iter_valid,
    iterator_seek_to_first: rocksdb_iter_seek_to_first,
    iterator_seek_to_last: rocksdb_iter_seek_to_last,
    iterator_seek: rocksdb_iter_seek,
    iterator_next: rocksdb_iter_next,
    iterator_prev: rocksdb_iter_prev,
    iterator_key: rocksdb_iter_key,
    iterator_value: rocksdb_iter_value,
    iterator_get_error: rocksdb_iter_get_error,
    batch_create: rocksdb_writebatch_create,
    batch_destroy: rocksdb_writebatch_destroy,
    batch_put: rocksdb_writebatch_put,
    read_options_create: rocksdb_readoptions_create,
    read_options_destroy: rocksdb_readoptions_destroy,
    write_options_create: rocksdb_writeoptions_create,
    write_options_destroy: rocksdb_writeoptions_destroy,
    write_options_set_sync: rocksdb_writeoptions_set_sync,
    compact_range: rocksdb_compact_range,
    property_value: rocksdb_property_value,
    free: rocksdb_free,
);

/// RocksDB shares what it is given, and takes part in its ownership: there is nothing to hold.
struct Nothing;

impl Resources for Nothing {}

/// What RocksDB is told of its levels; by default nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Levels {
    /// Bytes of a fast path in memory, if it has one: the stand-in for the papers' RocksDB-NVM. RocksDB has those levels there
    /// that fit into it, from level 0 on.
    pub fast_path_bytes: Option<u64>,
    /// Bytes of level 1, if it is told.
    pub level_base_bytes: Option<u64>,
}

impl Levels {
    /// RocksDB's default.
    const LEVEL_BASE_BYTES: u64 = 256 << 20;

    fn level_base_bytes(self) -> u64 {
        self.level_base_bytes.unwrap_or(Levels::LEVEL_BASE_BYTES)
    }
}

/// Opens one, its fast path in the second directory; makes it if it is missing.
pub fn open(directory: &Path, fast: &Path, levels: Levels, footing: &Footing, sync: bool) -> Result<Box<dyn Store>> {
    // SAFETY: everything is made here. Table options take over the filter, and share the cache; options copy the table options, and
    // `open` copies the options.
    unsafe {
        let cache = rocksdb_cache_create_lru(footing.block_cache_bytes() as usize);
        let table = rocksdb_block_based_options_create();
        rocksdb_block_based_options_set_block_size(table, BLOCK_BYTES);
        rocksdb_block_based_options_set_block_cache(table, cache);
        let filter = rocksdb_filterpolicy_create_bloom_full(f64::from(BLOOM_BITS_PER_KEY));
        rocksdb_block_based_options_set_filter_policy(table, filter);
        let options = rocksdb_options_create();
        rocksdb_options_set_create_if_missing(options, 1);
        rocksdb_options_set_write_buffer_size(options, footing.write_buffer_bytes as usize);
        rocksdb_options_set_max_write_buffer_number(options, WRITE_BUFFERS as c_int);
        rocksdb_options_increase_parallelism(options, background_jobs());
        rocksdb_options_compaction_readahead_size(options, COMPACTION_READ_AHEAD_BYTES);
        rocksdb_options_set_bytes_per_sync(options, BYTES_PER_SYNC);
        rocksdb_options_set_level_compaction_dynamic_level_bytes(options, 1);
        rocksdb_options_set_compression(options, compression(footing));
        rocksdb_options_set_block_based_table_factory(options, table);
        if levels != Levels::default() {
            rocksdb_options_set_max_bytes_for_level_base(options, levels.level_base_bytes());
            // As by default: a quarter of level 1.
            rocksdb_options_set_target_file_size_base(options, (levels.level_base_bytes() / 4).max(1));
        }
        if let Some(bytes) = levels.fast_path_bytes {
            set_paths(options, [(fast, bytes), (directory, u64::MAX)])?;
        }
        let store = CStore::open(&FUNCTIONS, directory, options, sync, Box::new(Nothing));
        rocksdb_options_destroy(options);
        rocksdb_block_based_options_destroy(table);
        rocksdb_cache_destroy(cache);
        Ok(Box::new(store?))
    }
}

/// Gives RocksDB its paths, each with the bytes that may be there. Levels are sized from the first one then: with several paths
/// RocksDB has it so.
///
/// # Safety
///
/// `options` are RocksDB's, and nobody else uses them.
unsafe fn set_paths(options: *mut Options, paths: [(&Path, u64); 2]) -> Result<()> {
    let text = |path: &Path| CString::new(path.as_os_str().as_bytes()).map_err(failed_in("rocksdb"));
    let [(fast, fast_bytes), (slow, slow_bytes)] = paths;
    let (fast, slow) = (text(fast)?, text(slow)?);
    // SAFETY: paths are copied, by `create` and by `set_db_paths`, and both are destroyed once.
    unsafe {
        let paths =
            [rocksdb_dbpath_create(fast.as_ptr(), fast_bytes), rocksdb_dbpath_create(slow.as_ptr(), slow_bytes)];
        rocksdb_options_set_db_paths(options, paths.map(<*mut DbPath>::cast_const).as_ptr(), paths.len());
        paths.into_iter().for_each(|path| rocksdb_dbpath_destroy(path));
        rocksdb_options_set_level_compaction_dynamic_level_bytes(options, 0);
    }
    Ok(())
}

/// As many as there are processors, and as the wiki advises at least.
fn background_jobs() -> c_int {
    processors().max(BACKGROUND_JOBS) as c_int
}

/// What it is, and how it is set up.
pub fn setup(levels: Levels, footing: &Footing) -> String {
    let base = mebibytes(levels.level_base_bytes());
    let levels = match levels {
        Levels { fast_path_bytes: Some(bytes), .. } => {
            format!("level 1 of {base}, in memory those levels that fit into {}", mebibytes(bytes))
        }
        Levels { level_base_bytes: Some(_), .. } => format!("levels sized from the last, the first of at most {base}"),
        _ => "levels sized from the last".to_string(),
    };
    format!(
        "RocksDB {}: block cache {}, {WRITE_BUFFERS} write buffers of {}, blocks of {BLOCK_BYTES} bytes, Bloom {BLOOM_BITS_PER_KEY} bits, \
         {} background jobs, {levels}, syncs each megabyte, compactions read 2 MiB ahead{}",
        version().unwrap_or("of unknown version"),
        mebibytes(footing.block_cache_bytes()),
        mebibytes(footing.write_buffer_bytes),
        background_jobs(),
        footing.compressed_by("LZ4"),
    )
}

fn compression(footing: &Footing) -> c_int {
    match footing.compression {
        Compression::None => NO_COMPRESSION,
        Compression::Lz4 => LZ4_COMPRESSION,
    }
}

/// RocksDB has no call for it, but its library's file name tells.
fn version() -> Option<&'static str> {
    static VERSION: OnceLock<Option<String>> = OnceLock::new();
    let read = || {
        let maps = fs::read_to_string("/proc/self/maps").ok()?;
        let path = maps.lines().find(|line| line.contains("/librocksdb.so."))?.split_whitespace().last()?;
        Some(path.rsplit_once(".so.")?.1.to_string())
    };
    VERSION.get_or_init(read).as_deref()
}

/// RocksDB's own way of things.
struct RocksDb;

impl Own for RocksDb {
    /// The value stays in the block where it was found; nothing is copied.
    fn get(&self, store: &CStore, key: &[u8], look: &mut dyn FnMut(&[u8])) -> Result<bool> {
        // SAFETY: store and options are alive.
        let pinned = store.checked(|error| unsafe {
            rocksdb_get_pinned(store.db, store.read_options, chars(key), key.len(), error)
        })?;
        if pinned.is_null() {
            return Ok(false);
        }
        let mut value_bytes = 0;
        // SAFETY: the value stays until what pins it is destroyed.
        unsafe {
            look(bytes_at(rocksdb_pinnableslice_value(pinned, &mut value_bytes), value_bytes));
            rocksdb_pinnableslice_destroy(pinned);
        }
        Ok(true)
    }

    fn sync(&self, store: &CStore) -> Result<()> {
        // SAFETY: the store is open.
        store.checked(|error| unsafe { rocksdb_flush_wal(store.db, 1, error) })
    }

    fn flush(&self, store: &CStore) -> Result<()> {
        // SAFETY: made here, used by one call, destroyed.
        unsafe {
            let options = rocksdb_flushoptions_create();
            rocksdb_flushoptions_set_wait(options, 1);
            let flushed = store.checked(|error| rocksdb_flush(store.db, options, error));
            rocksdb_flushoptions_destroy(options);
            flushed
        }
    }

    fn with_compactions(&self, store: &CStore, numbers: Numbers) -> Numbers {
        let table = store.property(c"rocksdb.cfstats-no-file-histogram").unwrap_or_default();
        let level_zero_bytes = cell(&table, "L0", "Size").and_then(|(size, unit)| Some(size * unit_bytes(unit?)?));
        let seconds = cell(&table, "Sum", "Comp(sec)");
        Numbers {
            compaction_ns: seconds.map(|(seconds, _)| (seconds * 1e9) as u64),
            // Without files there is no line.
            level_zero_bytes: Some(level_zero_bytes.map_or(0, |bytes| bytes as u64)),
            ..numbers
        }
    }

    fn memory_properties(&self) -> &'static [&'static CStr] {
        &[c"rocksdb.block-cache-usage", c"rocksdb.cur-size-all-mem-tables", c"rocksdb.estimate-table-readers-mem"]
    }

    fn description(&self, what: Description) -> &'static CStr {
        match what {
            Description::Stats => c"rocksdb.stats",
            Description::TableFiles => c"rocksdb.sstables",
        }
    }
}

/// A number of the table of compactions, with its unit if it has one: in the line of this level, under this title. Flushes are in the
/// line of level 0, and all of it is in `Sum`.
fn cell<'t>(table: &'t str, level: &str, title: &str) -> Option<(f64, Option<&'t str>)> {
    let titles = table.lines().find(|line| line.starts_with("Level "))?;
    let column = titles.split_whitespace().position(|word| word == title)?;
    let cells: Vec<&str> = table
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .find(|cells| cells.first() == Some(&level))?;
    // A size is two words: a number and its unit.
    let size = titles.split_whitespace().position(|word| word == "Size")?;
    let at = if column > size { column + 1 } else { column };
    let unit = (column == size).then(|| cells.get(at + 1).copied()).flatten();
    Some((cells.get(at)?.parse().ok()?, unit))
}

fn unit_bytes(unit: &str) -> Option<f64> {
    let power = ["B", "KB", "MB", "GB", "TB"].iter().position(|known| *known == unit)?;
    Some(1024_f64.powi(power as i32))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "
** Compaction Stats [default] **
Level    Files   Size     Score Read(GB)  Rn(GB) Rnp1(GB) Write(GB) Wnew(GB) Moved(GB) W-Amp Rd(MB/s) Wr(MB/s) Comp(sec) CompMergeCPU(sec) Comp(cnt)
------------------------------------------------------------------------------------------------------------------------------------------------------
  L0      3/0   194.50 KB   0.8      0.0     0.0      0.0       0.0      0.0       0.0   1.0      0.0      4.8      0.25              0.03        19
 Sum      4/0    1.07 MB   0.0      0.0     0.0      0.0       0.0      0.0       0.0   2.9      6.2      9.0      0.39              0.08        23
";

    #[test]
    fn what_rocksdb_says_of_its_compactions_is_read() {
        assert_eq!(cell(TABLE, "L0", "Size"), Some((194.5, Some("KB"))));
        assert_eq!(cell(TABLE, "Sum", "Comp(sec)"), Some((0.39, None)));
        assert_eq!(cell(TABLE, "Sum", "Score"), Some((0.0, None)));
        assert_eq!(cell(TABLE, "L5", "Size"), None);
        assert_eq!(cell("", "L0", "Size"), None);
        assert_eq!((unit_bytes("KB"), unit_bytes("ZB")), (Some(1024.0), None));
    }
}
