//! Destroying and repairing a store, and telling one of LevelDB's own from it.

use std::ffi::c_char;
use std::path::Path;

use slmdb::Error;

use crate::common::arguments::{handle, path};
use crate::common::failure::Result;
use crate::leveldb::errors::told;
use crate::leveldb::options::leveldb_options_t;

/// The file that names LevelDB's MANIFEST. slmdb has none of that name.
const FILE_OF_LEVELDB: &str = "CURRENT";

/// Error: LevelDB itself made what is in this directory. An empty store in its place would hide it.
pub(super) fn check_not_of_leveldb(directory: &Path) -> Result<()> {
    if !directory.join(FILE_OF_LEVELDB).exists() {
        return Ok(());
    }
    let place = directory.display();
    let what = format!(
        "LevelDB itself made the database in {place}, and slmdb can't read its files; copy its entries to a new \
         directory with a program that LevelDB's own library runs"
    );
    Err(Error::invalid(what).into())
}

/// Removes a store. It is no error if there is none, as with LevelDB.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_destroy_db(
    options: *const leveldb_options_t,
    name: *const c_char,
    errptr: *mut *mut c_char,
) {
    // SAFETY: HANDLE, TEXT, and an `errptr` as the header demands it.
    unsafe {
        told(errptr, (), || {
            let (options, path) = (handle(options, "the options")?, path(name)?);
            check_not_of_leveldb(path)?;
            match slmdb::destroy(path, &options.of_slmdb()?) {
                Err(Error::Invalid { .. }) if !path.join("MANIFEST").exists() => Ok(()),
                destroyed => destroyed.map(|_| ()).map_err(Into::into),
            }
        });
    }
}

/// Makes a store whole again from what can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_repair_db(
    options: *const leveldb_options_t,
    name: *const c_char,
    errptr: *mut *mut c_char,
) {
    // SAFETY: HANDLE, TEXT, and an `errptr` as the header demands it.
    unsafe {
        told(errptr, (), || {
            let (options, path) = (handle(options, "the options")?, path(name)?);
            check_not_of_leveldb(path)?;
            options.of_slmdb()?.repair(path, &mut |_| {})?;
            Ok(())
        });
    }
}
