//! The key segment: all key records of one table file, contiguous in the pool.
//!
//! A segment is one extent of kind `KeySegment` whose owner is the number of the table file. It is written before the
//! tree points into it, in key order like the file, and freed whole when the file is retired and no reader can be left.
//! So the many small records need no allocator, and nothing is lost to fragments (section 7 of the design).
//!
//! ```text
//!  0  u64  magic "slmdbKEY"
//!  8  u32  number of the table file
//! 12  u32  0
//! 16  u64  number of records
//! 24  u64  length of all records in bytes
//! 32  u32  crc32c of the records, with the words for the replaced file taken as 0
//! 36  u32  crc32c of bytes 0..36
//! 40  ...  zeros
//! 64  ...  the records (see [`key_record`](super::key_record)), each at a multiple of 8
//! ```
//!
//! Deletes have records too. The tree does not point to them, but they carry the number of the file whose entry the
//! delete took out of the tree, and recovery walks all records of a segment to find out how far its job has come.
//! [`Segment::open`] verifies every constant byte before that; the header is written after the records, though nothing
//! but the checksums is relied on.

use crossbeam_epoch::Guard;
use slmdb_env::{Error, Result};
use slmdb_pmem::{Extent, ExtentKind, Medium, Pool};

use super::key_record::{
    KEY_LENGTH_OFFSET, KeyRecord, MAXIMUM_KEY_BYTES, SEGMENT_HEADER_BYTES, SMALLEST_RECORD_BYTES, damaged,
    key_record_bytes,
};
use crate::EntryKind;

const MAGIC: u64 = u64::from_le_bytes(*b"slmdbKEY");
const RECORDS_CRC_OFFSET: usize = 32;
const HEADER_CRC_OFFSET: usize = 36;
/// Records are gathered to about this many bytes before they are copied to the pool.
const COPY_BYTES: usize = 64 * 1024;

/// One entry of a table file, for [`write_segment`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentEntry<'k> {
    /// The key, up to [`MAXIMUM_KEY_BYTES`].
    pub key: &'k [u8],
    /// Its sequence number, below 2^56.
    pub sequence: u64,
    /// A put or a delete.
    pub kind: EntryKind,
    /// Where in the file its block begins.
    pub block_offset: u32,
    /// How long its block is, in bytes.
    pub block_length: u32,
}

/// A segment that is whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Where its extent begins. [`Pool::free_extent`] takes this, deferred until no reader can be there.
    pub offset: u64,
    /// The number of the table file.
    pub file: u32,
    /// How many records it has.
    pub count: u64,
    /// How many bytes they take.
    pub length_bytes: u64,
}

/// Writes the segment of a table file: one extent, all records, durable on return. The entries are walked twice, once to
/// find out how much space they take. [`Error::Full`] if the pool has no room; then nothing is left behind.
pub fn write_segment<'k, M: Medium>(
    pool: &Pool<M>,
    file: u32,
    entries: impl Iterator<Item = SegmentEntry<'k>> + Clone,
) -> Result<Segment> {
    let (mut count, mut length_bytes) = (0_u64, 0_u64);
    for entry in entries.clone() {
        if entry.key.len() > MAXIMUM_KEY_BYTES || entry.sequence >> 56 != 0 {
            return Err(Error::invalid("a key or a sequence number is too large for a key record"));
        }
        count += 1;
        length_bytes += key_record_bytes(entry.key.len());
    }
    let extent = pool.allocate_extent(ExtentKind::KeySegment, SEGMENT_HEADER_BYTES + length_bytes, file)?;
    fill(pool, &extent, entries, count, length_bytes).inspect_err(|_| {
        // The first error tells more than one of giving the extent back.
        let _ = pool.free_extent(extent.offset);
    })
}

fn fill<'k, M: Medium>(
    pool: &Pool<M>,
    extent: &Extent,
    entries: impl Iterator<Item = SegmentEntry<'k>>,
    count: u64,
    length_bytes: u64,
) -> Result<Segment> {
    let file = extent.owner;
    let mut offset = extent.offset + SEGMENT_HEADER_BYTES;
    let end = offset + length_bytes;
    let mut crc = 0;
    let mut buffer = Vec::with_capacity(COPY_BYTES + SMALLEST_RECORD_BYTES as usize);
    let mut copy_out = |buffer: &mut Vec<u8>| -> Result<()> {
        if buffer.len() as u64 > end - offset {
            return Err(Error::invalid("the entries of a segment changed while it was written"));
        }
        crc = crc32c::crc32c_append(crc, buffer);
        // SAFETY: within the extent that was just allocated, and nobody else knows of it.
        unsafe { pool.write(offset, buffer)? };
        pool.flush(offset, buffer.len() as u64);
        offset += buffer.len() as u64;
        buffer.clear();
        Ok(())
    };
    for entry in entries {
        let start = buffer.len();
        buffer.extend_from_slice(&(entry.sequence << 8 | entry.kind as u64).to_le_bytes());
        buffer.extend_from_slice(&u64::from(file).to_le_bytes());
        buffer.extend_from_slice(&entry.block_offset.to_le_bytes());
        buffer.extend_from_slice(&entry.block_length.to_le_bytes());
        buffer.extend_from_slice(&(entry.key.len() as u16).to_le_bytes());
        buffer.extend_from_slice(entry.key);
        buffer.resize(start + key_record_bytes(entry.key.len()) as usize, 0);
        if buffer.len() >= COPY_BYTES {
            copy_out(&mut buffer)?;
        }
    }
    copy_out(&mut buffer)?;
    let mut header = [0; SEGMENT_HEADER_BYTES as usize];
    header[..8].copy_from_slice(&MAGIC.to_le_bytes());
    header[8..12].copy_from_slice(&file.to_le_bytes());
    header[16..24].copy_from_slice(&count.to_le_bytes());
    header[24..32].copy_from_slice(&length_bytes.to_le_bytes());
    header[RECORDS_CRC_OFFSET..HEADER_CRC_OFFSET].copy_from_slice(&crc.to_le_bytes());
    let header_crc = crc32c::crc32c(&header[..HEADER_CRC_OFFSET]);
    header[HEADER_CRC_OFFSET..HEADER_CRC_OFFSET + 4].copy_from_slice(&header_crc.to_le_bytes());
    // SAFETY: the head of the extent that was just allocated.
    unsafe { pool.write(extent.offset, &header)? };
    pool.persist(extent.offset, SEGMENT_HEADER_BYTES);
    Ok(Segment { offset: extent.offset, file, count, length_bytes })
}

