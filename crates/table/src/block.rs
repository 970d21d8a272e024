//! [`Block`]: the content of one data block, in memory.
//!
//! Entries in key order, versions of one key newest first, then what finds them:
//!
//! ```text
//! entry    varint  bytes of the key shared with the restart key (0 at a restart)
//!          varint  other bytes of the key × 2, + 1 for a delete
//!          varint  sequence number
//!          bytes   the key's other bytes
//!          bytes   the value, up to the next entry
//! …
//! offsets  u16 …   where each entry starts; u32 if one starts behind 65535
//! tags     u8 …    of each entry the highest 8 bits of its key's CRC-32C
//! interval u16     every so many entries is a restart
//! count    u32     how many entries; highest bit set: offsets are u32
//! ```
//!
//! At a restart a key is stored whole; the keys up to the next restart leave out what they have in common with *that*
//! key and not, as in other stores, with the key before. This costs a byte here and there and makes each entry readable
//! by itself. A `get`, which knows from the index that its key is here, need not walk: the tags, a few dozen bytes in
//! a row, name the one entry that can be it (seldom two), and nothing else of the block is touched. In a block that is
//! not in the processor's cache this is what counts, since each step of a walk would wait for memory. Cursors search by
//! halves, and step back as easily as on.
//!
//! What the checksum has let through is still not trusted: every offset and length is checked against its bounds before
//! it is used. An entry that is none is an error of whoever meets it.

use std::cmp::Ordering;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use slmdb_env::{Error, Result};
use slmdb_order::KeyOrder;

use crate::codec::{get_length, get_range, get_u16, get_u32, get_varint};
use crate::cursor::{BlockCursor, BlockEntries};
use crate::entry::{BlockEntry, EntryKind};
use crate::part::Content;
use crate::slice::Slice;

/// Length of the interval and the count at the end.
pub(crate) const TAIL_BYTES: usize = size_of::<u16>() + size_of::<u32>();
/// The bit of the count that says that offsets are four bytes wide.
pub(crate) const WIDE: u32 = 1 << 31;
/// The highest offset that needs no such.
pub(crate) const NARROW_BYTES_AT_MOST: usize = u16::MAX as usize;

/// A data block, checked and uncompressed. Cheap to clone; values found in it share its bytes.
#[derive(Debug, Clone)]
pub struct Block {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    bytes: Arc<[u8]>,
    entries: usize,
    /// 2 or 4.
    offset_bytes: usize,
    restart_interval: usize,
    /// Where the entries end and the offsets start.
    offsets_at: usize,
    tags_at: usize,
    /// Where the block was read, for errors.
    path: Arc<Path>,
    offset: u32,
    order: KeyOrder,
}

/// An entry as it lies in its block; the ranges are of the block's bytes.
#[derive(Debug, Clone)]
pub(crate) struct RawEntry {
    pub(crate) shared: usize,
    pub(crate) kind: EntryKind,
    pub(crate) sequence: u64,
    pub(crate) suffix: Range<usize>,
    pub(crate) value: Range<usize>,
}

/// What the entries' tags are made of their keys with. Any even spread would do; this one the processor has built in.
#[inline]
pub(crate) fn tag_of(key: &[u8]) -> u8 {
    (crc32c::crc32c(key) >> 24) as u8
}

impl Inner {
    /// Takes the tail apart; `None` if there is none that fits.
    fn parse(content: Content, path: Arc<Path>, offset: u32, order: KeyOrder) -> Option<Inner> {
        let bytes = content.as_slice();
        let tags_end = bytes.len().checked_sub(TAIL_BYTES)?;
        let mut at = tags_end;
        let restart_interval = usize::from(get_u16(bytes, &mut at)?);
        let count = get_u32(bytes, &mut at)?;
        let entries = (count & !WIDE) as usize;
        let offset_bytes = if count & WIDE == 0 { 2 } else { 4 };
        let tags_at = tags_end.checked_sub(entries)?;
        let offsets_at = tags_at.checked_sub(entries.checked_mul(offset_bytes)?)?;
        if restart_interval == 0 || entries == 0 {
            return None;
        }
        let bytes = content.bytes;
        let inner = Inner { bytes, entries, offset_bytes, restart_interval, offsets_at, tags_at, path, offset, order };
        (inner.start(0) == Some(0)).then_some(inner)
    }

