//! A part of a key segment: its header, writing it, and checking it. The bytes are in [`segment`](super::segment).

use slmdb_env::{Error, Result};
use slmdb_pmem::{Extent, ExtentKind, Medium, Pool};

use super::key_record::{
    SEGMENT_HEADER_BYTES, SMALLEST_RECORD_BYTES, SegmentEntry, bytes_by_words, damaged, encode_key_record,
};
use crate::KeyLengths;
use crate::log::MAXIMUM_KEY_BYTES;

const MAGIC: u64 = u64::from_le_bytes(*b"slmdbKEY");
const HEADER_CRC_OFFSET: usize = 52;

const _: () = assert!(HEADER_CRC_OFFSET + 4 <= SEGMENT_HEADER_BYTES as usize);

/// A part of a segment: one extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Where its extent begins.
    pub offset: u64,
    /// How many records it has.
    pub count: u64,
    /// How many bytes they take.
    pub length_bytes: u64,
}

/// What the header of a part says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub file: u32,
    pub number: u32,
    pub last: bool,
    pub count: u64,
    pub length_bytes: u64,
    pub keys: KeyLengths,
    records_crc: u32,
}

impl Header {
    fn bytes(&self) -> [u8; SEGMENT_HEADER_BYTES as usize] {
        let mut bytes = [0; SEGMENT_HEADER_BYTES as usize];
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.file.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.number.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.count.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.length_bytes.to_le_bytes());
        bytes[32..36].copy_from_slice(&u32::from(self.last).to_le_bytes());
        bytes[36..40].copy_from_slice(&self.keys.longest_bytes.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.keys.long_bytes.to_le_bytes());
        bytes[48..52].copy_from_slice(&self.records_crc.to_le_bytes());
        let crc = slmdb_checksum::crc32c(&bytes[..HEADER_CRC_OFFSET]);
        bytes[HEADER_CRC_OFFSET..HEADER_CRC_OFFSET + 4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The header of the part in an extent. [`Error::Corruption`] if there is none, or if it is that of another extent.
    pub fn read<M: Medium>(pool: &Pool<M>, extent: &Extent) -> Result<Header> {
        if extent.kind != ExtentKind::KeySegment || extent.length_bytes < SEGMENT_HEADER_BYTES {
            return Err(damaged(pool, extent.offset, "a key segment is expected in an extent of another kind"));
        }
        let mut words = [0; SEGMENT_HEADER_BYTES as usize / 8];
        for (offset, word) in (extent.offset..).step_by(8).zip(&mut words) {
            *word = pool.load(offset)?;
        }
        let low = |index: usize| words[index] as u32;
        let high = |index: usize| (words[index] >> 32) as u32;
        let header = Header {
            file: low(1),
            number: high(1),
            last: low(4) == 1,
            count: words[2],
            length_bytes: words[3],
            keys: KeyLengths { longest_bytes: high(4), long_bytes: words[5] },
            records_crc: low(6),
        };
        let is = words.iter().flat_map(|word| word.to_ne_bytes());
        if !is.eq(header.bytes()) {
            return Err(damaged(pool, extent.offset, "the header of a key segment is damaged or was never written"));
        }
        let fits =
            header.length_bytes <= extent.length_bytes - SEGMENT_HEADER_BYTES && header.length_bytes.is_multiple_of(8);
        if header.file != extent.owner || !fits {
            return Err(damaged(pool, extent.offset, "a key segment is not the one of its extent"));
        }
        let KeyLengths { longest_bytes, long_bytes } = header.keys;
        if longest_bytes as usize > MAXIMUM_KEY_BYTES || long_bytes > header.length_bytes {
            return Err(damaged(pool, extent.offset, "a key segment tells of longer keys than it can have"));
        }
        Ok(header)
    }

    /// Verifies the records behind it. Every step is checked.
    pub fn check_records<M: Medium>(&self, pool: &Pool<M>, extent: &Extent) -> Result<()> {
        let mut offset = extent.offset + SEGMENT_HEADER_BYTES;
        let end = offset + self.length_bytes;
        let (mut crc, mut count) = (0, 0);
        while offset < end {
            if end - offset < SMALLEST_RECORD_BYTES {
                return Err(damaged(pool, offset, "a key segment ends within a record"));
            }
            let length = bytes_by_words(u64::from_le(pool.load(offset)?), u64::from_le(pool.load(offset + 16)?));
            if length > end - offset {
                return Err(damaged(pool, offset, "a key segment ends within a record"));
            }
            // SAFETY: the constant parts of records never change once written, and opening a segment sees to it
            // that it is not freed meanwhile; the twelfth to the sixteenth byte, which may change, are left out.
            let (before, after) = unsafe { (pool.bytes(offset, 12)?, pool.bytes(offset + 16, length - 16)?) };
            crc = slmdb_checksum::crc32c_append(crc, before);
            crc = slmdb_checksum::crc32c_append(crc, &[0; 4]);
            crc = slmdb_checksum::crc32c_append(crc, after);
            offset += length;
            count += 1;
        }
        if crc != self.records_crc || count != self.count {
            return Err(damaged(pool, extent.offset, "the checksum of a key segment is wrong"));
        }
        Ok(())
    }
}

/// Writes the records of a part. They are flushed, not fenced.
pub(super) struct PartWriter<'p, M: Medium> {
    pool: &'p Pool<M>,
    extent: Extent,
    /// Where `buffer` goes.
    offset: u64,
    buffer: Vec<u8>,
    /// It is copied when it is as long as this.
    copy_bytes: usize,
    count: u64,
    keys: KeyLengths,
    crc: u32,
}

