//! `slmdb_options_t`: how a store is opened.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use slmdb::{EngineName, Error, Medium, Options};

use crate::common::arguments::{change, give_back, handle_mut, make, path, text};
use crate::common::order::{COrder, Compare, Destroy, State};
use crate::native::codes::{slmdb_code_t, told};
use crate::native::events::{CListener, OnEvent};
use crate::native::shared::slmdb_shared_t;
use crate::native::values::{
    SLMDB_MEDIUM_DAX, SLMDB_MEDIUM_DRAM, SLMDB_MEDIUM_EMULATED, compression, slmdb_compression_t, slmdb_medium_t,
};

/// How a store is opened.
#[derive(Default)]
pub struct slmdb_options_t(Options);

impl slmdb_options_t {
    fn set(&mut self, set: impl FnOnce(Options) -> Options) {
        self.0 = set(self.0.clone());
    }
}

/// The options behind a handle; those of null are the defaults.
///
/// # Safety
///
/// HANDLE.
pub(super) unsafe fn options_of(options: *const slmdb_options_t) -> Options {
    // SAFETY: HANDLE.
    unsafe { options.as_ref() }.map_or_else(Options::default, |options| options.0.clone())
}

/// Options with defaults.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_options_create() -> *mut slmdb_options_t {
    make(slmdb_options_t::default())
}

/// Gives them back; null is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_options_destroy(options: *mut slmdb_options_t) {
    // SAFETY: HANDLE.
    unsafe { give_back(options) };
}

/// The design that a new store follows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_options_set_engine(
    options: *mut slmdb_options_t,
    engine: *const c_char,
    message: *mut *mut c_char,
) -> slmdb_code_t {
    // SAFETY: HANDLE, TEXT, PLACE.
    unsafe {
        told(message, || {
            let (options, engine) = (handle_mut(options, "the options")?, text(engine, "the engine")?);
            let engine: EngineName = engine.to_string_lossy().parse()?;
            options.set(|options| options.engine(engine));
            Ok(())
        })
    }
}

/// Where the fast tier is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_options_set_medium(
    options: *mut slmdb_options_t,
    medium: slmdb_medium_t,
    pool: *const c_char,
    message: *mut *mut c_char,
) -> slmdb_code_t {
    // SAFETY: HANDLE, TEXT, PLACE.
    unsafe {
        told(message, || {
            let options = handle_mut(options, "the options")?;
            let medium = match medium {
                SLMDB_MEDIUM_DRAM if pool.is_null() => Medium::Dram,
                SLMDB_MEDIUM_DRAM => return Err(Error::invalid("plain memory has no pool; pass null for it").into()),
                SLMDB_MEDIUM_EMULATED => Medium::Emulated { path: path(pool)?.to_path_buf() },
                SLMDB_MEDIUM_DAX => Medium::Dax { path: path(pool)?.to_path_buf() },
                other => return Err(Error::invalid(format!("{other} is no slmdb_medium_t")).into()),
            };
            options.set(|options| options.medium(medium));
            Ok(())
        })
    }
}

/// How blocks are compressed from now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_options_set_compression(
    options: *mut slmdb_options_t,
    how: slmdb_compression_t,
    message: *mut *mut c_char,
) -> slmdb_code_t {
    // SAFETY: HANDLE, PLACE.
    unsafe {
        told(message, || {
            let (options, how) = (handle_mut(options, "the options")?, compression(how)?);
            options.set(|options| options.compression(how));
            Ok(())
        })
    }
}

/// The order of keys, by a function of the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_options_set_comparator(
    options: *mut slmdb_options_t,
    name: *const c_char,
    compare: Option<Compare>,
    state: *mut c_void,
    destroy: Option<Destroy>,
    message: *mut *mut c_char,
) -> slmdb_code_t {
    let state = Arc::new(State { pointer: state, destroy });
    // SAFETY: HANDLE, TEXT, PLACE.
    unsafe {
        told(message, || {
            let (options, name) = (handle_mut(options, "the options")?, text(name, "the comparator's name")?);
            let name = name.to_str().map_err(|_| Error::invalid("the comparator's name is not UTF-8"))?.to_string();
            let compare = compare.ok_or_else(|| Error::invalid("the function that compares is a null pointer"))?;
            options.set(|options| options.comparator(COrder { name, compare, state }));
            Ok(())
        })
    }
}

