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

use crate::entry::BlockEntry;
use crate::layout::{Layout, RawEntry, View};
use crate::part::Content;
use crate::slice::Slice;

/// What is wrong with bytes that no [`Layout`] can be found in.
pub(crate) const NO_BLOCK: &str = "block: its end is not that of a block";

/// A data block, or an entry by itself as a block of one, checked and uncompressed. Cheap to clone; values found in it share its bytes.
#[derive(Debug, Clone)]
pub struct Block {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    bytes: Arc<[u8]>,
    was_compressed: bool,
    layout: Layout,
    /// Where the block was read, for errors.
    path: Arc<Path>,
    offset: u32,
    order: KeyOrder,
}

impl Block {
    /// Takes the content of a part that was read at `offset` of the file at `path`, whose keys are in this order.
    pub(crate) fn new(content: Content, path: Arc<Path>, offset: u32, order: KeyOrder) -> Result<Block> {
        match Layout::parse(content.as_slice()) {
            Some(layout) => {
                let Content { bytes, was_compressed, .. } = content;
                Ok(Block { inner: Arc::new(Inner { bytes, was_compressed, layout, path, offset, order }) })
            }
            None => Err(Error::corruption(path, offset.into(), NO_BLOCK)),
        }
    }

    /// Takes an entry by itself, as it is stored and was checked, as a block of one.
    pub(crate) fn single(bytes: Arc<[u8]>, value_end: usize, path: Arc<Path>, offset: u32, order: KeyOrder) -> Block {
        let layout = Layout::single(value_end);
        Block { inner: Arc::new(Inner { bytes, was_compressed: false, layout, path, offset, order }) }
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

    /// The newest entry of `key` whose sequence number is not above `at_most`, if the block has one. Errors as [`Block::get`] has
    /// them.
    pub fn get_at_most(&self, key: &[u8], at_most: u64) -> Result<Option<BlockEntry>> {
        self.find(key, |entry| entry.sequence <= at_most)
    }

    fn find(&self, key: &[u8], is_wanted: impl Fn(&RawEntry) -> bool) -> Result<Option<BlockEntry>> {
        let found = self.view().find(key, is_wanted).map_err(|what| self.corrupt(what))?;
        Ok(found.map(|RawEntry { sequence, kind, value, .. }| BlockEntry { sequence, kind, value: self.value(value) }))
    }

    /// Its bytes, to be looked into.
    #[inline(always)]
    pub(crate) fn view(&self) -> View<'_> {
        self.inner.layout.of(&self.inner.bytes)
    }

    /// How many entries the block has; at least one.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.inner.layout.entries
    }

    /// Whether it is an entry that stands by itself in its file.
    pub fn is_single(&self) -> bool {
        self.inner.layout.is_single()
    }

    /// Whether it had to be unpacked.
    pub fn was_compressed(&self) -> bool {
        self.inner.was_compressed
    }

    /// What the block takes in memory, in bytes: what a cache has to count for it.
    pub fn memory_bytes(&self) -> usize {
        // Two counts lie before what an `Arc` points to.
        const COUNTS_BYTES: usize = 2 * size_of::<usize>();
        self.inner.bytes.len() + COUNTS_BYTES + size_of::<Inner>() + COUNTS_BYTES
    }

    /// The entry in a slot, which must be one of the block's.
    #[inline]
    pub(crate) fn raw_entry(&self, slot: usize) -> Result<RawEntry> {
        self.view().entry(slot).map_err(|what| self.corrupt(what))
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
        self.view().head(slot, shared).map_err(|what| self.corrupt(what))
    }

    /// Whether the tag in a slot is that of this key, as [`get`](Block::get) takes for granted.
    pub(crate) fn has_tag_of(&self, slot: usize, key: &[u8]) -> bool {
        self.view().has_tag_of(slot, key)
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
