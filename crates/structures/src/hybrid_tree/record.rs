//! Records: a key and what the tree says of it. Written once and never changed.

use slmdb_env::Result;
use slmdb_pmem::{ExtentKind, Medium, Pool};
use slmdb_sync::epoch::Guard;

use super::damage::damaged;
use super::layout::{MAXIMUM_KEY_BYTES, MAXIMUM_SEQUENCE, RECORD_HEADER_BYTES};
use crate::EntryKind;

/// What the tree says of a key: the newest entry it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// The entry's sequence number, at most [`MAXIMUM_SEQUENCE`].
    pub sequence: u64,
    /// A put or a delete.
    pub kind: EntryKind,
    /// The file that has the entry.
    pub file: u32,
    /// Where in that file, in bytes.
    pub offset: u32,
    /// How long it is there, in bytes.
    pub length_bytes: u32,
}

/// A key with its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'k> {
    /// The key.
    pub key: &'k [u8],
    /// What is so from here on.
    pub version: Version,
}

impl Entry<'_> {
    /// What its record takes, without what its slot rounds up.
    pub(super) fn record_bytes(&self) -> u32 {
        RECORD_HEADER_BYTES as u32 + self.key.len() as u32
    }

    /// What is wrong with it, if anything.
    pub(super) fn fault(&self) -> Option<&'static str> {
        if self.key.len() > MAXIMUM_KEY_BYTES {
            Some("a key of more than 65,535 bytes")
        } else if self.version.sequence > MAXIMUM_SEQUENCE {
            Some("a sequence number of more than 56 bits")
        } else {
            None
        }
    }

    /// The record for it at a place, in `buffer`.
    pub(super) fn encode(&self, place: u64, buffer: &mut Vec<u8>) {
        buffer.clear();
        let Version { sequence, kind, file, offset, length_bytes } = self.version;
        buffer.extend_from_slice(&(sequence << 8 | kind as u64).to_le_bytes());
        for number in [file, offset, length_bytes] {
            buffer.extend_from_slice(&number.to_le_bytes());
        }
        buffer.extend_from_slice(&(self.key.len() as u16).to_le_bytes());
        let check = check(place, buffer, self.key);
        buffer.extend_from_slice(&check.to_le_bytes());
        buffer.extend_from_slice(self.key);
    }
}

/// Over the place, the 22 bytes before the check, and the key.
#[inline]
fn check(place: u64, front: &[u8], key: &[u8]) -> u16 {
    const HEAD_BYTES: usize = 30;
    // All of an ordinary record is summed at once, and from where that is quickest.
    #[repr(align(8))]
    struct Buffer([u8; 64]);
    let mut buffer = Buffer([0; 64]);
    buffer.0[..8].copy_from_slice(&place.to_le_bytes());
    buffer.0[8..HEAD_BYTES].copy_from_slice(front);
    let crc = match buffer.0.get_mut(HEAD_BYTES..HEAD_BYTES + key.len()) {
        Some(room) => {
            room.copy_from_slice(key);
            slmdb_checksum::crc32c(&buffer.0[..HEAD_BYTES + key.len()])
        }
        None => slmdb_checksum::crc32c_append(slmdb_checksum::crc32c(&buffer.0[..HEAD_BYTES]), key),
    };
    (crc ^ crc >> 16) as u16
}

/// A record where it lies, valid as long as the guard.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record<'g> {
    pub version: Version,
    pub key: &'g [u8],
    front: &'g [u8],
    check: u16,
    offset: u64,
}

impl<'g> Record<'g> {
    /// The record at an offset, which may come from anywhere. [`slmdb_env::Error::Corruption`] if none can be there. Its check is
    /// left to [`Record::is_intact`].
    #[inline]
    pub fn at<M: Medium>(pool: &'g Pool<M>, offset: u64, _guard: &'g Guard) -> Result<Record<'g>> {
        let extent = match pool.extent_at(offset) {
            Some(extent) if extent.kind == ExtentKind::Records && offset.is_multiple_of(8) => extent,
            _ => return Err(damaged(pool, offset, "a leaf points to a place where no record is")),
        };
        let room_bytes = extent.end() - offset;
        if room_bytes < RECORD_HEADER_BYTES {
            return Err(damaged(pool, offset, "a record runs over the end of its extent"));
        }
        // SAFETY: within an extent of records. A record is written before a leaf leads to it, is never changed, and its
        // slot is not used again while a guard from that time is held.
        let head = unsafe { pool.bytes(offset, RECORD_HEADER_BYTES)? };
        let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let first = u64::from(number(4)) << 32 | u64::from(number(0));
        let lengths = number(20);
        let key_bytes = u64::from(lengths & 0xffff);
        if key_bytes > room_bytes - RECORD_HEADER_BYTES {
            return Err(damaged(pool, offset, "the key of a record runs over the end of its extent"));
        }
        let kind = match first & 0xff {
            1 => EntryKind::Put,
            2 => EntryKind::Delete,
            _ => return Err(damaged(pool, offset, "a record is of no known kind")),
        };
        // SAFETY: as above.
        let key = unsafe { pool.bytes(offset + RECORD_HEADER_BYTES, key_bytes)? };
        let version =
            Version { sequence: first >> 8, kind, file: number(8), offset: number(12), length_bytes: number(16) };
        Ok(Record { version, key, front: &head[..22], check: (lengths >> 16) as u16, offset })
    }

    /// Whether its check is right.
    #[inline]
    pub fn is_intact(&self) -> bool {
        check(self.offset, self.front, self.key) == self.check
    }

    /// As [`Record::at`], with its check.
    #[inline]
    pub fn intact_at<M: Medium>(pool: &'g Pool<M>, offset: u64, guard: &'g Guard) -> Result<Record<'g>> {
        let record = Record::at(pool, offset, guard)?;
        if record.is_intact() {
            return Ok(record);
        }
        Err(damaged(pool, offset, "a record's check does not match"))
    }

    /// What it takes, without what its slot rounds up.
    pub fn bytes(&self) -> u32 {
        RECORD_HEADER_BYTES as u32 + self.key.len() as u32
    }
}