/// A function that is told what the store does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_options_set_event_listener(
    options: *mut slmdb_options_t,
    on_event: Option<OnEvent>,
    state: *mut c_void,
    destroy: Option<Destroy>,
    message: *mut *mut c_char,
) -> slmdb_code_t {
    let state = State { pointer: state, destroy };
    // SAFETY: HANDLE, PLACE.
    unsafe {
        told(message, || {
            let options = handle_mut(options, "the options")?;
            let on_event = on_event.ok_or_else(|| Error::invalid("the function for events is a null pointer"))?;
            options.set(|options| options.event_listener(CListener::of(on_event, state)));
            Ok(())
        })
    }
}

/// What the store has in common with others; null is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_options_set_shared(options: *mut slmdb_options_t, shared: *const slmdb_shared_t) {
    // SAFETY: HANDLE.
    if let Some(shared) = unsafe { shared.as_ref() } {
        // SAFETY: HANDLE.
        unsafe { change(options, |options| options.set(|options| options.shared(&shared.0))) };
    }
}

/// Whether a missing store is made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_options_set_create_if_missing(options: *mut slmdb_options_t, yes: u8) {
    // SAFETY: HANDLE.
    unsafe { change(options, |options| options.set(|options| options.create_if_missing(yes != 0))) };
}

/// Whether an existing store is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_options_set_error_if_exists(options: *mut slmdb_options_t, yes: u8) {
    // SAFETY: HANDLE.
    unsafe { change(options, |options| options.set(|options| options.error_if_exists(yes != 0))) };
}

/// Whether it is opened for reading alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_options_set_read_only(options: *mut slmdb_options_t, yes: u8) {
    // SAFETY: HANDLE.
    unsafe { change(options, |options| options.set(|options| options.read_only(yes != 0))) };
}

/// Whether each write returns only once it survives a power cut.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_options_set_sync(options: *mut slmdb_options_t, yes: u8) {
    // SAFETY: HANDLE.
    unsafe { change(options, |options| options.set(|options| options.sync(yes != 0))) };
}

/// Whether the machine saves its processor caches when the power goes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_options_set_caches_are_persistent(options: *mut slmdb_options_t, yes: u8) {
    // SAFETY: HANDLE.
    unsafe { change(options, |options| options.set(|options| options.caches_are_persistent(yes != 0))) };
}

/// Memory for all that the store keeps in plain memory, in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_options_set_memory_budget_bytes(options: *mut slmdb_options_t, bytes: u64) {
    // SAFETY: HANDLE.
    unsafe { change(options, |options| options.set(|options| options.memory_budget_bytes(bytes))) };
}

/// Size of a MemTable, in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_options_set_memtable_bytes(options: *mut slmdb_options_t, bytes: u64) {
    // SAFETY: HANDLE.
    unsafe { change(options, |options| options.set(|options| options.memtable_bytes(bytes))) };
}

/// How many Immutable MemTables may queue for their flush.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_options_set_immutable_memtables_max(options: *mut slmdb_options_t, count: usize) {
    // SAFETY: HANDLE.
    unsafe { change(options, |options| options.set(|options| options.immutable_memtables_max(count))) };
}

/// Size of a block before compression, in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_options_set_block_bytes(options: *mut slmdb_options_t, bytes: usize) {
    // SAFETY: HANDLE.
    unsafe { change(options, |options| options.set(|options| options.block_bytes(bytes))) };
}

/// How many table files are held open at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_options_set_open_tables_max(options: *mut slmdb_options_t, count: usize) {
    // SAFETY: HANDLE.
    unsafe { change(options, |options| options.set(|options| options.open_tables_max(count))) };
}

/// How many compactions run at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_options_set_compaction_threads(options: *mut slmdb_options_t, threads: usize) {
    // SAFETY: HANDLE.
    unsafe { change(options, |options| options.set(|options| options.compaction_threads(threads))) };
}

/// How many times the size of the live data table files may take.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_options_set_space_amplification_max(options: *mut slmdb_options_t, times: f64) {
    // SAFETY: HANDLE.
    unsafe { change(options, |options| options.set(|options| options.space_amplification_max(times))) };
}

/// First size of the pool, in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_options_set_pool_initial_bytes(options: *mut slmdb_options_t, bytes: u64) {
    // SAFETY: HANDLE.
    unsafe { change(options, |options| options.set(|options| options.pool_initial_bytes(bytes))) };
}

/// By how much the pool grows at a time, in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_options_set_pool_growth_bytes(options: *mut slmdb_options_t, bytes: u64) {
    // SAFETY: HANDLE.
    unsafe { change(options, |options| options.set(|options| options.pool_growth_bytes(bytes))) };
}

/// The most the pool may grow to, in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_options_set_pool_maximum_bytes(options: *mut slmdb_options_t, bytes: u64) {
    // SAFETY: HANDLE.
    unsafe { change(options, |options| options.set(|options| options.pool_maximum_bytes(bytes))) };
}
