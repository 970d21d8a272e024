//! [`KeyStream`]: a table file's key section, read a chunk at a time from any key on.
//!
//! [`KeySection`](crate::KeySection) is the whole of it in memory, which is what a flush has anyway. Whoever goes through the
//! keys of many files at once, as compactions and rebuilds of the index do, wants no more of each than a chunk; and he may
//! not be able to keep all files open. So a stream has no reader of its own: it is given one for each chunk.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use slmdb_env::{Error, Result};
use slmdb_order::KeyOrder;

use crate::entry::{EntryKind, KeyEntry, order_of_entries};
use crate::key_section::{Chunk, ChunkEntries, ChunkPosition, SHORTER_THAN_HEADER};
use crate::reader::TableReader;

/// A place in a key section, see the module.
#[derive(Debug)]
pub struct KeyStream {
    path: Arc<Path>,
    order: KeyOrder,
    /// Offset and length of each chunk.
    places: Vec<(u64, u64)>,
    next_chunk: usize,
    open: Option<OpenChunk>,
    /// How many entries there are up to the end of the chunk, and where its blocks end, which counts once it was read to its
    /// end. Not known behind a seek, before a chunk was read.
    passed: Option<(u64, u64)>,
    /// As many entries, and bytes of blocks, as the table has.
    whole: (u64, u64),
    /// Key and sequence number of the last entry of the chunk before, if one was read to its end.
    last: Option<(Vec<u8>, u64)>,
    read_bytes: u64,
}

/// So many entries of a [`KeyChunk`] are found by one mark.
const ENTRIES_PER_MARK: usize = 32;

/// A chunk of a key section in memory, in which keys are found quickly. Cheap to clone.
#[derive(Debug, Clone)]
pub struct KeyChunk {
    chunk: Chunk,
    number: usize,
    /// Positions before some entries, with the keys of these.
    marks: Arc<[(ChunkPosition, Range<usize>)]>,
}

impl KeyChunk {
    /// What it takes in memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.chunk.content.bytes.len() + self.marks.len() * size_of::<(ChunkPosition, Range<usize>)>()
    }
}

/// The chunk that is in memory.
#[derive(Debug)]
struct OpenChunk {
    chunk: Chunk,
    position: ChunkPosition,
    /// The key of the entry that the stream is at, and what that does.
    at: Option<(Range<usize>, EntryKind)>,
}

impl KeyStream {
    /// Before the first entry of a table. Reads nothing.
    pub fn new(reader: &TableReader) -> KeyStream {
        let properties = reader.properties();
        KeyStream {
            path: reader.source.path.clone(),
            order: reader.source.order.clone(),
            places: reader.chunk_places().collect(),
            next_chunk: 0,
            open: None,
            passed: Some((0, 0)),
            whole: (properties.entries, properties.data_bytes),
            last: None,
            read_bytes: 0,
        }
    }

    /// How many chunks the section has.
    pub fn chunks(&self) -> usize {
        self.places.len()
    }

    /// How long the chunks are that [`KeyStream::advance`] has read, in bytes as stored.
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    /// What it takes in memory, in bytes. (A chunk that came by [`KeyStream::enter`] may be others', too.)
    pub fn memory_bytes(&self) -> usize {
        let of_chunk = self.open.as_ref().map_or(0, |open| open.chunk.content.bytes.len());
        let of_last = self.last.as_ref().map_or(0, |(key, _)| key.capacity());
        of_chunk + of_last + self.places.capacity() * size_of::<(u64, u64)>()
    }

    /// The first key of a chunk, and nothing else; the stream stays where it is.
    pub fn first_key(&self, reader: &TableReader, number: usize) -> Result<Vec<u8>> {
        let (offset, length) = self.places[number];
        let chunk = reader.read_chunk(offset, length)?;
        let first = ChunkEntries::new(&chunk, &self.path)?.advance()?;
        Ok(first.ok_or_else(|| chunk.corrupt(&self.path, NO_ENTRIES))?.key.to_vec())
    }

    /// Goes to where keys from this one on begin, or somewhat before. Reads some chunks.
    pub fn seek(&mut self, reader: &TableReader, from: &[u8]) -> Result<()> {
        // The last chunk that begins before the key; the key's entries may begin at its end.
        let (mut before, mut behind) = (0, self.places.len());
        while before + 1 < behind {
            let middle = before + (behind - before) / 2;
            if self.order.compare(&self.first_key(reader, middle)?, from).is_lt() {
                before = middle;
            } else {
                behind = middle;
            }
        }
        self.seek_chunk(before);
        Ok(())
    }

    /// Goes before the first entry of a chunk. Reads nothing.
    pub fn seek_chunk(&mut self, number: usize) {
        (self.next_chunk, self.open, self.last) = (number, None, None);
        self.passed = (number == 0).then_some((0, 0));
    }

