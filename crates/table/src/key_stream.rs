//! [`KeyStream`]: a table file's key section, read a chunk at a time from any key on.
//!
//! [`KeySection`](crate::KeySection) is the whole of it in memory, which is what a flush has anyway. Whoever goes through the
//! keys of many files at once, as a rebuild of the index does, wants no more of each than a chunk; and he may not be able
//! to keep all files open. So a stream has no reader of its own: it is given one for each chunk.

use std::path::Path;
use std::sync::Arc;

use slmdb_env::{Error, Result};
use slmdb_order::KeyOrder;

use crate::entry::{EntryKind, KeyEntry, Place};
use crate::key_section::{Chunk, ChunkEntries};
use crate::reader::TableReader;

/// An entry of the chunk in memory.
#[derive(Debug, Clone, Copy)]
struct Decoded {
    key_start: u32,
    key_bytes: u32,
    sequence: u64,
    kind: EntryKind,
    place: Place,
}

/// A place in a key section, see the module.
#[derive(Debug)]
pub struct KeyStream {
    path: Arc<Path>,
    order: KeyOrder,
    /// Offset and length of each chunk.
    places: Vec<(u64, u64)>,
    next_chunk: usize,
    chunk: Option<Chunk>,
    entries: Vec<Decoded>,
    /// The next one in `entries`.
    next: usize,
    /// How many entries there are up to the end of the chunk, and where its blocks end; once a chunk was read.
    passed: Option<(u64, u64)>,
    /// As many entries, and bytes of blocks, as the table has.
    whole: (u64, u64),
    /// Key and sequence number of the chunk's last entry.
    last: Option<(Vec<u8>, u64)>,
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
            chunk: None,
            entries: Vec::new(),
            next: 0,
            passed: None,
            whole: (properties.entries, properties.data_bytes),
            last: None,
        }
    }

    /// How many chunks the section has.
    pub fn chunks(&self) -> usize {
        self.places.len()
    }

    /// The first key of a chunk, and nothing else; the stream stays where it is.
    pub fn first_key(&self, reader: &TableReader, number: usize) -> Result<Vec<u8>> {
        let (offset, length) = self.places[number];
        let chunk = reader.read_chunk(offset, length)?;
        let first = ChunkEntries::new(&chunk, &self.path)?.advance()?;
        let empty = || Error::corruption(&self.path, offset, "key chunk: has no entries");
        Ok(first.ok_or_else(empty)?.key.to_vec())
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
        (self.next_chunk, self.next, self.passed, self.last) = (before, 0, None, None);
        self.entries.clear();
        Ok(())
    }

    /// The entry that the stream is at: none before the first [`KeyStream::advance`], nor at the end.
    #[inline]
    pub fn entry(&self) -> Option<KeyEntry<'_>> {
        let entry = self.entries.get(self.next.checked_sub(1)?)?;
        let bytes = self.chunk.as_ref()?.content.as_slice();
        let key = &bytes[entry.key_start as usize..][..entry.key_bytes as usize];
        Some(KeyEntry { key, sequence: entry.sequence, kind: entry.kind, place: entry.place })
    }

    /// Goes to the next entry; `false` at the end. `reader` is asked for if a chunk has to be read. That keys ascend, that
    /// versions of one key descend, and that nothing is left out, is checked. After an error it is at its end.
    #[inline]
    pub fn advance(&mut self, reader: impl FnOnce() -> Result<Arc<TableReader>>) -> Result<bool> {
        if self.next >= self.entries.len() && !self.read_chunk(reader)? {
            return Ok(false);
        }
        self.next += 1;
        Ok(true)
    }

    /// Reads the next chunk; `false`: there is none.
    fn read_chunk(&mut self, reader: impl FnOnce() -> Result<Arc<TableReader>>) -> Result<bool> {
        self.next = 0;
        self.entries.clear();
        let Some(&(offset, length)) = self.places.get(self.next_chunk) else {
            if self.passed == Some(self.whole) {
                return Ok(false);
            }
            let what = "key section: does not cover all entries and blocks";
            return Err(Error::corruption(&self.path, self.whole.1, what));
        };
        let chunk = reader()?.read_chunk(offset, length)?;
        let decoded = self.decode(&chunk);
        self.next_chunk = if decoded.is_ok() { self.next_chunk + 1 } else { self.places.len() };
        if let Err(error) = decoded {
            self.entries.clear();
            return Err(error);
        }
        self.chunk = Some(chunk);
        Ok(!self.entries.is_empty())
    }

    fn decode(&mut self, chunk: &Chunk) -> Result<()> {
        let bytes = chunk.content.as_slice();
        let mut from = ChunkEntries::new(chunk, &self.path)?;
        // Behind a seek, where it begins is not known.
        let (ordinal, block_end) = match self.passed {
            Some(passed) => passed,
            None if self.next_chunk == 0 => (0, 0),
            None => (from.first_ordinal, from.first_block_offset().into()),
        };
        if from.first_ordinal != ordinal || u64::from(from.first_block_offset()) != block_end {
            return Err(from.corrupt("does not go on where the one before ended"));
        }
        let mut last = self.last.as_ref().map(|(key, sequence)| (&key[..], *sequence));
        while let Some(KeyEntry { key, sequence, kind, place }) = from.advance()? {
            let follows = last.is_none_or(|(last_key, last_sequence)| {
                let order = self.order.compare(last_key, key);
                order.is_lt() || (order.is_eq() && last_sequence > sequence)
            });
            if !follows {
                return Err(from.corrupt("its keys do not ascend"));
            }
            last = Some((key, sequence));
            let key_start = (key.as_ptr() as usize - bytes.as_ptr() as usize) as u32;
            self.entries.push(Decoded { key_start, key_bytes: key.len() as u32, sequence, kind, place });
        }
        let Some((key, sequence)) = last.filter(|_| !self.entries.is_empty()) else {
            return Err(from.corrupt("has no entries"));
        };
        self.passed = Some((ordinal.saturating_add(self.entries.len() as u64), from.block_end()));
        self.last = Some((key.to_vec(), sequence));
        Ok(())
    }
}
