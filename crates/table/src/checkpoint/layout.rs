//! What an index checkpoint is made of: how long its parts are, what it tells of, and its footer.

use std::path::Path;

use slmdb_env::{Error, Result};

use crate::codec::{get_array, get_u32, get_u64};
use crate::entry::Place;
use crate::part::TRAILER_BYTES;

/// The version of the format that this crate writes, and the only one it reads.
pub const CHECKPOINT_FORMAT_VERSION: u32 = 1;

/// A chunk is ended rather than made longer than this, unless one entry alone is.
pub(super) const CHUNK_BYTES: usize = 64 << 10;
pub(super) const CHUNK_HEADER_BYTES: usize = 20;
/// The most that an entry takes on top of its key.
pub(super) const ENTRY_HEAD_BYTES_AT_MOST: usize = 3 + 3 + 5 + 10 + 5 + 5;
/// No chunk is longer than this.
pub(super) const CHUNK_BYTES_AT_MOST: usize = 2 * CHUNK_BYTES;
const _: () =
    assert!(CHUNK_HEADER_BYTES + crate::options::MAXIMUM_KEY_BYTES + ENTRY_HEAD_BYTES_AT_MOST <= CHUNK_BYTES_AT_MOST);

pub(super) const SUMMARY_HEADER_BYTES: usize = 36;
pub(super) const FILE_BYTES: usize = 20;
/// What the summary's checksum covers as its number.
pub(super) const SUMMARY_NUMBER: u32 = u32::MAX;

pub(super) const FOOTER_BYTES: usize = 80;
pub(super) const CHECKSUM_AT: usize = 68;
pub(super) const MAGIC_AT: usize = 72;
pub(super) const MAGIC: [u8; 8] = *b"slmdbCKP";

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
    /// Place of its table file in [`CheckpointReader::files`](super::CheckpointReader::files).
    pub file_index: usize,
    /// Its sequence number.
    pub sequence: u64,
    /// Its block.
    pub place: Place,
}

/// What the footer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Footer {
    pub store_uuid: [u8; 16],
    pub number: u32,
    pub summary_offset: u64,
    pub summary_bytes: u64,
    pub file_bytes: u64,
}

fn footer_checksum(bytes: &[u8; FOOTER_BYTES]) -> u32 {
    slmdb_checksum::crc32c_append(slmdb_checksum::crc32c(&bytes[..CHECKSUM_AT]), &bytes[MAGIC_AT..])
}

impl Footer {
    pub fn encode(&self) -> [u8; FOOTER_BYTES] {
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
    pub fn decode(
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
