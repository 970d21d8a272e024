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

mod reader;
mod writer;

#[cfg(test)]
mod tests;

use std::path::Path;

use slmdb_env::{Error, Result};

use crate::codec::{get_array, get_u32, get_u64};
use crate::entry::Place;
use crate::part::TRAILER_BYTES;

pub use reader::{CheckpointReader, CheckpointStream};
pub use writer::{CheckpointWriter, FinishedCheckpoint};

/// The version of the format that this crate writes, and the only one it reads.
pub const CHECKPOINT_FORMAT_VERSION: u32 = 1;

/// A chunk is ended rather than made longer than this, unless one entry alone is.
const CHUNK_BYTES: usize = 64 << 10;
const CHUNK_HEADER_BYTES: usize = 20;
/// The most that an entry takes on top of its key.
const ENTRY_HEAD_BYTES_AT_MOST: usize = 3 + 3 + 5 + 10 + 5 + 5;
/// No chunk is longer than this.
const CHUNK_BYTES_AT_MOST: usize = 2 * CHUNK_BYTES;
const _: () =
    assert!(CHUNK_HEADER_BYTES + crate::options::MAXIMUM_KEY_BYTES + ENTRY_HEAD_BYTES_AT_MOST <= CHUNK_BYTES_AT_MOST);

const SUMMARY_HEADER_BYTES: usize = 36;
const FILE_BYTES: usize = 20;
/// What the summary's checksum covers as its number.
const SUMMARY_NUMBER: u32 = u32::MAX;

const FOOTER_BYTES: usize = 80;
const CHECKSUM_AT: usize = 68;
const MAGIC_AT: usize = 72;
const MAGIC: [u8; 8] = *b"slmdbCKP";

/// A table file, as a checkpoint tells of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckpointedFile {
    /// Its number.
    pub number: u32,
    /// How many entries of the checkpoint are in it.
    pub entries: u64,
    /// How long their keys are together, in bytes.
    pub key_bytes: u64,
}

/// Where a checkpoint says that the newest version of a key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckpointedLocation {
    /// Place of its table file in [`CheckpointReader::files`].
    pub file_index: usize,
    /// Its sequence number.
    pub sequence: u64,
    /// Its block.
    pub place: Place,
}

/// What the footer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Footer {
    store_uuid: [u8; 16],
    number: u32,
    summary_offset: u64,
    summary_bytes: u64,
    file_bytes: u64,
}

fn footer_checksum(bytes: &[u8; FOOTER_BYTES]) -> u32 {
    slmdb_checksum::crc32c_append(slmdb_checksum::crc32c(&bytes[..CHECKSUM_AT]), &bytes[MAGIC_AT..])
}

impl Footer {
    fn encode(&self) -> [u8; FOOTER_BYTES] {
        let mut bytes = [0; FOOTER_BYTES];
        bytes[..16].copy_from_slice(&self.store_uuid);
        bytes[16..20].copy_from_slice(&self.number.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.summary_offset.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.summary_bytes.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.file_bytes.to_le_bytes());
        bytes[64..68].copy_from_slice(&CHECKPOINT_FORMAT_VERSION.to_le_bytes());
        bytes[MAGIC_AT..].copy_from_slice(&MAGIC);
        let checksum = footer_checksum(&bytes);
        bytes[CHECKSUM_AT..MAGIC_AT].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The footer of this checkpoint of this store, in a file of this length.
    fn decode(
        bytes: &[u8; FOOTER_BYTES],
        path: &Path,
        file_bytes: u64,
        number: u32,
        store_uuid: [u8; 16],
    ) -> Result<Footer> {
        let offset = file_bytes - FOOTER_BYTES as u64;
        let corrupt = |what: &str| Err(Error::corruption(path, offset, format!("checkpoint footer: {what}")));
        if bytes[MAGIC_AT..] != MAGIC {
            return corrupt("this is no index checkpoint");
        }
        let mut at = 64;
        let fields = get_u32(bytes, &mut at).zip(get_u32(bytes, &mut at));
        let Some((version, _)) = fields.filter(|&(_, checksum)| checksum == footer_checksum(bytes)) else {
            return corrupt("its checksum does not match");
        };
        if version != CHECKPOINT_FORMAT_VERSION {
            let what = format!("an index checkpoint of format version {version}");
            return Err(Error::Unsupported { what, file: Some(path.to_path_buf()) });
        }
        let decoded = (|| {
            let mut at = 0;
            let store_uuid = get_array(bytes, &mut at)?;
            let number = get_u32(bytes, &mut at)?;
            at += 4;
            let [summary_offset, summary_bytes, file_bytes] =
                [get_u64(bytes, &mut at)?, get_u64(bytes, &mut at)?, get_u64(bytes, &mut at)?];
            Some(Footer { store_uuid, number, summary_offset, summary_bytes, file_bytes })
        })();
        let Some(footer) = decoded else { return corrupt("it is cut off") };
        if (footer.store_uuid, footer.number) != (store_uuid, number) {
            return corrupt("this is another checkpoint, or another store's");
        }
        let end = footer.summary_offset.checked_add(footer.summary_bytes);
        if footer.file_bytes != file_bytes || end != Some(offset) || footer.summary_bytes < TRAILER_BYTES as u64 {
            return corrupt("the file is not as long as it was, or its parts are not where they were");
        }
        Ok(footer)
    }
}
