//! The key record: what a leaf of the tree points to.
//!
//! A leaf's entry is 8 bytes of key and an offset; the rest stands here: the whole key, its sequence number, and which
//! block of which table file has its value (the paper's figure 3 has these three in the leaf itself, which takes keys of
//! one size only). Records are written once, sequentially, with the segment of their table file (see
//! [`segment`](super::segment)), and freed with it. One word changes later: the number of the file whose entry this
//! record replaced in the tree. It is durable before the tree points here (INV-8), under the lock of the leaf, and is what
//! recovery needs to put the live counts of files right (the paper's compaction log, section 3.4: key and old file).
//!
//! ```text
//!  0  u64  sequence number << 8 | upper 6 bits of the block's length << 2 | kind (1 put, 2 delete)
//!  8  u32  offset of the block in the file } one word: the
//! 12  u32  number of the replaced file, 0 none } second half changes
//! 16  u16  length of the key
//! 18  u16  lower 16 bits of the block's length
//! 20  ...  the key, then zeros up to a multiple of 8
//!     u64  the block's length, if the 22 bits for it are all ones: it has 4 MiB or more
//! ```
//!
//! All little endian, each record at a multiple of 8: 40 bytes for a key of 20. Which table file it is follows from the
//! segment: it is the owner of the extent.
//!
//! An offset found in a leaf may be anything in a pool that a crash or a fault has left behind (INV-24), so [`KeyRecord::at`]
//! checks that it lies in a segment and that the record lies in it whole. Whether it is *the* key is for the caller to
//! compare, and whether the block has that key under that sequence number, for the reader of the block.

use std::sync::atomic::Ordering;

use slmdb_env::{Error, Result};
use slmdb_pmem::{Extent, ExtentKind, Medium, Pool};
use slmdb_sync::epoch::Guard;
use slmdb_sync::mapped::AtomicU64;

use crate::EntryKind;

/// The longest key.
pub const MAXIMUM_KEY_BYTES: usize = 65_535;

/// Where the key begins in its record.
pub(super) const KEY_OFFSET: u64 = 20;
/// The shortest record, the one of the empty key.
pub(super) const SMALLEST_RECORD_BYTES: u64 = 24;
/// Bytes of a segment before its first record.
pub(super) const SEGMENT_HEADER_BYTES: u64 = 64;

const WORDS: usize = 3;
/// Bits of the first word that have the upper bits of the block's length.
const LENGTH_SHIFT: u32 = 2;
/// This and more does not fit into 22 bits, and stands behind the key.
const LONG_BLOCK_BYTES: u32 = (1 << 22) - 1;
const _: () = assert!(KEY_OFFSET <= SMALLEST_RECORD_BYTES && WORDS as u64 * 8 == SMALLEST_RECORD_BYTES);
const _: () = assert!(LONG_BLOCK_BYTES >> 16 << LENGTH_SHIFT <= 0xff && EntryKind::Delete as u64 >> LENGTH_SHIFT == 0);

/// One entry of a table file, for [`write_segment`](super::write_segment): what its record is made of.
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

/// What the record of a key of so many bytes takes in its segment at most: 8 bytes less if its block is shorter than 4 MiB.
pub(super) const fn key_record_bytes_max(key_bytes: usize) -> u64 {
    exact_bytes(key_bytes, LONG_BLOCK_BYTES)
}

/// What so many records take at most, with so many bytes of keys together.
pub(super) const fn key_records_bytes_max(records: u64, key_bytes: u64) -> u64 {
    records.saturating_mul(KEY_OFFSET + 7 + 8).saturating_add(key_bytes)
}

/// What the record of an entry takes in its segment.
#[inline]
pub(super) fn key_record_bytes(entry: &SegmentEntry<'_>) -> u64 {
    exact_bytes(entry.key.len(), entry.block_length)
}

