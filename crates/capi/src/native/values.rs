//! The words of the interface: numbers that stand for a choice. A number that stands for none is an error.

use std::ffi::c_int;

use slmdb::{Compression, Error, WriteOptions};

use crate::common::failure::Result;

/// Whether a write is synced: one of the constants `SLMDB_SYNC…`.
pub type slmdb_sync_t = c_int;

/// As the store's options say.
pub const SLMDB_SYNC_AS_OPTIONS: slmdb_sync_t = 0;
/// The write returns only once it survives a power cut.
pub const SLMDB_SYNC_YES: slmdb_sync_t = 1;
/// It does not wait for that.
pub const SLMDB_SYNC_NO: slmdb_sync_t = 2;

/// The fast tier: one of the constants `SLMDB_MEDIUM…`.
pub type slmdb_medium_t = c_int;

/// Plain memory and mapped files.
pub const SLMDB_MEDIUM_DRAM: slmdb_medium_t = 0;
/// A mapped file that is treated as persistent memory.
pub const SLMDB_MEDIUM_EMULATED: slmdb_medium_t = 1;
/// Persistent memory.
pub const SLMDB_MEDIUM_DAX: slmdb_medium_t = 2;

/// How blocks are compressed: one of the constants `SLMDB_COMPRESSION…`.
pub type slmdb_compression_t = c_int;

/// Not at all.
pub const SLMDB_COMPRESSION_NONE: slmdb_compression_t = 0;
/// LZ4.
pub const SLMDB_COMPRESSION_LZ4: slmdb_compression_t = 1;
/// zstd.
pub const SLMDB_COMPRESSION_ZSTD: slmdb_compression_t = 2;

/// How much is in a range of keys, about.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct slmdb_approximate_t {
    /// Keys that have a value.
    pub keys: u64,
    /// Bytes of table files that their entries take.
    pub table_bytes: u64,
    /// Bytes of keys and values in MemTables.
    pub memtable_bytes: u64,
}

#[inline]
pub(super) fn write_options(sync: slmdb_sync_t) -> Result<WriteOptions> {
    match sync {
        SLMDB_SYNC_AS_OPTIONS => Ok(WriteOptions::new()),
        SLMDB_SYNC_YES => Ok(WriteOptions::new().sync(true)),
        SLMDB_SYNC_NO => Ok(WriteOptions::new().sync(false)),
        other => Err(Error::invalid(format!("{other} is no slmdb_sync_t; there are 0, 1 and 2")).into()),
    }
}

pub(super) fn compression(compression: slmdb_compression_t) -> Result<Compression> {
    match compression {
        SLMDB_COMPRESSION_NONE => Ok(Compression::None),
        SLMDB_COMPRESSION_LZ4 => Ok(Compression::Lz4),
        SLMDB_COMPRESSION_ZSTD => Ok(Compression::Zstd),
        other => Err(Error::invalid(format!("{other} is no slmdb_compression_t; there are 0, 1 and 2")).into()),
    }
}