impl Segment {
    /// Verifies the segment in an extent: header, checksum of all records, and that they are laid out as they should be.
    /// Withstands any bytes. [`Error::Corruption`] also for a segment whose writing a crash cut short.
    pub fn open<M: Medium>(pool: &Pool<M>, extent: &Extent) -> Result<Segment> {
        if extent.kind != ExtentKind::KeySegment {
            return Err(damaged(pool, extent.offset, "a key segment is expected in an extent of another kind"));
        }
        let head = SEGMENT_HEADER_BYTES;
        // SAFETY: headers and the constant parts of records never change once written, and whoever opens a segment
        // sees to it that it is not freed meanwhile.
        let header = unsafe { pool.bytes(extent.offset, head)? };
        let word = |at: usize| header[at..at + 8].iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
        let (file, count, length_bytes) = (word(8) as u32, word(16), word(24));
        let (records_crc, header_crc) = (word(RECORDS_CRC_OFFSET) as u32, (word(RECORDS_CRC_OFFSET) >> 32) as u32);
        if word(0) != MAGIC || header_crc != crc32c::crc32c(&header[..HEADER_CRC_OFFSET]) {
            return Err(damaged(pool, extent.offset, "the header of a key segment is damaged or was never written"));
        }
        if file != extent.owner || length_bytes > extent.length_bytes - head || length_bytes % 8 != 0 {
            return Err(damaged(pool, extent.offset, "a key segment is not the one of its extent"));
        }
        let segment = Segment { offset: extent.offset, file, count, length_bytes };
        let (crc, found) = segment.checksum(pool)?;
        if crc != records_crc || found != count {
            return Err(damaged(pool, extent.offset, "the checksum of a key segment is wrong"));
        }
        Ok(segment)
    }

    /// The checksum over all records as they are, and their number. Every step is checked.
    fn checksum<M: Medium>(&self, pool: &Pool<M>) -> Result<(u32, u64)> {
        let (mut offset, end) =
            (self.offset + SEGMENT_HEADER_BYTES, self.offset + SEGMENT_HEADER_BYTES + self.length_bytes);
        let (mut crc, mut count) = (0, 0);
        while offset < end {
            if end - offset < SMALLEST_RECORD_BYTES {
                return Err(damaged(pool, offset, "a key segment ends within a record"));
            }
            let key_bytes = u64::from_le(pool.load(offset + KEY_LENGTH_OFFSET)?) & 0xffff;
            let length = key_record_bytes(key_bytes as usize);
            if length > end - offset {
                return Err(damaged(pool, offset, "a key segment ends within a record"));
            }
            // SAFETY: as in `open`; the twelfth to the sixteenth byte, which may change, are left out.
            let (before, after) = unsafe { (pool.bytes(offset, 12)?, pool.bytes(offset + 16, length - 16)?) };
            crc = crc32c::crc32c_append(crc, before);
            crc = crc32c::crc32c_append(crc, &[0; 4]);
            crc = crc32c::crc32c_append(crc, after);
            offset += length;
            count += 1;
        }
        Ok((crc, count))
    }

    /// All records in key order. Whatever the bytes are, it ends: after an error, or at the segment's end.
    pub fn records<'g, M: Medium>(&self, pool: &'g Pool<M>, _guard: &'g Guard) -> Records<'g, M> {
        let offset = self.offset + SEGMENT_HEADER_BYTES;
        Records { pool, extent: pool.extent_at(self.offset), offset, end: offset.saturating_add(self.length_bytes) }
    }
}

/// Iterator over the records of a segment, see [`Segment::records`].
#[derive(Debug)]
pub struct Records<'g, M: Medium> {
    pool: &'g Pool<M>,
    extent: Option<Extent>,
    offset: u64,
    end: u64,
}

impl<'g, M: Medium> Iterator for Records<'g, M> {
    type Item = Result<KeyRecord<'g>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.offset >= self.end {
            return None;
        }
        let record = match &self.extent {
            Some(extent) if extent.kind == ExtentKind::KeySegment => KeyRecord::within(self.pool, extent, self.offset),
            _ => Err(damaged(self.pool, self.offset, "there is no key segment here")),
        };
        match &record {
            Ok(record) => self.offset += key_record_bytes(record.key().len()),
            Err(_) => self.offset = self.end,
        }
        Some(record)
    }
}