#[inline]
const fn exact_bytes(key_bytes: usize, block_length: u32) -> u64 {
    let behind = if block_length >= LONG_BLOCK_BYTES { 8 } else { 0 };
    (KEY_OFFSET + key_bytes as u64).next_multiple_of(8) + behind
}

/// The 22 bits that the first and the third word of a record have for the block's length.
#[inline]
fn length_bits(first: u64, third: u64) -> u32 {
    ((first & 0xff) as u32 >> LENGTH_SHIFT) << 16 | (third >> 16 & 0xffff) as u32
}

/// How long the record is whose first and third words these are, whatever they are.
#[inline]
pub(super) fn bytes_by_words(first: u64, third: u64) -> u64 {
    exact_bytes((third & 0xffff) as usize, length_bits(first, third))
}

/// Appends the record of an entry of a table file, as it is before it replaces anything.
#[inline]
pub(super) fn encode_key_record(entry: &SegmentEntry<'_>, buffer: &mut Vec<u8>) {
    let end = buffer.len() + key_record_bytes(entry) as usize;
    let bits = entry.block_length.min(LONG_BLOCK_BYTES);
    let first = entry.sequence << 8 | u64::from(bits >> 16 << LENGTH_SHIFT) | entry.kind as u64;
    let mut head = [0; KEY_OFFSET as usize];
    head[..8].copy_from_slice(&first.to_le_bytes());
    head[8..16].copy_from_slice(&u64::from(entry.block_offset).to_le_bytes());
    head[16..18].copy_from_slice(&(entry.key.len() as u16).to_le_bytes());
    head[18..].copy_from_slice(&(bits as u16).to_le_bytes());
    buffer.extend_from_slice(&head);
    buffer.extend_from_slice(entry.key);
    if bits == LONG_BLOCK_BYTES {
        buffer.resize(end - 8, 0);
        buffer.extend_from_slice(&u64::from(entry.block_length).to_le_bytes());
    }
    buffer.resize(end, 0);
}

/// A key record, where it lies in the pool. Valid as long as the guard: a segment is freed only when no guard is left
/// that was there while the tree pointed to it.
#[derive(Clone, Copy)]
pub struct KeyRecord<'g> {
    offset: u64,
    file: u32,
    block_length: u32,
    words: &'g [AtomicU64; WORDS],
    key: &'g [u8],
}