    /// Where an entry starts; that of the one behind the last is where the entries end.
    #[inline(always)]
    fn start(&self, slot: usize) -> Option<usize> {
        if slot == self.entries {
            return Some(self.offsets_at);
        }
        let mut at = self.offsets_at + slot * self.offset_bytes;
        match self.offset_bytes {
            2 => get_u16(&self.bytes, &mut at).map(usize::from),
            _ => get_u32(&self.bytes, &mut at).map(|offset| offset as usize),
        }
    }

    /// Decodes an entry; `None` if it is none.
    #[inline(always)]
    fn entry(&self, slot: usize) -> Option<RawEntry> {
        let (mut at, end) = (self.start(slot)?, self.start(slot + 1)?);
        if end > self.offsets_at {
            return None;
        }
        let bytes = &self.bytes[..end];
        let shared = get_length(bytes, &mut at)?;
        let unshared = get_length(bytes, &mut at)?;
        let sequence = get_varint(bytes, &mut at)?;
        let suffix = get_range(bytes, &mut at, unshared >> 1)?;
        let kind = EntryKind::of_bit(unshared as u64);
        let is_whole = (kind == EntryKind::Put || at == end) && (shared == 0 || !self.is_restart(slot));
        is_whole.then_some(RawEntry { shared, kind, sequence, suffix, value: at..end })
    }

    #[inline(always)]
    fn is_restart(&self, slot: usize) -> bool {
        slot % self.restart_interval == 0
    }

    /// The slots whose tag this is, and now and then one whose is not.
    #[inline]
    fn tagged(&self, tag: u8) -> Tagged<'_> {
        let wanted = u64::from_le_bytes([tag; 8]);
        Tagged { tags: &self.bytes[self.tags_at..self.tags_at + self.entries], base: 0, found: 0, wanted }
    }
}

/// Eight tags at a time.
struct Tagged<'a> {
    /// Those not looked at yet.
    tags: &'a [u8],
    /// The slot of the first of them.
    base: usize,
    /// A bit for each slot found among the eight before `base`, in the byte's highest place.
    found: u64,
    wanted: u64,
}

impl Iterator for Tagged<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        const LOWEST: u64 = u64::from_le_bytes([0x01; 8]);
        const HIGHEST: u64 = u64::from_le_bytes([0x80; 8]);
        while self.found == 0 {
            let mut word = [!(self.wanted as u8); 8];
            let some = self.tags.len().min(8);
            if some == 0 {
                return None;
            }
            let (now, later) = self.tags.split_at(some);
            word[..some].copy_from_slice(now);
            // A byte that becomes zero is found; a borrow may let the byte above it be found, too, if it becomes one.
            let differing = u64::from_le_bytes(word) ^ self.wanted;
            self.found = differing.wrapping_sub(LOWEST) & !differing & HIGHEST;
            self.tags = later;
            self.base += some;
            if some < 8 {
                // So that slots count back from `base` as with a whole word.
                self.base += 8 - some;
            }
        }
        let byte = self.found.trailing_zeros() as usize / 8;
        self.found &= self.found - 1;
        Some(self.base - 8 + byte)
    }
}

impl Block {
    /// Takes the content of a part that was read at `offset` of the file at `path`, whose keys are in this order.
    pub(crate) fn new(content: Content, path: Arc<Path>, offset: u32, order: KeyOrder) -> Result<Block> {
        match Inner::parse(content, path.clone(), offset, order) {
            Some(inner) => Ok(Block { inner: Arc::new(inner) }),
            None => Err(Error::corruption(path, offset.into(), "block: its end is not that of a block")),
        }
    }

    /// The newest entry of `key` that the block has, if there is one.
    ///
    /// [`Error::Corruption`] if an entry that had to be looked at is none.
    pub fn get(&self, key: &[u8]) -> Result<Option<BlockEntry>> {
        self.find(key, |_| true)
    }

    /// The entry of `key` with this very sequence number, if the block has it. Errors as [`Block::get`] has them.
    pub fn get_version(&self, key: &[u8], sequence: u64) -> Result<Option<BlockEntry>> {
        self.find(key, |entry| entry.sequence == sequence)
    }

