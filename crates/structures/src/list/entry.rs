//! Entries: a key, what is so from a sequence number on, and the value. Written once into a segment and never changed.
//!
//! An entry has two checksums. That of its front covers everything but the value, so that a merge which moves no value can
//! check what it merges by. That of the value is in the front.

use slmdb_env::{Error, Result};
use slmdb_pmem::{ExtentKind, Medium, Pool};

use super::damaged;
use super::layout::mark;
use crate::EntryKind;
use crate::log::{MAXIMUM_KEY_BYTES, MAXIMUM_VALUE_BYTES};

/// The largest sequence number that an entry has room for.
pub const MAXIMUM_SEQUENCE: u64 = (1 << 56) - 1;

/// Bytes before the key.
pub(super) const FRONT_BYTES: u64 = 22;

/// Where an entry lies, as a list has to know. It comes from [`SegmentWriter::add`](super::SegmentWriter::add), or from
/// [`ListCursor::place`](super::ListCursor::place) of a list that has the entry already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub(super) offset: u64,
    pub(super) segment: u64,
    pub(super) bytes: u32,
    /// The checksum of its front.
    pub(super) check: u32,
}

impl Place {
    /// Where in the pool, in bytes.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Where the extent of its segment begins in the pool, in bytes.
    pub fn segment(&self) -> u64 {
        self.segment
    }

    /// What it takes there, in bytes, rounded up to a multiple of 8.
    pub fn bytes(&self) -> u64 {
        u64::from(self.bytes)
    }
}

/// What an entry takes in a segment, in bytes.
pub const fn entry_bytes(key_bytes: u64, value_bytes: u64) -> u64 {
    (FRONT_BYTES + key_bytes + value_bytes).next_multiple_of(8)
}

const _: () = {
    assert!(MAXIMUM_KEY_BYTES <= u16::MAX as usize);
    assert!(entry_bytes(MAXIMUM_KEY_BYTES as u64, MAXIMUM_VALUE_BYTES as u64) <= u32::MAX as u64);
};

/// An entry that is to be written.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewEntry<'a> {
    pub key: &'a [u8],
    pub sequence: u64,
    pub kind: EntryKind,
    pub value: &'a [u8],
}

impl NewEntry<'_> {
    pub fn bytes(&self) -> u64 {
        entry_bytes(self.key.len() as u64, self.value.len() as u64)
    }

    /// What can't be stored, as an error.
    pub fn check(&self) -> Result<()> {
        let fault = if self.key.len() > MAXIMUM_KEY_BYTES {
            "a key of more than 65,535 bytes"
        } else if self.value.len() > MAXIMUM_VALUE_BYTES {
            "a value of more than 256 MiB"
        } else if self.sequence > MAXIMUM_SEQUENCE {
            "a sequence number of more than 56 bits"
        } else if self.kind == EntryKind::Delete && !self.value.is_empty() {
            "a delete with a value"
        } else {
            return Ok(());
        };
        Err(Error::invalid(fault))
    }

    /// Appends everything before the value, as it is at this offset of the pool. Gives the checksum of it.
    pub fn encode_front(&self, offset: u64, uuid_crc: u32, buffer: &mut Vec<u8>) -> u32 {
        let start = buffer.len();
        buffer.extend_from_slice(&[0; 4]);
        buffer.extend_from_slice(&slmdb_checksum::crc32c(self.value).to_le_bytes());
        buffer.extend_from_slice(&(self.sequence << 8 | self.kind as u64).to_le_bytes());
        buffer.extend_from_slice(&(self.value.len() as u32).to_le_bytes());
        buffer.extend_from_slice(&(self.key.len() as u16).to_le_bytes());
        buffer.extend_from_slice(self.key);
        let check = slmdb_checksum::crc32c(&buffer[start + 4..]) ^ mark(uuid_crc, offset);
        buffer[start..start + 4].copy_from_slice(&check.to_le_bytes());
        check
    }
}

/// What an entry's front says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Front {
    pub place: Place,
    pub sequence: u64,
    pub kind: EntryKind,
    pub key_bytes: u16,
    pub value_bytes: u32,
    value_crc: u32,
}

impl Front {
    /// The value, checked; empty for a delete. REQUIRES: the front was checked.
    pub fn value<'p, M: Medium>(&self, pool: &'p Pool<M>) -> Result<&'p [u8]> {
        let start = self.place.offset + FRONT_BYTES + u64::from(self.key_bytes);
        // SAFETY: within its segment, as `Entry::at` has seen, and never changed.
        let value = unsafe { pool.bytes(start, u64::from(self.value_bytes))? };
        if slmdb_checksum::crc32c(value) != self.value_crc {
            return Err(damaged(pool, start, "the checksum of a value does not match"));
        }
        Ok(value)
    }
}

/// An entry where it lies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry<'p> {
    pub front: Front,
    pub key: &'p [u8],
    /// What the checksum of the front covers.
    checked: &'p [u8],
}

impl<'p> Entry<'p> {
    /// The entry at an offset, which a list has and which may be anything all the same. [`Error::Corruption`] if none can be there.
    /// Nothing is checked yet.
    #[inline]
    pub fn at<M: Medium>(pool: &'p Pool<M>, offset: u64) -> Result<Entry<'p>> {
        let extent = match pool.extent_at(offset) {
            Some(extent) if extent.kind == ExtentKind::Segment && offset.is_multiple_of(8) => extent,
            _ => return Err(damaged(pool, offset, "a list leads to a place where no entry is")),
        };
        let room_bytes = extent.end() - offset;
        if room_bytes < FRONT_BYTES {
            return Err(damaged(pool, offset, "an entry runs over the end of its segment"));
        }
        // SAFETY: within a segment. An entry is written before a list is complete that leads to it, is never changed, and its
        // segment is not freed while the list is there.
        let head = unsafe { pool.bytes(offset, FRONT_BYTES)? };
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let key_bytes = u16::from_le_bytes([head[20], head[21]]);
        let value_bytes = word(16);
        let bytes = entry_bytes(u64::from(key_bytes), u64::from(value_bytes));
        let place_bytes = u32::try_from(bytes).ok().filter(|_| bytes <= room_bytes);
        let Some(place_bytes) = place_bytes else {
            return Err(damaged(pool, offset, "an entry runs over the end of its segment"));
        };
        let kind = match head[8] {
            1 => EntryKind::Put,
            2 => EntryKind::Delete,
            _ => return Err(damaged(pool, offset, "an entry is of no known kind")),
        };
        // SAFETY: as above.
        let front_bytes = unsafe { pool.bytes(offset, FRONT_BYTES + u64::from(key_bytes))? };
        let place = Place { offset, segment: extent.offset, bytes: place_bytes, check: word(0) };
        let sequence = (u64::from(word(12)) << 32 | u64::from(word(8))) >> 8;
        let front = Front { place, sequence, kind, key_bytes, value_bytes, value_crc: word(4) };
        Ok(Entry { front, key: &front_bytes[FRONT_BYTES as usize..], checked: &front_bytes[4..] })
    }

    /// Whether the checksum of its front is right.
    #[inline]
    pub fn is_intact(&self, uuid_crc: u32) -> bool {
        slmdb_checksum::crc32c(self.checked) ^ mark(uuid_crc, self.front.place.offset) == self.front.place.check
    }
}
