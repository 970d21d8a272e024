//! What LevelDB's and RocksDB's C interfaces have in common, which is nearly everything: RocksDB's began as LevelDB's, with
//! other names. A library is a table of functions ([`Functions`]); its module declares them, and sets the options.
//!
//! The contract of both headers (`leveldb/c.h`, `rocksdb/c.h`), which every call here relies on: a store may be used by any
//! number of threads at once; bytes go in as pointer and length, and are copied before the call returns; what an iterator
//! points to stays until it moves; an error is a C string in `*errptr`, which was null, to be freed with the library's own
//! `free`.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_uchar, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::{ptr, slice};

use slmdb_bench::store::{Description, Entry, Numbers, Start, Store};
use slmdb_bench::{Error, Result};

use super::failure::failed;

/// Declares types that are only ever pointed to.
macro_rules! opaque {
    ($($(#[$about:meta])* $name:ident),* $(,)?) => {
        $($(#[$about])* #[repr(C)] pub struct $name { _private: [u8; 0] })*
    };
}
pub(super) use opaque;

/// Declares a library's functions, and makes their table `FUNCTIONS`. The signatures are those of both headers.
macro_rules! functions {
    ($library:literal, $own:expr, $($field:ident: $function:ident),* $(,)?) => {
        functions!(@declare $library, $($function),*);
        static FUNCTIONS: Functions = Functions { name: $library, own: $own, $($field: $function),* };
    };
    (
        @declare
        $library:literal, $open:ident, $close:ident, $put:ident, $delete:ident, $write:ident,
        $create_iterator:ident, $iterator_destroy:ident, $iterator_valid:ident,
        $iterator_seek_to_first:ident, $iterator_seek_to_last:ident, $iterator_seek:ident,
        $iterator_next:ident, $iterator_prev:ident, $iterator_key:ident, $iterator_value:ident,
        $iterator_get_error:ident, $batch_create:ident, $batch_destroy:ident, $batch_put:ident,
        $read_options_create:ident, $read_options_destroy:ident, $write_options_create:ident,
        $write_options_destroy:ident, $write_options_set_sync:ident, $compact_range:ident,
        $property_value:ident, $free:ident
    ) => {
        #[link(name = $library)]
        unsafe extern "C" {
            fn $open(options: *const Options, name: *const c_char, error: ErrorOut) -> *mut Db;
            fn $close(db: *mut Db);
            fn $put(
                db: *mut Db,
                options: *const WriteOptions,
                key: *const c_char,
                key_bytes: usize,
                value: *const c_char,
                value_bytes: usize,
                error: ErrorOut,
            );
            fn $delete(
                db: *mut Db,
                options: *const WriteOptions,
                key: *const c_char,
                key_bytes: usize,
                error: ErrorOut,
            );
            fn $write(db: *mut Db, options: *const WriteOptions, batch: *mut Batch, error: ErrorOut);
            fn $create_iterator(db: *mut Db, options: *const ReadOptions) -> *mut Iterator;
            fn $iterator_destroy(iterator: *mut Iterator);
            fn $iterator_valid(iterator: *const Iterator) -> c_uchar;
            fn $iterator_seek_to_first(iterator: *mut Iterator);
            fn $iterator_seek_to_last(iterator: *mut Iterator);
            fn $iterator_seek(iterator: *mut Iterator, key: *const c_char, key_bytes: usize);
            fn $iterator_next(iterator: *mut Iterator);
            fn $iterator_prev(iterator: *mut Iterator);
            fn $iterator_key(iterator: *const Iterator, bytes: *mut usize) -> *const c_char;
            fn $iterator_value(iterator: *const Iterator, bytes: *mut usize) -> *const c_char;
            fn $iterator_get_error(iterator: *const Iterator, error: ErrorOut);
            fn $batch_create() -> *mut Batch;
            fn $batch_destroy(batch: *mut Batch);
            fn $batch_put(
                batch: *mut Batch,
                key: *const c_char,
                key_bytes: usize,
                value: *const c_char,
                value_bytes: usize,
            );
            fn $read_options_create() -> *mut ReadOptions;
            fn $read_options_destroy(options: *mut ReadOptions);
            fn $write_options_create() -> *mut WriteOptions;
            fn $write_options_destroy(options: *mut WriteOptions);
            fn $write_options_set_sync(options: *mut WriteOptions, yes: c_uchar);
            fn $compact_range(
                db: *mut Db,
                from: *const c_char,
                from_bytes: usize,
                to: *const c_char,
                to_bytes: usize,
            );
            fn $property_value(db: *mut Db, name: *const c_char) -> *mut c_char;
            fn $free(pointer: *mut c_void);
        }
    };
}
pub(super) use functions;

opaque!(
    /// An open store.
    Db,
    /// How it is opened.
    Options,
    /// How is read.
    ReadOptions,
    /// How is written.
    WriteOptions,
    /// An iterator.
    Iterator,
    /// Several writes.
    Batch,
    /// A block cache.
    Cache,
    /// What makes filters.
    FilterPolicy,
);

/// Where a function puts the text of its error.
pub type ErrorOut = *mut *mut c_char;

/// The functions of a library.
pub struct Functions {
    /// What it is called.
    pub name: &'static str,
    pub open: unsafe extern "C" fn(*const Options, *const c_char, ErrorOut) -> *mut Db,
    pub close: unsafe extern "C" fn(*mut Db),
    pub put: unsafe extern "C" fn(*mut Db, *const WriteOptions, *const c_char, usize, *const c_char, usize, ErrorOut),
    pub delete: unsafe extern "C" fn(*mut Db, *const WriteOptions, *const c_char, usize, ErrorOut),
    pub write: unsafe extern "C" fn(*mut Db, *const WriteOptions, *mut Batch, ErrorOut),
    pub create_iterator: unsafe extern "C" fn(*mut Db, *const ReadOptions) -> *mut Iterator,
    pub iterator_destroy: unsafe extern "C" fn(*mut Iterator),
    pub iterator_valid: unsafe extern "C" fn(*const Iterator) -> c_uchar,
    pub iterator_seek_to_first: unsafe extern "C" fn(*mut Iterator),
    pub iterator_seek_to_last: unsafe extern "C" fn(*mut Iterator),
    pub iterator_seek: unsafe extern "C" fn(*mut Iterator, *const c_char, usize),
    pub iterator_next: unsafe extern "C" fn(*mut Iterator),
    pub iterator_prev: unsafe extern "C" fn(*mut Iterator),
    pub iterator_key: unsafe extern "C" fn(*const Iterator, *mut usize) -> *const c_char,
    pub iterator_value: unsafe extern "C" fn(*const Iterator, *mut usize) -> *const c_char,
    pub iterator_get_error: unsafe extern "C" fn(*const Iterator, ErrorOut),
    pub batch_create: unsafe extern "C" fn() -> *mut Batch,
    pub batch_destroy: unsafe extern "C" fn(*mut Batch),
    pub batch_put: unsafe extern "C" fn(*mut Batch, *const c_char, usize, *const c_char, usize),
    pub read_options_create: unsafe extern "C" fn() -> *mut ReadOptions,
    pub read_options_destroy: unsafe extern "C" fn(*mut ReadOptions),
    pub write_options_create: unsafe extern "C" fn() -> *mut WriteOptions,
    pub write_options_destroy: unsafe extern "C" fn(*mut WriteOptions),
    pub write_options_set_sync: unsafe extern "C" fn(*mut WriteOptions, c_uchar),
    pub compact_range: unsafe extern "C" fn(*mut Db, *const c_char, usize, *const c_char, usize),
    pub property_value: unsafe extern "C" fn(*mut Db, *const c_char) -> *mut c_char,
    pub free: unsafe extern "C" fn(*mut c_void),
    /// What is not alike in both.
    pub own: &'static dyn Own,
}

/// What each library does in its own way.
pub trait Own: Sync {
    /// As [`Store::get`].
    fn get(&self, store: &CStore, key: &[u8], look: &mut dyn FnMut(&[u8])) -> Result<bool>;
    /// As [`Store::sync`].
    fn sync(&self, store: &CStore) -> Result<()>;
    /// As [`Store::flush`].
    fn flush(&self, store: &CStore) -> Result<()>;
    /// Adds what it tells of its compactions.
    fn with_compactions(&self, store: &CStore, numbers: Numbers) -> Numbers {
        let _ = store;
        numbers
    }
    /// The properties that tell what it keeps in memory.
    fn memory_properties(&self) -> &'static [&'static CStr];
    /// The property that describes it.
    fn description(&self, what: Description) -> &'static CStr;
}

/// An open store of one of these libraries.
pub struct CStore {
    pub functions: &'static Functions,
    pub db: *mut Db,
    pub read_options: *mut ReadOptions,
    write_options: *mut WriteOptions,
    /// What has to outlive the store.
    _resources: Box<dyn Resources>,
}

/// What a store was opened with and still uses; dropped after it was closed.
pub trait Resources: Send + Sync {}

// SAFETY: both headers allow a store, and options that nobody changes, to be used by any number of threads at once. Resources are
// `Send` and `Sync` by themselves.
unsafe impl Send for CStore {}
// SAFETY: as above.
unsafe impl Sync for CStore {}

/// A slice's beginning as C has it.
pub fn chars(bytes: &[u8]) -> *const c_char {
    bytes.as_ptr().cast()
}

impl CStore {
    /// Opens the store in `directory`, with `options`, which the caller still has to destroy. `resources` live as long as it.
    ///
    /// # Safety
    ///
    /// `options` are valid options of this library, and what they point to is held by `resources`.
    pub unsafe fn open(
        functions: &'static Functions,
        directory: &Path,
        options: *const Options,
        sync: bool,
        resources: Box<dyn Resources>,
    ) -> Result<CStore> {
        let name = functions.name;
        let path = CString::new(directory.as_os_str().as_bytes()).map_err(|error| failed(name, error))?;
        let mut error = ptr::null_mut();
        // SAFETY: the options are valid by this function's own contract, the path ends in a zero, the error is null.
        let db = unsafe { (functions.open)(options, path.as_ptr(), &mut error) };
        taken(functions, error)?;
        // SAFETY: these have no conditions.
        let (read_options, write_options) =
            unsafe { ((functions.read_options_create)(), (functions.write_options_create)()) };
        // SAFETY: they were just made.
        unsafe { (functions.write_options_set_sync)(write_options, c_uchar::from(sync)) };
        Ok(CStore { functions, db, read_options, write_options, _resources: resources })
    }

    /// Calls a function that may leave an error.
    pub fn checked<T>(&self, call: impl FnOnce(ErrorOut) -> T) -> Result<T> {
        let mut error = ptr::null_mut();
        let result = call(&mut error);
        taken(self.functions, error)?;
        Ok(result)
    }

    /// Writes a batch, which may be empty, with these options.
    pub fn write(&self, entries: &[(&[u8], &[u8])], options: *const WriteOptions) -> Result<()> {
        let functions = self.functions;
        // SAFETY: it has no conditions.
        let batch = unsafe { (functions.batch_create)() };
        for (key, value) in entries {
            // SAFETY: the batch lives until it is destroyed below, and copies the bytes.
            unsafe { (functions.batch_put)(batch, chars(key), key.len(), chars(value), value.len()) };
        }
        // SAFETY: store, options and batch are alive.
        let written = self.checked(|error| unsafe { (functions.write)(self.db, options, batch, error) });
        // SAFETY: it was made here, and nobody else has it.
        unsafe { (functions.batch_destroy)(batch) };
        written
    }

    /// What the store says of itself under this name.
    pub(super) fn property(&self, name: &CStr) -> Option<String> {
        // SAFETY: the store is open, and the name ends in a zero.
        let text = unsafe { (self.functions.property_value)(self.db, name.as_ptr()) };
        if text.is_null() {
            return None;
        }
        // SAFETY: what is not null is a C string of the library's, ours to free.
        unsafe {
            let copy = CStr::from_ptr(text).to_string_lossy().into_owned();
            (self.functions.free)(text.cast());
            Some(copy)
        }
    }
}

impl Drop for CStore {
    fn drop(&mut self) {
        // SAFETY: each was made when the store was opened and is destroyed once, here; iterators borrow the store, so none is left.
        unsafe {
            (self.functions.close)(self.db);
            (self.functions.read_options_destroy)(self.read_options);
            (self.functions.write_options_destroy)(self.write_options);
        }
    }
}

/// The error that a call has left, if it has.
fn taken(functions: &Functions, error: *mut c_char) -> Result<()> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: what is not null is a C string of the library's, ours to free.
    let text = unsafe {
        let text = CStr::from_ptr(error).to_string_lossy().into_owned();
        (functions.free)(error.cast());
        text
    };
    Err(Error::Peer(functions.name.to_string(), text))
}

impl Store for CStore {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let put = self.functions.put;
        // SAFETY: store and options are alive; the bytes are copied.
        self.checked(|error| unsafe {
            put(self.db, self.write_options, chars(key), key.len(), chars(value), value.len(), error)
        })
    }

    fn put_all(&self, entries: &[(&[u8], &[u8])]) -> Result<()> {
        self.write(entries, self.write_options)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        // SAFETY: as for put.
        self.checked(|error| unsafe {
            (self.functions.delete)(self.db, self.write_options, chars(key), key.len(), error)
        })
    }

    fn get(&self, key: &[u8], look: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.functions.own.get(self, key, look)
    }

    fn walk(&self, start: Start<'_>, visit: &mut dyn FnMut(&mut dyn Entry) -> Result<bool>) -> Result<()> {
        let functions = self.functions;
        // SAFETY: store and options are alive, and stay so for as long as the iterator borrows them.
        let iterator = unsafe { (functions.create_iterator)(self.db, self.read_options) };
        let mut on = OnIterator { store: self, iterator };
        // SAFETY: the iterator is alive until `on` is dropped.
        unsafe {
            match start {
                Start::At(key) => (functions.iterator_seek)(iterator, chars(key), key.len()),
                Start::First => (functions.iterator_seek_to_first)(iterator),
                Start::Last => (functions.iterator_seek_to_last)(iterator),
            }
        }
        let step = if start == Start::Last { functions.iterator_prev } else { functions.iterator_next };
        while on.is_valid() && visit(&mut on)? {
            // SAFETY: it is alive, and was valid.
            unsafe { step(iterator) };
        }
        // SAFETY: it is alive.
        self.checked(|error| unsafe { (functions.iterator_get_error)(iterator, error) })
    }

    fn sync(&self) -> Result<()> {
        self.functions.own.sync(self)
    }

    fn flush(&self) -> Result<()> {
        self.functions.own.flush(self)
    }

    fn compact(&self) -> Result<()> {
        // SAFETY: null for both ends is the whole range.
        unsafe { (self.functions.compact_range)(self.db, ptr::null(), 0, ptr::null(), 0) };
        Ok(())
    }

    fn numbers(&self) -> Numbers {
        let parts = self.functions.own.memory_properties().iter();
        let sum = parts.map(|name| self.property(name)?.parse::<u64>().ok()).sum::<Option<u64>>();
        self.functions.own.with_compactions(self, Numbers { memory_bytes: sum, ..Numbers::default() })
    }

    fn describe(&self, what: Description) -> Option<String> {
        self.property(self.functions.own.description(what))
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// The entry an iterator is on.
struct OnIterator<'s> {
    store: &'s CStore,
    iterator: *mut Iterator,
}

impl OnIterator<'_> {
    fn is_valid(&self) -> bool {
        // SAFETY: the iterator is alive for as long as this.
        unsafe { (self.store.functions.iterator_valid)(self.iterator) != 0 }
    }

    /// Key or value, by the function that gives it.
    fn part(&self, of: unsafe extern "C" fn(*const Iterator, *mut usize) -> *const c_char) -> &[u8] {
        let mut length_bytes = 0;
        // SAFETY: entries are visited while the iterator is valid, so there is one; its bytes stay until the iterator moves, which takes
        // the end of this borrow.
        unsafe { bytes_at(of(self.iterator, &mut length_bytes), length_bytes) }
    }
}

/// Bytes that C points to; an empty slice's pointer may be anything.
///
/// # Safety
///
/// So many bytes are there, and stay as they are for the lifetime.
pub unsafe fn bytes_at<'a>(start: *const c_char, length_bytes: usize) -> &'a [u8] {
    if length_bytes == 0 {
        return &[];
    }
    // SAFETY: by this function's own contract.
    unsafe { slice::from_raw_parts(start.cast(), length_bytes) }
}

impl Entry for OnIterator<'_> {
    fn key(&self) -> &[u8] {
        self.part(self.store.functions.iterator_key)
    }

    fn value(&mut self) -> Result<&[u8]> {
        Ok(self.part(self.store.functions.iterator_value))
    }
}

impl Drop for OnIterator<'_> {
    fn drop(&mut self) {
        // SAFETY: it was made for this, and is destroyed once.
        unsafe { (self.store.functions.iterator_destroy)(self.iterator) }
    }
}
