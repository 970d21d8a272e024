//! The key section: every entry's key, sequence number, kind and place, in the order of the blocks, without the values. It
//! is what the index is built from: after a flush or a compaction from memory, after the loss of the fast tier from the files.
//!
//! It consists of chunks of about 64 KiB, each a part of its own with its own checksum, so that a damaged one costs its
//! own keys only. A chunk's content:
//!
//! ```text
//! 0   u64     ordinal of its first entry in the table
//! 8   u32     how many entries
//! 12  u32     offset in the file of its first entry's block
//! 16  u64     sequence number that the first difference starts from
//! 24  runs    one for each block or entry by itself, in order:
//!             varint  its length as stored; the next one starts where it ends
//!             varint  how many entries, at least one, then for each:
//!                     varint  bytes of the key × 2, + 1 for a delete
//!                     varint  zigzag difference of its sequence number to the one before
//!                     bytes   the key
//! ```
//!
//! Keys stand here whole and not prefix-compressed. So an iterator can lend them out as they lie (decoding allocates and
//! copies nothing), and it can be cloned. As it is stored, a chunk has its keys [`shortened`], unless compression makes it
//! smaller than that.

pub(crate) mod shortened;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use slmdb_env::{Error, Result};
use slmdb_order::KeyOrder;

use crate::codec::{get_length, get_range, get_u32, get_u64, get_varint, put_varint, unzigzag, varint_bytes, zigzag};
use crate::entry::{EntryKind, KeyEntry, Place, order_of_entries};
use crate::key_chunk_sizes::{CHUNK_BYTES, CHUNK_HEADER_BYTES, ENTRY_HEAD_BYTES_AT_MOST, RUN_HEAD_BYTES_AT_MOST};
use crate::part::{Content, TRAILER_BYTES};
use crate::properties::Properties;
use crate::single;

/// What is wrong with a chunk that has no header.
pub(crate) const SHORTER_THAN_HEADER: &str = "shorter than its header";

/// One chunk, checked and uncompressed.
#[derive(Debug, Clone)]
pub(crate) struct Chunk {
    pub(crate) content: Content,
    /// Where it is in the file, for errors.
    pub(crate) offset: u64,
}

impl Chunk {
    /// An error about this chunk of the file at `path`.
    pub(crate) fn corrupt(&self, path: &Path, what: &str) -> Error {
        corrupt_chunk(path, self.offset, what)
    }
}

/// The key section of one table file, in memory. Cheap to clone.
#[derive(Debug, Clone)]
pub struct KeySection {
    path: Arc<Path>,
    chunks: Arc<[Chunk]>,
    entries: u64,
    /// Where the blocks end.
    data_bytes: u64,
    order: KeyOrder,
}

impl KeySection {
    pub(crate) fn new(
        path: Arc<Path>,
        chunks: Vec<Chunk>,
        entries: u64,
        data_bytes: u64,
        order: KeyOrder,
    ) -> KeySection {
        KeySection { path, chunks: chunks.into(), entries, data_bytes, order }
    }

    /// How many entries it has.
    pub fn len(&self) -> u64 {
        self.entries
    }

    /// Whether it has none; a table file's never is.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// What it takes in memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.content.bytes.len() + size_of::<Chunk>()).sum()
    }

    /// The entries in key order, versions of one key newest first. That they are in order, that places follow one another
    /// and that there are as many entries as [`len`](KeySection::len) is checked on the way; after an error there are no
    /// more.
    pub fn entries(&self) -> KeyEntries<'_> {
        KeyEntries {
            section: self,
            next_chunk: 0,
            chunk: None,
            ordinal: 0,
            block_end: 0,
            previous: None,
            finished: false,
        }
    }

    /// The newest entry of each key, as [`entries`](KeySection::entries) has them: what the index is to know.
    pub fn newest_entries(&self) -> impl Iterator<Item = Result<KeyEntry<'_>>> {
        let mut last = None;
        self.entries().filter(move |entry| match entry {
            Ok(entry) => last.replace(entry.key) != Some(entry.key),
            Err(_) => true,
        })
    }

    /// The entries that are not the newest of their keys, as [`entries`](KeySection::entries) has them.
    pub fn older_entries(&self) -> impl Iterator<Item = Result<KeyEntry<'_>>> {
        let mut last = None;
        self.entries().filter(move |entry| match entry {
            Ok(entry) => last.replace(entry.key) == Some(entry.key),
            Err(_) => true,
        })
    }
}

