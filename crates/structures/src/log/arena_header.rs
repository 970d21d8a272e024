//! The first 64 bytes of an arena: whose it is, and which of its lives this is.
//!
//! Arenas are recycled, so the bytes behind the header may be any earlier log's. The **generation** keeps the two
//! apart: it is never used twice in a store, every record's CRC starts from it, and the header that names it is durable
//! before the first record.
//!
//! [`ARENA_HEADER_BYTES`] bytes at offset 0, little endian:
//!
//! | offset | bytes | field | meaning |
//! |---|---|---|---|
//! | 0 | 8 | magic | `SLMARENA` |
//! | 8 | 4 | format version | 1 |
//! | 12 | 4 | form | what records have beside their entries: 0 nothing, 1 slots |
//! | 16 | 8 | generation | |
//! | 24 | 16 | store UUID | as in the MANIFEST |
//! | 40 | 8 | capacity | bytes of the arena, this header included |
//! | 48 | 12 | zero | |
//! | 60 | 4 | CRC | CRC-32C of bytes 0..60 |

use std::ops::Range;

/// Bytes of the arena header.
pub const ARENA_HEADER_BYTES: u64 = 64;
/// Length of the longest arena: offsets in it fit 32 bits.
pub const MAXIMUM_ARENA_BYTES: u64 = 1 << 32;
/// The arena format that this build writes and reads.
pub const ARENA_FORMAT_VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"SLMARENA";

const MAGIC_FIELD: Range<usize> = 0..8;
const FORMAT_VERSION: Range<usize> = 8..12;
const FORM: Range<usize> = 12..16;
const GENERATION: Range<usize> = 16..24;
const STORE_UUID: Range<usize> = 24..40;
const CAPACITY: Range<usize> = 40..48;
const CRC: Range<usize> = 60..64;

const _: () = {
    assert!(MAGIC.len() == MAGIC_FIELD.end);
    assert!(MAGIC_FIELD.end == FORMAT_VERSION.start);
    assert!(FORMAT_VERSION.end == FORM.start);
    assert!(FORM.end == GENERATION.start);
    assert!(GENERATION.end == STORE_UUID.start);
    assert!(STORE_UUID.end - STORE_UUID.start == 16);
    assert!(STORE_UUID.end == CAPACITY.start);
    assert!(CAPACITY.end + 12 == CRC.start);
    assert!(CRC.end as u64 == ARENA_HEADER_BYTES);
};

/// How long an arena is whose file begins so, by its header, in bytes; `None`: there is no whole header. The file may be shorter: a clean
/// close cuts it, and so may a power cut while it is made.
pub fn arena_bytes_in_header(front: &[u8]) -> Option<u64> {
    ArenaHeader::decode(front).map(|header| header.capacity_bytes)
}

/// The fields of an arena header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ArenaHeader {
    pub format_version: u32,
    /// The number of a [`RecordForm`](super::RecordForm).
    pub form: u32,
    pub generation: u64,
    pub store_uuid: [u8; 16],
    pub capacity_bytes: u64,
}

impl ArenaHeader {
    pub fn encode(&self) -> [u8; ARENA_HEADER_BYTES as usize] {
        let mut bytes = [0; ARENA_HEADER_BYTES as usize];
        bytes[MAGIC_FIELD].copy_from_slice(&MAGIC);
        bytes[FORMAT_VERSION].copy_from_slice(&self.format_version.to_le_bytes());
        bytes[FORM].copy_from_slice(&self.form.to_le_bytes());
        bytes[GENERATION].copy_from_slice(&self.generation.to_le_bytes());
        bytes[STORE_UUID].copy_from_slice(&self.store_uuid);
        bytes[CAPACITY].copy_from_slice(&self.capacity_bytes.to_le_bytes());
        let crc = slmdb_checksum::crc32c(&bytes[..CRC.start]);
        bytes[CRC].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The header at the front of `arena`; `None` when there is no whole one (of any store, generation or version).
    pub fn decode(arena: &[u8]) -> Option<ArenaHeader> {
        let bytes = arena.get(..ARENA_HEADER_BYTES as usize)?;
        if bytes[MAGIC_FIELD] != MAGIC || slmdb_checksum::crc32c(&bytes[..CRC.start]).to_le_bytes() != bytes[CRC] {
            return None;
        }
        Some(ArenaHeader {
            format_version: u32::from_le_bytes(bytes[FORMAT_VERSION].try_into().ok()?),
            form: u32::from_le_bytes(bytes[FORM].try_into().ok()?),
            generation: u64::from_le_bytes(bytes[GENERATION].try_into().ok()?),
            store_uuid: bytes[STORE_UUID].try_into().ok()?,
            capacity_bytes: u64::from_le_bytes(bytes[CAPACITY].try_into().ok()?),
        })
    }
}