    /// The first entry of `key` that is wanted.
    #[inline]
    fn find(&self, key: &[u8], is_wanted: impl Fn(&BlockEntry) -> bool) -> Result<Option<BlockEntry>> {
        if self.len() == 1 {
            return Ok(self.get_at(0, key)?.filter(is_wanted));
        }
        for slot in self.inner.tagged(tag_of(key)) {
            if slot < self.len() {
                let found = self.get_at(slot, key)?.filter(&is_wanted);
                if found.is_some() {
                    return Ok(found);
                }
            }
        }
        Ok(None)
    }

    /// The entries in key order, versions of one key newest first. The iterator keeps the block in memory.
    pub fn entries(&self) -> BlockEntries {
        BlockEntries::new(self.cursor())
    }

    /// A cursor over the entries, not yet on any of them. It keeps the block in memory.
    pub fn cursor(&self) -> BlockCursor {
        BlockCursor::new(self.clone())
    }

    /// How many entries the block has; at least one.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.inner.entries
    }

    /// What the block takes in memory, in bytes: what a cache has to count for it.
    pub fn memory_bytes(&self) -> usize {
        // Two counts lie before what an `Arc` points to.
        const COUNTS_BYTES: usize = 2 * size_of::<usize>();
        self.inner.bytes.len() + COUNTS_BYTES + size_of::<Inner>() + COUNTS_BYTES
    }

    /// The entry in a slot, if its key is this one.
    #[inline]
    fn get_at(&self, slot: usize, key: &[u8]) -> Result<Option<BlockEntry>> {
        let entry = self.raw_entry(slot)?;
        let Some((head, tail)) = key.split_at_checked(entry.shared) else { return Ok(None) };
        if *tail != self.inner.bytes[entry.suffix] {
            return Ok(None);
        }
        if !head.is_empty() && !self.restart_key(slot)?.starts_with(head) {
            return Ok(None);
        }
        let value = self.value(entry.value);
        Ok(Some(BlockEntry { sequence: entry.sequence, kind: entry.kind, value }))
    }

    /// The entry in a slot, which must be one of the block's.
    #[inline]
    pub(crate) fn raw_entry(&self, slot: usize) -> Result<RawEntry> {
        self.inner.entry(slot).ok_or_else(|| self.corrupt("an entry is cut off"))
    }

    /// The key that the key in a slot is shortened against: the whole key of the restart before, or its own.
    pub(crate) fn restart_key(&self, slot: usize) -> Result<&[u8]> {
        let restart = self.raw_entry(slot - slot % self.inner.restart_interval)?;
        Ok(&self.inner.bytes[restart.suffix])
    }

    /// The order of its keys.
    #[inline]
    pub(crate) fn order(&self) -> &KeyOrder {
        &self.inner.order
    }

    /// How the key in a slot compares to `key` by bytes.
    pub(crate) fn compare_bytes(&self, slot: usize, key: &[u8]) -> Result<Ordering> {
        let entry = self.raw_entry(slot)?;
        let suffix = &self.inner.bytes[entry.suffix];
        let head = self.head(slot, entry.shared)?;
        Ok(match key.split_at_checked(head.len()) {
            Some((key_head, key_tail)) => head.cmp(key_head).then_with(|| suffix.cmp(key_tail)),
            // Then the shorter is smaller if it is the other's head, or equal to it.
            None => head.cmp(key),
        })
    }

    /// What the key in a slot shares with its restart key.
    #[inline]
    pub(crate) fn head(&self, slot: usize, shared: usize) -> Result<&[u8]> {
        if shared == 0 {
            return Ok(&[]);
        }
        self.restart_key(slot)?.get(..shared).ok_or_else(|| self.corrupt("a key shares more than there is"))
    }

    /// Whether the tag in a slot is that of this key, as [`get`](Block::get) takes for granted.
    pub(crate) fn has_tag_of(&self, slot: usize, key: &[u8]) -> bool {
        self.inner.bytes.get(self.inner.tags_at + slot) == Some(&tag_of(key))
    }

    /// The block's bytes, which [`RawEntry`]'s ranges are of.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.inner.bytes
    }

    /// Part of the block's bytes as a value.
    #[inline]
    pub(crate) fn value(&self, range: Range<usize>) -> Slice {
        Slice::of(self.inner.bytes.clone(), range)
    }

    /// An error about this block.
    #[cold]
    pub(crate) fn corrupt(&self, what: &str) -> Error {
        Error::corruption(&self.inner.path, self.inner.offset.into(), format!("block: {what}"))
    }
}

#[cfg(test)]
mod tests;
