//! How long the MemTables of an open store are: as its options say, or shorter where the file system has little space, or
//! sets none aside.
//!
//! Everything that is made ahead of writes is as long as a MemTable, or a part of that: arenas, space for table files, what is
//! kept back for deletes. So the length is settled once, at the opening, before anything is made. It stays until the store
//! is opened again.

use std::path::Path;

use slmdb_env::OpenMode;
use slmdb_manifest::FILE_NAME as MANIFEST_NAME;

use crate::Options;

/// MemTables are no longer than this part of what is free when the store is opened,
const PART_OF_FREE: u64 = 16;
/// but may be as long as this anywhere.
const SHORT_BYTES: u64 = 128 << 10;
/// Where space is set aside by writing zeros, MemTables are no longer than this: the first put waits for three times as many zeros, or five.
const OF_ZEROS_BYTES_MAX: u64 = 2 << 20;

/// The length of the MemTables in bytes, for the store in this directory, which has a MANIFEST.
pub fn memtable_bytes(options: &Options, directory: &Path) -> u64 {
    if options.read_only || options.memtable_bytes <= SHORT_BYTES {
        return options.memtable_bytes;
    }
    let free_bytes = options.env.available_bytes(directory).unwrap_or(u64::MAX);
    let manifest = options.env.open_file(&directory.join(MANIFEST_NAME), OpenMode::ReadWrite);
    let writes_zeros = manifest.is_ok_and(|manifest| !manifest.takes_space_at_once());
    let most_bytes = if writes_zeros { OF_ZEROS_BYTES_MAX } else { u64::MAX };
    options.memtable_bytes.min((free_bytes / PART_OF_FREE).max(SHORT_BYTES)).min(most_bytes)
}