/// See [`KeySection::entries`].
#[derive(Debug, Clone)]
pub struct KeyEntries<'a> {
    section: &'a KeySection,
    next_chunk: usize,
    chunk: Option<ChunkEntries<'a>>,
    /// How many entries were given.
    ordinal: u64,
    /// Where the last chunk's blocks ended.
    block_end: u64,
    previous: Option<(&'a [u8], u64)>,
    finished: bool,
}

impl<'a> KeyEntries<'a> {
    /// Goes to the next chunk; `None` behind the last.
    fn open_chunk(&mut self) -> Result<Option<ChunkEntries<'a>>> {
        let section = self.section;
        let Some(chunk) = section.chunks.get(self.next_chunk) else {
            let whole = self.ordinal == section.entries && self.block_end == section.data_bytes;
            let what = "key section: does not cover all entries and blocks";
            return if whole { Ok(None) } else { Err(Error::corruption(&section.path, section.data_bytes, what)) };
        };
        self.next_chunk += 1;
        let entries = ChunkEntries::new(chunk, &section.path)?;
        let position = &entries.position;
        if position.first_ordinal != self.ordinal || u64::from(position.place.offset) != self.block_end {
            return Err(entries.corrupt("does not go on where the one before ended"));
        }
        Ok(Some(entries))
    }

    fn advance(&mut self) -> Result<Option<KeyEntry<'a>>> {
        loop {
            let Some(chunk) = &mut self.chunk else {
                match self.open_chunk()? {
                    Some(chunk) => self.chunk = Some(chunk),
                    None => return Ok(None),
                }
                continue;
            };
            let Some(entry) = chunk.advance()? else {
                self.block_end = chunk.position.place.end();
                self.chunk = None;
                continue;
            };
            let here = (entry.key, entry.sequence);
            if self.previous.is_some_and(|previous| order_of_entries(&self.section.order, previous, here).is_ge()) {
                return Err(chunk.corrupt("its keys do not ascend"));
            }
            self.previous = Some(here);
            self.ordinal += 1;
            return Ok(Some(entry));
        }
    }
}

impl<'a> Iterator for KeyEntries<'a> {
    type Item = Result<KeyEntry<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Result<KeyEntry<'a>>> {
        if self.finished {
            return None;
        }
        let next = self.advance().transpose();
        self.finished = !matches!(next, Some(Ok(_)));
        next
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = if self.finished { 0 } else { self.section.entries.saturating_sub(self.ordinal) };
        (0, usize::try_from(left).ok().and_then(|left| left.checked_add(1)))
    }
}

/// A place in a chunk's content, before an entry or at the end.
#[derive(Debug, Clone)]
pub(crate) struct ChunkPosition {
    at: usize,
    pub(crate) first_ordinal: u64,
    entries: u32,
    entries_left: u32,
    run_left: u64,
    /// The block of the last entry taken; before the first, where that entry's block begins.
    pub(crate) place: Place,
    /// The sequence number of the last entry taken.
    pub(crate) sequence: u64,
}

impl ChunkPosition {
    /// Before the first entry; `None` if the chunk is shorter than its header.
    pub(crate) fn new(bytes: &[u8]) -> Option<ChunkPosition> {
        let mut at = 0;
        let first_ordinal = get_u64(bytes, &mut at)?;
        let entries = get_u32(bytes, &mut at)?;
        let place = Place { offset: get_u32(bytes, &mut at)?, length: 0 };
        let sequence = get_u64(bytes, &mut at)?;
        Some(ChunkPosition { at, first_ordinal, entries, entries_left: entries, run_left: 0, place, sequence })
    }