impl<'g> KeyRecord<'g> {
    /// The record at an offset, which may come from anywhere. [`Error::Corruption`] if none can be there.
    #[inline]
    pub fn at<M: Medium>(pool: &'g Pool<M>, offset: u64, _guard: &'g Guard) -> Result<KeyRecord<'g>> {
        match pool.extent_at(offset) {
            Some(extent) if extent.kind == ExtentKind::KeySegment => KeyRecord::within(pool, &extent, offset),
            _ => Err(damaged(pool, offset, "a leaf points to a place that is not in a key segment")),
        }
    }

    /// As [`KeyRecord::at`], with the segment's extent at hand.
    #[inline(always)]
    pub(super) fn within<M: Medium>(pool: &'g Pool<M>, extent: &Extent, offset: u64) -> Result<KeyRecord<'g>> {
        let end = extent.end();
        if !offset.is_multiple_of(8)
            || offset < extent.offset + SEGMENT_HEADER_BYTES
            || offset > end - SMALLEST_RECORD_BYTES
        {
            return Err(damaged(pool, offset, "no key record can be here"));
        }
        let pointer = pool.pointer(offset, SMALLEST_RECORD_BYTES)?;
        // SAFETY: three mapped words within the extent, aligned because the mapping and the offset are. The extent is a
        // key segment: written before anything points to it and then changed by atomic stores only, and not freed while
        // a guard from that time is held.
        let words: &'g [AtomicU64; WORDS] = unsafe { &*pointer.cast() };
        let [first, third] = [0, 2].map(|index: usize| u64::from_le(words[index].load(Ordering::Relaxed)));
        let key_bytes = third & 0xffff;
        if key_bytes > end - offset - KEY_OFFSET {
            return Err(damaged(pool, offset, "the key of a record does not fit into its segment"));
        }
        // SAFETY: within the extent, as just checked; the bytes of a key never change once the segment is published.
        let key = unsafe { pool.bytes(offset + KEY_OFFSET, key_bytes)? };
        if !matches!(first & 3, 1 | 2) {
            return Err(damaged(pool, offset, "a key record is of no known kind"));
        }
        let mut block_length = length_bits(first, third);
        if block_length == LONG_BLOCK_BYTES {
            let place = offset + bytes_by_words(first, third) - 8;
            if place > end - 8 {
                return Err(damaged(pool, offset, "a key record does not fit into its segment"));
            }
            block_length = u64::from_le(pool.load(place)?) as u32;
        }
        Ok(KeyRecord { offset, file: extent.owner, block_length, words, key })
    }

    #[inline]
    fn word(&self, index: usize) -> u64 {
        u64::from_le(self.words[index].load(Ordering::Acquire))
    }

    /// Where it is in the pool. This is what [`Decision::Put`](super::Decision::Put) takes.
    #[inline]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The whole key.
    #[inline]
    pub fn key(&self) -> &'g [u8] {
        self.key
    }

    /// The sequence number of the entry.
    #[inline]
    pub fn sequence(&self) -> u64 {
        self.word(0) >> 8
    }

    /// Whether the entry is a put or a delete. The tree points to puts only.
    #[inline]
    pub fn kind(&self) -> EntryKind {
        if self.word(0) & 3 == EntryKind::Delete as u64 { EntryKind::Delete } else { EntryKind::Put }
    }

    /// The number of the table file that has the value.
    #[inline]
    pub fn file(&self) -> u32 {
        self.file
    }

    /// The number of the file whose entry this one replaced in the tree; 0 if it replaced none, or was never put there.
    #[inline]
    pub fn replaced_file(&self) -> u32 {
        (self.word(1) >> 32) as u32
    }

    /// Where in the file the block with the value begins.
    #[inline]
    pub fn block_offset(&self) -> u32 {
        self.word(1) as u32
    }

    /// How long that block is, in bytes.
    #[inline]
    pub fn block_length(&self) -> u32 {
        self.block_length
    }

    /// How many bytes the record takes.
    #[inline]
    pub(super) fn length_bytes(&self) -> u64 {
        bytes_by_words(self.word(0), self.word(2))
    }
}

impl std::fmt::Debug for KeyRecord<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("KeyRecord")
            .field("offset", &self.offset)
            .field("key", &self.key.escape_ascii().to_string())
            .field("sequence", &self.sequence())
            .field("kind", &self.kind())
            .field("file", &self.file())
            .field("replaced_file", &self.replaced_file())
            .field("block_offset", &self.block_offset())
            .field("block_length", &self.block_length())
            .finish()
    }
}

/// Notes in a record the file whose entry it replaces, or is about to. Flushed, not fenced: called from within the
/// `decide` of an update, the tree's fence makes it durable before anything points to the record (INV-8). For the record of a
/// delete, which the tree never points to, the same holds: it is durable before the key is gone from the tree.
///
/// Only one thread may do this to a record at a time, which the leaf's lock sees to.
pub fn set_replaced_file<M: Medium>(pool: &Pool<M>, record_offset: u64, file: u32) -> Result<()> {
    if pool.kind_at(record_offset) != Some(ExtentKind::KeySegment) {
        return Err(damaged(pool, record_offset, "a replaced file is to be noted where no key segment is"));
    }
    let place = record_offset.saturating_add(8);
    let old = u64::from_le(pool.load(place)?);
    let new = u64::from(file) << 32 | old & 0xffff_ffff;
    if new != old {
        pool.store(place, new.to_le())?;
    }
    pool.flush(place, 8);
    Ok(())
}

#[cold]
pub(super) fn damaged<M: Medium>(pool: &Pool<M>, offset: u64, what: &str) -> Error {
    Error::corruption(pool.path(), offset, what)
}