    /// The entry that the stream is at: none before the first [`KeyStream::advance`], nor at the end.
    #[inline]
    pub fn entry(&self) -> Option<KeyEntry<'_>> {
        let OpenChunk { chunk, position, at } = self.open.as_ref()?;
        let (key, kind) = at.as_ref()?;
        let key = chunk.content.as_slice().get(key.clone())?;
        Some(KeyEntry { key, sequence: position.sequence, kind: *kind, place: position.place })
    }

    /// How many entries the table has before the one that the stream is at.
    pub fn ordinal(&self) -> Option<u64> {
        let OpenChunk { position, at, .. } = self.open.as_ref()?;
        let (through, _) = self.passed.filter(|_| at.is_some())?;
        through.checked_sub(u64::from(position.entries_left()) + 1)
    }

    /// Goes to the next entry; `false` at the end. `reader` is asked for if a chunk has to be read. That keys ascend, that
    /// versions of one key descend, and that nothing is left out, is checked. After an error it is at its end.
    #[inline]
    pub fn advance(&mut self, reader: impl FnOnce() -> Result<Arc<TableReader>>) -> Result<bool> {
        let advanced = match self.advance_in_chunk() {
            Ok(false) => self.advance_to_next_chunk(reader),
            advanced => advanced,
        };
        if advanced.is_err() {
            self.end();
        }
        advanced
    }

    /// `false`: no chunk is open, or it ends.
    #[inline]
    fn advance_in_chunk(&mut self) -> Result<bool> {
        let Some(OpenChunk { chunk, position, at }) = &mut self.open else { return Ok(false) };
        let bytes = chunk.content.as_slice();
        let before = position.sequence;
        let (key, kind) = match position.advance(bytes) {
            Ok(Some(next)) => next,
            Ok(None) => return Ok(false),
            Err(what) => return Err(chunk.corrupt(&self.path, what)),
        };
        let previous = match at {
            Some((previous, _)) => Some((&bytes[previous.clone()], before)),
            None => self.last.as_ref().map(|(key, sequence)| (&key[..], *sequence)),
        };
        let here = (&bytes[key.clone()], position.sequence);
        if previous.is_some_and(|previous| order_of_entries(&self.order, previous, here).is_ge()) {
            return Err(chunk.corrupt(&self.path, "its keys do not ascend"));
        }
        *at = Some((key, kind));
        Ok(true)
    }

    /// `false`: there is none.
    fn advance_to_next_chunk(&mut self, reader: impl FnOnce() -> Result<Arc<TableReader>>) -> Result<bool> {
        self.leave_chunk();
        let Some(&(offset, length)) = self.places.get(self.next_chunk) else {
            if self.passed == Some(self.whole) {
                return Ok(false);
            }
            let what = "key section: does not cover all entries and blocks";
            return Err(Error::corruption(&self.path, self.whole.1, what));
        };
        let chunk = reader()?.read_chunk(offset, length)?;
        let position = self.begin(&chunk)?;
        self.read_bytes += length;
        self.open_at(self.next_chunk, chunk, position);
        self.advance_in_chunk()
    }

    /// Where a chunk begins, if that is where the one before ended, as far as this is known.
    fn begin(&self, chunk: &Chunk) -> Result<ChunkPosition> {
        let corrupt = |what| chunk.corrupt(&self.path, what);
        let position = ChunkPosition::new(chunk.content.as_slice()).ok_or_else(|| corrupt(SHORTER_THAN_HEADER))?;
        let begins = (position.first_ordinal, u64::from(position.place.offset));
        if self.passed.is_some_and(|passed| passed != begins) {
            return Err(corrupt("does not go on where the one before ended"));
        }
        if position.entries_left() == 0 {
            return Err(corrupt(NO_ENTRIES));
        }
        Ok(position)
    }

    /// Goes to a position in a chunk.
    fn open_at(&mut self, number: usize, chunk: Chunk, position: ChunkPosition) {
        self.next_chunk = number + 1;
        // What will have been passed at its end, but for its blocks.
        let through = position.first_ordinal.saturating_add(position.entries().into());
        self.passed = Some((through, 0));
        self.open = Some(OpenChunk { chunk, position, at: None });
    }

    /// Reads a chunk, for [`KeyStream::enter`]; the stream stays where it is. All of its entries are decoded once.
    pub fn read_chunk(&self, reader: &TableReader, number: usize) -> Result<KeyChunk> {
        let (offset, length) = self.places[number];
        let chunk = reader.read_chunk(offset, length)?;
        let corrupt = |what| chunk.corrupt(&self.path, what);
        let bytes = chunk.content.as_slice();
        let mut position = ChunkPosition::new(bytes).ok_or_else(|| corrupt(SHORTER_THAN_HEADER))?;
        let (mut marks, mut count) = (Vec::new(), 0_usize);
        loop {
            let before = position.clone();
            let Some((key, _)) = position.advance(bytes).map_err(corrupt)? else { break };
            if count.is_multiple_of(ENTRIES_PER_MARK) {
                marks.push((before, key));
            }
            count += 1;
        }
        if marks.is_empty() {
            return Err(corrupt(NO_ENTRIES));
        }
        Ok(KeyChunk { chunk, number, marks: marks.into() })
    }

    /// Where a chunk lies in the file, in bytes.
    pub fn chunk_offset(&self, number: usize) -> u64 {
        self.places[number].0
    }

    /// Goes before the first entry of a chunk with a key at or after this one, or somewhat further back. REQUIRES: the chunk is this
    /// table's.
    pub fn enter(&mut self, chunk: &KeyChunk, from: &[u8]) {
        let bytes = chunk.chunk.content.as_slice();
        let is_before =
            |(_, key): &(ChunkPosition, Range<usize>)| self.order.compare(&bytes[key.clone()], from).is_lt();
        let mark = chunk.marks.partition_point(is_before).saturating_sub(1);
        self.last = None;
        self.open_at(chunk.number, chunk.chunk.clone(), chunk.marks[mark].0.clone());
    }

    /// Lets a chunk go that was read to its end.
    fn leave_chunk(&mut self) {
        let Some(OpenChunk { chunk, position, at: Some((key, _)) }) = self.open.take() else { return };
        self.passed = self.passed.map(|(entries, _)| (entries, position.place.end()));
        let (last, sequence) = self.last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(&chunk.content.as_slice()[key]);
        *sequence = position.sequence;
    }

    #[cold]
    fn end(&mut self) {
        (self.open, self.next_chunk, self.passed) = (None, self.places.len(), Some(self.whole));
    }
}

const NO_ENTRIES: &str = "has no entries";