    /// How many entries the chunk has.
    pub(crate) fn entries(&self) -> u32 {
        self.entries
    }

    /// How many entries are behind it.
    pub(crate) fn entries_left(&self) -> u32 {
        self.entries_left
    }

    /// Takes the next entry: where its key is, and what it does. `None` at the end, if all is as it should be there; an error
    /// says what is not.
    #[inline]
    pub(crate) fn advance(&mut self, bytes: &[u8]) -> Result<Option<(Range<usize>, EntryKind)>, &'static str> {
        if self.run_left == 0 {
            if self.entries_left == 0 {
                return if self.at == bytes.len() { Ok(None) } else { Err("has bytes left over") };
            }
            self.begin_run(bytes).ok_or("a run is cut off")?;
        }
        self.take(bytes).map(Some).ok_or("an entry is cut off")
    }

    /// Decodes a run's head; `None` if it is not one.
    fn begin_run(&mut self, bytes: &[u8]) -> Option<()> {
        let length = u32::try_from(get_varint(bytes, &mut self.at)?).ok()?;
        self.run_left = get_varint(bytes, &mut self.at)?;
        self.place = Place { offset: u32::try_from(self.place.end()).ok()?, length };
        (length as usize >= single::SHORTEST_BYTES && self.run_left > 0 && self.run_left <= self.entries_left.into())
            .then_some(())
    }

    /// Decodes an entry; `None` if it is not one.
    #[inline(always)]
    fn take(&mut self, bytes: &[u8]) -> Option<(Range<usize>, EntryKind)> {
        let head = get_length(bytes, &mut self.at)?;
        let difference = get_varint(bytes, &mut self.at)?;
        let key = get_range(bytes, &mut self.at, head >> 1)?;
        self.sequence = unzigzag(self.sequence, difference);
        self.run_left -= 1;
        self.entries_left -= 1;
        Some((key, EntryKind::of_bit(head as u64)))
    }
}

/// The entries of one chunk.
#[derive(Debug, Clone)]
pub(crate) struct ChunkEntries<'a> {
    path: &'a Path,
    offset: u64,
    bytes: &'a [u8],
    pub(crate) position: ChunkPosition,
}

impl<'a> ChunkEntries<'a> {
    pub(crate) fn new(chunk: &'a Chunk, path: &'a Path) -> Result<ChunkEntries<'a>> {
        let bytes = chunk.content.as_slice();
        let position = ChunkPosition::new(bytes).ok_or_else(|| chunk.corrupt(path, SHORTER_THAN_HEADER))?;
        Ok(ChunkEntries { path, offset: chunk.offset, bytes, position })
    }

    /// The next entry; `None` at the end, if all is as it should be there.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<Option<KeyEntry<'a>>> {
        match self.position.advance(self.bytes) {
            Ok(Some((key, kind))) => {
                let ChunkPosition { sequence, place, .. } = self.position;
                Ok(Some(KeyEntry { key: &self.bytes[key], sequence, kind, place }))
            }
            Ok(None) => Ok(None),
            Err(what) => Err(self.corrupt(what)),
        }
    }

    #[cold]
    pub(crate) fn corrupt(&self, what: &str) -> Error {
        corrupt_chunk(self.path, self.offset, what)
    }
}

#[cold]
fn corrupt_chunk(path: &Path, offset: u64, what: &str) -> Error {
    Error::corruption(path, offset, format!("key chunk: {what}"))
}

/// Builds the chunks of a table file while its blocks are written.
#[derive(Debug, Default)]
pub(crate) struct KeySectionBuilder {
    /// The contents of finished chunks.
    chunks: Vec<Vec<u8>>,
    /// The chunk being built, header included; empty before its first run.
    chunk: Vec<u8>,
    chunk_entries: u32,
    /// The entries of the block being written.
    run: Vec<u8>,
    run_entries: u32,
    /// The last sequence number before the run, and the last one.
    sequence_before_run: u64,
    sequence: u64,
    /// Entries in finished runs.
    entries: u64,
    /// Total length of finished chunks.
    chunk_bytes: u64,
}

