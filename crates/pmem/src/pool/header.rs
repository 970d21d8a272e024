//! The header: what a pool says of itself. Read before anything is mapped, because nothing else says how much to map.
//!
//! `layout` has the byte table. The constant fields carry one checksum; state and length are words that check themselves;
//! the boot id is checked by its meaning: zero in a pool closed clean, this boot's in one that is or was open.

use std::path::Path;

use slmdb_env::{Error, Result};

use crate::layout::{
    BOOT_ID_OFFSET, CONSTANTS_BYTES, CONSTANTS_CRC_OFFSET, FORMAT_VERSION, Geometry, LENGTH_OFFSET, MAGIC,
    MAGIC_OFFSET, POOL_UNITS_MAX, REGION_UNITS_OFFSET, ROOT_BYTES, ROOT_BYTES_OFFSET, ROOT_OFFSET, ROOT_OFFSET_OFFSET,
    STATE_OFFSET, State, UNIT_BYTES, UNIT_BYTES_OFFSET, UUID_OFFSET, VERSION_OFFSET, checked_value, parse_state,
};

/// Bytes at the front of a pool that hold all fields of the header.
pub(super) const HEADER_FRONT_BYTES: usize = 128;

/// The header's fields.
pub(super) struct Header {
    pub uuid: [u8; 16],
    pub geometry: Geometry,
    pub length_units: u64,
    pub state: State,
    /// The number of the opening before.
    pub open_count: u32,
    pub boot_id: [u8; 16],
}

impl Header {
    /// The constant fields as they are stored.
    pub fn constants(&self) -> [u8; CONSTANTS_BYTES] {
        let mut bytes = [0; CONSTANTS_BYTES];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(MAGIC_OFFSET as usize, &MAGIC.to_le_bytes());
        put(VERSION_OFFSET, &FORMAT_VERSION.to_le_bytes());
        put(UNIT_BYTES_OFFSET, &(UNIT_BYTES as u32).to_le_bytes());
        put(UUID_OFFSET, &self.uuid);
        put(REGION_UNITS_OFFSET, &(self.geometry.region as u32).to_le_bytes());
        put(ROOT_OFFSET_OFFSET, &(ROOT_OFFSET as u32).to_le_bytes());
        put(ROOT_BYTES_OFFSET, &(ROOT_BYTES as u32).to_le_bytes());
        let crc = slmdb_checksum::crc32c(&bytes[..CONSTANTS_CRC_OFFSET]);
        bytes[CONSTANTS_CRC_OFFSET..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Checks the front of a header against itself and against the file's length.
    pub fn parse(front: &[u8], file_bytes: u64, path: &Path) -> Result<Header> {
        let corruption = |offset: u64, what: String| Err(Error::corruption(path, offset, what));
        if front.len() < 8 || front[..8] == [0; 8] {
            return corruption(0, "the creation of this pool was never finished".into());
        }
        if front[..8] != MAGIC.to_le_bytes() {
            return corruption(0, "this is no slmdb pool; `slmdb repair` makes one from the table files".into());
        }
        if front.len() < HEADER_FRONT_BYTES {
            return corruption(front.len() as u64, "the pool ends within its header".into());
        }
        let u32_at = |at: usize| u32::from_le_bytes([front[at], front[at + 1], front[at + 2], front[at + 3]]);
        let word_at = |at: u64| words(&front[at as usize..at as usize + 8]).next().unwrap_or(0);
        if slmdb_checksum::crc32c(&front[..CONSTANTS_CRC_OFFSET]) != u32_at(CONSTANTS_CRC_OFFSET) {
            return corruption(0, "the pool's header does not match its checksum".into());
        }
        let version = u32_at(VERSION_OFFSET);
        if version != FORMAT_VERSION {
            let what = format!("a pool of format version {version}; this build knows version {FORMAT_VERSION}");
            return Err(Error::Unsupported { what, file: Some(path.to_path_buf()) });
        }
        let geometry = match Geometry::from_header(u32_at(REGION_UNITS_OFFSET)) {
            Some(geometry)
                if u64::from(u32_at(UNIT_BYTES_OFFSET)) == UNIT_BYTES
                    && u64::from(u32_at(ROOT_OFFSET_OFFSET)) == ROOT_OFFSET
                    && u64::from(u32_at(ROOT_BYTES_OFFSET)) == ROOT_BYTES =>
            {
                geometry
            }
            _ => return corruption(0, "the pool's header has sizes that no pool has".into()),
        };
        let Some((state, open_count)) = parse_state(word_at(STATE_OFFSET)) else {
            return corruption(STATE_OFFSET, "the pool's state word does not match its own check".into());
        };
        let length_units = match checked_value(LENGTH_OFFSET, word_at(LENGTH_OFFSET)) {
            Some(units) if (geometry.smallest()..=POOL_UNITS_MAX).contains(&units) => units,
            _ => return corruption(LENGTH_OFFSET, "the pool's length word does not match its own check".into()),
        };
        if length_units * UNIT_BYTES > file_bytes {
            let what = format!("the pool is cut off here, of {} bytes", length_units * UNIT_BYTES);
            return corruption(file_bytes, what);
        }
        let mut uuid = [0; 16];
        uuid.copy_from_slice(&front[UUID_OFFSET..UUID_OFFSET + 16]);
        let mut boot_id = [0; 16];
        boot_id.copy_from_slice(&front[BOOT_ID_OFFSET as usize..BOOT_ID_OFFSET as usize + 16]);
        Ok(Header { uuid, geometry, length_units, state, open_count, boot_id })
    }
}

/// Little-endian words of bytes whose number is a multiple of eight.
pub(super) fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks_exact(8).map(|chunk| chunk.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)))
}

/// Whether what begins with this unit, or less, is an unfinished creation, or nothing, or the pool with this uuid.
pub(super) fn is_replaceable(unit: &[u8], uuid: Option<[u8; 16]>, path: &Path) -> bool {
    let (front, rest) = unit.split_at(unit.len().min(HEADER_FRONT_BYTES));
    let unfinished = front.iter().take(8).all(|&byte| byte == 0) && rest.iter().all(|&byte| byte == 0);
    unfinished || uuid.is_some() && Header::parse(front, u64::MAX, path).ok().map(|header| header.uuid) == uuid
}
