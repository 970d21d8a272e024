//! `leveldb_env_t`: the operating system. There is no other.

use std::ffi::c_char;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use crate::common::arguments::{give_back, make};
use crate::common::memory::copied_text;

/// The operating system.
pub struct leveldb_env_t {
    _nothing: u8,
}

/// The operating system.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_create_default_env() -> *mut leveldb_env_t {
    make(leveldb_env_t { _nothing: 0 })
}

/// Gives it back; null is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_env_destroy(env: *mut leveldb_env_t) {
    // SAFETY: HANDLE.
    unsafe { give_back(env) };
}

/// A directory for tests, made if it is missing: `$TEST_TMPDIR`, or one of this user in the directory for temporary
/// files.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_env_get_test_directory(_env: *mut leveldb_env_t) -> *mut c_char {
    let asked = std::env::var_os("TEST_TMPDIR").filter(|directory| !directory.is_empty());
    // SAFETY: `geteuid` can't fail, and touches no memory.
    let user = || unsafe { libc::geteuid() };
    let directory = asked.map_or_else(|| PathBuf::from(format!("/tmp/leveldbtest-{}", user())), PathBuf::from);
    // Whoever can't use it is told so by the opening.
    let _ = std::fs::DirBuilder::new().mode(0o755).create(&directory);
    copied_text(&directory.to_string_lossy())
}