impl KeySectionBuilder {
    /// How long the run would become with this key; an upper bound.
    pub(crate) fn run_bytes_with(&self, key: &[u8]) -> usize {
        self.run.len() + entry_bytes_at_most(key.len())
    }

    /// How long the section would be if it ended now with the run there is, trailers included; an upper bound.
    pub(crate) fn length_bytes(&self) -> u64 {
        const HEADS: usize = 2 * (CHUNK_HEADER_BYTES + RUN_HEAD_BYTES_AT_MOST + TRAILER_BYTES);
        self.chunk_bytes + (self.chunk.len() + self.run.len() + HEADS) as u64
    }

    /// How many chunks there would be if the section ended now; an upper bound.
    pub(crate) fn chunks(&self) -> usize {
        self.chunks.len() + 2
    }

    /// Adds an entry of the block being written.
    pub(crate) fn add(&mut self, key: &[u8], sequence: u64, kind: EntryKind) {
        put_varint(&mut self.run, (key.len() as u64) << 1 | kind.bit());
        put_varint(&mut self.run, zigzag(self.sequence, sequence));
        self.run.extend_from_slice(key);
        self.sequence = sequence;
        self.run_entries += 1;
    }

    /// Forgets the entries of the block being written.
    pub(crate) fn clear_run(&mut self) {
        self.run.clear();
        (self.run_entries, self.sequence) = (0, self.sequence_before_run);
    }

    /// Ends the run: its block was written at `place`.
    pub(crate) fn end_run(&mut self, place: Place) {
        let head_bytes = varint_bytes(place.length.into()) + varint_bytes(self.run_entries.into());
        if !self.chunk.is_empty() && self.chunk.len() + head_bytes + self.run.len() > CHUNK_BYTES {
            self.end_chunk();
        }
        if self.chunk.is_empty() {
            self.chunk.extend_from_slice(&self.entries.to_le_bytes());
            self.chunk.extend_from_slice(&0u32.to_le_bytes());
            self.chunk.extend_from_slice(&place.offset.to_le_bytes());
            self.chunk.extend_from_slice(&self.sequence_before_run.to_le_bytes());
        }
        put_varint(&mut self.chunk, place.length.into());
        put_varint(&mut self.chunk, self.run_entries.into());
        self.chunk.append(&mut self.run);
        self.chunk_entries += self.run_entries;
        self.entries += u64::from(self.run_entries);
        self.run_entries = 0;
        self.sequence_before_run = self.sequence;
    }

    /// The contents of all chunks.
    pub(crate) fn finish(mut self) -> Vec<Vec<u8>> {
        self.end_chunk();
        self.chunks
    }

    fn end_chunk(&mut self) {
        let mut chunk = std::mem::replace(&mut self.chunk, Vec::with_capacity(CHUNK_BYTES));
        chunk[8..12].copy_from_slice(&self.chunk_entries.to_le_bytes());
        self.chunk_entries = 0;
        self.chunk_bytes += (chunk.len() + TRAILER_BYTES) as u64;
        self.chunks.push(chunk);
    }
}

/// How long all chunks of a table with these properties are together before compression, at most: what a reader may
/// believe, and so what it takes in memory.
pub(crate) fn content_bytes_at_most(properties: &Properties, chunks: usize) -> u64 {
    let entries =
        properties.entries.saturating_mul(ENTRY_HEAD_BYTES_AT_MOST as u64).saturating_add(properties.key_bytes);
    let runs = properties.blocks.saturating_mul(RUN_HEAD_BYTES_AT_MOST as u64);
    entries.saturating_add(runs).saturating_add((chunks * CHUNK_HEADER_BYTES) as u64)
}

/// The most that an entry with a key of this length takes in a run.
pub(crate) fn entry_bytes_at_most(key_bytes: usize) -> usize {
    key_bytes + ENTRY_HEAD_BYTES_AT_MOST
}

#[cfg(test)]
mod tests;
