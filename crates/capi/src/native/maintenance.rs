//! What keeps a store: syncs, flushes, compactions, copies, checks, repairs, and what it says of itself.

use std::ffi::c_char;
use std::ptr::null_mut;

use serde_json::{Value, json};
use slmdb::{Destroyed, Error, PoolFate, VerifyReport};
use slmdb_cli::reports;

use crate::common::arguments::{path, place, range};
use crate::common::failure::{Failure, Result};
use crate::common::memory::{answer, copied_text};
use crate::native::codes::{slmdb_code_t, told};
use crate::native::options::{options_of, slmdb_options_t};
use crate::native::store::{slmdb_t, used};
use crate::native::values::slmdb_approximate_t;

/// Answers with a report as JSON.
///
/// # Safety
///
/// PLACE.
unsafe fn reported(
    report: *mut *mut c_char,
    message: *mut *mut c_char,
    make: impl FnOnce() -> Result<Value>,
) -> slmdb_code_t {
    // SAFETY: PLACE.
    unsafe {
        answer(report, null_mut());
        told(message, || {
            let made = make()?;
            if !report.is_null() {
                let text = made.to_string();
                let copy = copied_text(&text);
                if copy.is_null() {
                    return Err(Failure::no_memory(text.len()));
                }
                answer(report, copy);
            }
            Ok(())
        })
    }
}

fn texts(errors: &[Error]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// Makes everything acknowledged so far survive a power cut.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_sync(db: *const slmdb_t, message: *mut *mut c_char) -> slmdb_code_t {
    // SAFETY: HANDLE, PLACE.
    unsafe { told(message, || Ok(used(db)?.db()?.sync()?)) }
}

/// Brings everything acknowledged so far into table files.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_flush(db: *const slmdb_t, message: *mut *mut c_char) -> slmdb_code_t {
    // SAFETY: HANDLE, PLACE.
    unsafe { told(message, || Ok(used(db)?.db()?.flush()?)) }
}

/// Merges the table files with keys from `from` on and before `to`. A null pointer is no bound.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_compact_range(
    db: *const slmdb_t,
    from: *const c_char,
    from_bytes: usize,
    to: *const c_char,
    to_bytes: usize,
    message: *mut *mut c_char,
) -> slmdb_code_t {
    // SAFETY: HANDLE, BYTES, PLACE.
    unsafe {
        told(message, || {
            let range = range(from, from_bytes, to, to_bytes)?;
            Ok(used(db)?.db()?.compact_range::<&[u8]>(range)?)
        })
    }
}

/// How much is in a range, about.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_approximate(
    db: *const slmdb_t,
    from: *const c_char,
    from_bytes: usize,
    to: *const c_char,
    to_bytes: usize,
    about: *mut slmdb_approximate_t,
    message: *mut *mut c_char,
) -> slmdb_code_t {
    // SAFETY: HANDLE, BYTES, PLACE.
    unsafe {
        answer(about, slmdb_approximate_t { keys: 0, table_bytes: 0, memtable_bytes: 0 });
        told(message, || {
            place(about, "the place for the answer")?;
            let range = range(from, from_bytes, to, to_bytes)?;
            let found = used(db)?.db()?.approximate::<&[u8]>(range)?;
            let (keys, table_bytes, memtable_bytes) = (found.keys, found.table_bytes, found.memtable_bytes);
            answer(about, slmdb_approximate_t { keys, table_bytes, memtable_bytes });
            Ok(())
        })
    }
}

/// Makes a copy of the store in a new or empty directory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_checkpoint(
    db: *const slmdb_t,
    directory: *const c_char,
    message: *mut *mut c_char,
) -> slmdb_code_t {
    // SAFETY: HANDLE, TEXT, PLACE.
    unsafe { told(message, || Ok(used(db)?.db()?.checkpoint(path(directory)?)?)) }
}

/// All numbers, as JSON.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_stats(
    db: *const slmdb_t,
    report: *mut *mut c_char,
    message: *mut *mut c_char,
) -> slmdb_code_t {
    // SAFETY: HANDLE, PLACE.
    unsafe { reported(report, message, || Ok(reports::stats::json(&used(db)?.db()?.stats()))) }
}

/// The table files, as JSON.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_table_files(
    db: *const slmdb_t,
    report: *mut *mut c_char,
    message: *mut *mut c_char,
) -> slmdb_code_t {
    // SAFETY: HANDLE, PLACE.
    unsafe {
        reported(report, message, || {
            Ok(used(db)?.db()?.table_files().iter().map(reports::stats::json_of_file).collect())
        })
    }
}

/// Checks everything against everything else. What is wrong is in the report.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_verify(
    db: *const slmdb_t,
    is_clean: *mut u8,
    report: *mut *mut c_char,
    message: *mut *mut c_char,
) -> slmdb_code_t {
    // SAFETY: HANDLE, PLACE.
    unsafe {
        answer(is_clean, 0);
        reported(report, message, || {
            let found = used(db)?.db()?.verify(&mut |_| {})?;
            answer(is_clean, found.is_clean().into());
            Ok(json_of_verify(&found))
        })
    }
}

fn json_of_verify(report: &VerifyReport) -> Value {
    json!({
        "is_clean": report.is_clean(),
        "findings": texts(&report.findings),
        "table_files_checked": report.table_files_checked,
        "table_bytes_checked": report.table_bytes_checked,
        "entries_checked": report.entries_checked,
        "index_keys_checked": report.index_keys_checked,
        "memtable_entries": report.memtable_entries,
    })
}

/// Makes a store that nobody has open whole again. What could not be saved is in the report.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_repair_store(
    directory: *const c_char,
    options: *const slmdb_options_t,
    report: *mut *mut c_char,
    message: *mut *mut c_char,
) -> slmdb_code_t {
    // SAFETY: HANDLE, TEXT, PLACE.
    unsafe {
        reported(report, message, || {
            Ok(reports::repair::json(&options_of(options).repair(path(directory)?, &mut |_| {})?))
        })
    }
}

/// Removes a store that nobody has open, and its pool. What was removed, and what was left, is in the report.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slmdb_destroy_store(
    directory: *const c_char,
    options: *const slmdb_options_t,
    report: *mut *mut c_char,
    message: *mut *mut c_char,
) -> slmdb_code_t {
    // SAFETY: HANDLE, TEXT, PLACE.
    unsafe {
        reported(report, message, || Ok(json_of_destroyed(&slmdb::destroy(path(directory)?, &options_of(options))?)))
    }
}

fn json_of_destroyed(destroyed: &Destroyed) -> Value {
    let pool = match &destroyed.pool {
        PoolFate::None => json!({ "fate": "none" }),
        PoolFate::Removed(path) => json!({ "fate": "removed", "path": path.display().to_string() }),
        PoolFate::Missing(path) => json!({ "fate": "missing", "path": path.display().to_string() }),
        PoolFate::Left { path, why } => {
            json!({ "fate": "left", "path": path.as_ref().map(|path| path.display().to_string()), "why": why })
        }
        _ => json!({ "fate": "other" }),
    };
    json!({ "files": destroyed.files, "bytes": destroyed.bytes, "left": destroyed.left, "is_directory_left": destroyed.is_directory_left, "pool": pool })
}