impl<'p, M: Medium> PartWriter<'p, M> {
    /// For an extent that was just allocated. Records are gathered to about `copy_bytes` before they are copied to the pool.
    pub fn new(pool: &'p Pool<M>, extent: Extent, copy_bytes: usize) -> Self {
        let buffer = Vec::with_capacity(copy_bytes + SMALLEST_RECORD_BYTES as usize);
        let offset = extent.offset + SEGMENT_HEADER_BYTES;
        PartWriter { pool, extent, offset, buffer, copy_bytes, count: 0, keys: KeyLengths::default(), crc: 0 }
    }

    /// How much longer it can become.
    pub fn room_bytes(&self) -> u64 {
        self.extent.end() - self.offset - self.buffer.len() as u64
    }

    /// Adds a record, for which there is room. Gives where it is once it has been copied.
    pub fn add(&mut self, entry: &SegmentEntry<'_>) -> Result<u64> {
        let record = self.offset + self.buffer.len() as u64;
        encode_key_record(entry, &mut self.buffer);
        self.count += 1;
        self.keys.add(entry.key.len());
        if self.buffer.len() >= self.copy_bytes {
            self.copy_out()?;
        }
        Ok(record)
    }

    /// Where its extent begins.
    pub fn extent_offset(&self) -> u64 {
        self.extent.offset
    }

    /// Nothing more is added for now: keeps no memory.
    pub fn rest(&mut self) -> Result<()> {
        self.copy_out()?;
        self.buffer = Vec::new();
        Ok(())
    }

    fn copy_out(&mut self) -> Result<()> {
        let length = self.buffer.len() as u64;
        if length > self.extent.end() - self.offset {
            return Err(Error::invalid("the entries of a segment changed while it was written"));
        }
        self.crc = slmdb_checksum::crc32c_append(self.crc, &self.buffer);
        // SAFETY: within the extent that was just allocated, and nobody else knows of it.
        unsafe { self.pool.write(self.offset, &self.buffer)? };
        self.pool.flush(self.offset, length);
        self.offset += length;
        self.buffer.clear();
        Ok(())
    }

    /// Writes the header.
    pub fn end(mut self, number: u32, last: bool) -> Result<(Part, KeyLengths)> {
        self.copy_out()?;
        let Extent { offset, owner: file, .. } = self.extent;
        let length_bytes = self.offset - offset - SEGMENT_HEADER_BYTES;
        let (count, keys, records_crc) = (self.count, self.keys, self.crc);
        let header = Header { file, number, last, count, length_bytes, keys, records_crc };
        // SAFETY: as above.
        unsafe { self.pool.write(offset, &header.bytes())? };
        self.pool.flush(offset, SEGMENT_HEADER_BYTES);
        Ok((Part { offset, count, length_bytes }, keys))
    }
}
