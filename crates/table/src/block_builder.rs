//! [`BlockBuilder`]: the content of a data block, being written. The form is described with [`Block`](crate::Block).

use slmdb_order::common_prefix_bytes;

use crate::codec::{put_varint, varint_bytes};
use crate::entry::NewEntry;
use crate::layout::{NARROW_BYTES_AT_MOST, TAIL_BYTES, WIDE, tag_of};
use crate::part::TRAILER_BYTES;

/// What an entry takes on top of key and value, at most: two lengths and the sequence number, then offset and tag.
pub(crate) const ENTRY_HEAD_BYTES_AT_MOST: usize = 2 * 5 + 10 + 4 + 1;

#[derive(Debug)]
pub(crate) struct BlockBuilder {
    restart_interval: u16,
    restart_key: Vec<u8>,
    offsets: Vec<u32>,
    tags: Vec<u8>,
}

impl BlockBuilder {
    pub(crate) fn new(restart_interval: u16) -> BlockBuilder {
        BlockBuilder { restart_interval, restart_key: Vec::new(), offsets: Vec::new(), tags: Vec::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// How many entries were added.
    pub(crate) fn entries(&self) -> usize {
        self.offsets.len()
    }

    /// Whether the next entry's key is stored whole.
    fn restarts_now(&self) -> bool {
        self.offsets.len().is_multiple_of(usize::from(self.restart_interval))
    }

    /// How many bytes of the next entry's key are left out.
    fn shared_bytes(&self, key: &[u8]) -> usize {
        if self.restarts_now() { 0 } else { common_prefix_bytes(&self.restart_key, key) }
    }

    /// What follows `entries` entries when the last of them starts at `last_offset`, trailer included.
    fn tail_bytes(entries: usize, last_offset: usize) -> usize {
        let offset_bytes = if last_offset > NARROW_BYTES_AT_MOST { 4 } else { 2 };
        entries * (offset_bytes + 1) + TAIL_BYTES + TRAILER_BYTES
    }

    /// How many bytes the block would have before compression, trailer included, if it ended now, with `content_bytes`
    /// of entries.
    pub(crate) fn length_bytes(&self, content_bytes: usize) -> usize {
        content_bytes
            + BlockBuilder::tail_bytes(self.offsets.len(), self.offsets.last().map_or(0, |&last| last as usize))
    }

    /// As [`length_bytes`](BlockBuilder::length_bytes), if this entry were added before.
    pub(crate) fn length_bytes_with(&self, content_bytes: usize, entry: &NewEntry<'_>) -> usize {
        let shared = self.shared_bytes(entry.key);
        let unshared = entry.key.len() - shared;
        let head_bytes =
            varint_bytes(shared as u64) + varint_bytes((unshared as u64) << 1) + varint_bytes(entry.sequence);
        let tail_bytes = BlockBuilder::tail_bytes(self.offsets.len() + 1, content_bytes);
        content_bytes + head_bytes + unshared + entry.value.len() + tail_bytes
    }

    /// Appends an entry; `start` is where in `out` the block starts.
    pub(crate) fn add(&mut self, out: &mut Vec<u8>, start: usize, entry: &NewEntry<'_>) {
        let shared = self.shared_bytes(entry.key);
        if self.restarts_now() {
            self.restart_key.clear();
            self.restart_key.extend_from_slice(entry.key);
        }
        self.offsets.push((out.len() - start) as u32);
        self.tags.push(tag_of(entry.key));
        let suffix = &entry.key[shared..];
        out.reserve(suffix.len() + entry.value.len() + ENTRY_HEAD_BYTES_AT_MOST);
        put_varint(out, shared as u64);
        put_varint(out, (suffix.len() as u64) << 1 | entry.kind.bit());
        put_varint(out, entry.sequence);
        out.extend_from_slice(suffix);
        out.extend_from_slice(entry.value);
    }

    /// Appends what ends the block's content, and is ready for the next block.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        let mut count = self.offsets.len() as u32;
        if self.offsets.last().is_some_and(|&last| last as usize > NARROW_BYTES_AT_MOST) {
            count |= WIDE;
            out.extend(self.offsets.iter().flat_map(|offset| offset.to_le_bytes()));
        } else {
            out.extend(self.offsets.iter().flat_map(|&offset| (offset as u16).to_le_bytes()));
        }
        out.extend_from_slice(&self.tags);
        out.extend_from_slice(&self.restart_interval.to_le_bytes());
        out.extend_from_slice(&count.to_le_bytes());
        self.offsets.clear();
        self.tags.clear();
    }
}
