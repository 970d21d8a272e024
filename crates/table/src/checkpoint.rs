//! The index checkpoint: where the newest version of every key is, in a file.
//!
//! It spares a rebuild of the index the key sections of all files that were there when it was begun, and it lets compactions
//! drop tombstones. Keys are in order, prefix-compressed, in chunks of about 64 KiB; each is a part as a table file's are
//! (`part`), with checksum and trailer, but what the checksum covers in the place of the part's offset is its number, so
//! that a checkpoint may be longer than 4 GiB. All little endian.
//!
//! ```text
//! chunks    parts of kind 4, numbered from 0, never compressed
//! summary   part of kind 5, number 2^32 - 1, compressed with LZ4 if that pays
//! footer    80 bytes
//! ```
//!
//! A chunk's content:
//!
//! ```text
//! 0   u64     ordinal of its first entry in the checkpoint
//! 8   u32     how many entries, at least one
//! 12  u64     sequence number that the first difference starts from
//! 20  entries, each:
//!             varint  how many bytes of the key it has in common with the one before; 0 for the chunk's first
//!             varint  how many bytes follow; then those
//!             varint  place of its table file in the summary
//!             varint  zigzag difference of its sequence number to the one before
//!             varint  offset of its block in the file
//!             varint  length of its block
//! ```
//!
//! The summary's content:
//!
//! ```text
//! 0   u64     S: every flush up to this sequence number had been committed when the checkpoint was begun
//! 8   u64     how many entries
//! 16  u64     when it was begun, in nanoseconds since 1970 UTC
//! 24  u32     how many table files there were then: the first ones below
//! 28  u32     how many table files the entries are in, and those
//! 32  u32     how many chunks
//! 36  files, each: number u32, entries in it u64, bytes of their keys u64
//! ..  chunks, each: its length as stored, u32
//! ```
//!
//! The footer:
//!
//! ```text
//! 0   bytes   UUID of the store (16 bytes)
//! 16  u32     number of the checkpoint
//! 20  u32     0
//! 24  u64     offset of the summary
//! 32  u64     length of the summary, trailer included
//! 40  u64     length of the file
//! 48  16 bytes, all 0
//! 64  u32     format version: 1
//! 68  u32     CRC-32C of bytes 0 to 67 and 72 to 79
//! 72  bytes   magic: "slmdbCKP"
//! ```

mod layout;
mod reader;
mod writer;

#[cfg(test)]
mod tests;

pub use layout::{CHECKPOINT_FORMAT_VERSION, CheckpointedFile, CheckpointedLocation};
pub use reader::{CheckpointReader, CheckpointStream};
pub use writer::{CheckpointWriter, FinishedCheckpoint};
