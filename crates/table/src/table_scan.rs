//! [`TableScan`]: a file that is searched by key, from front to back, for merges.
//!
//! Blocks are taken from a window that is read at once, and index chunks one after the other; neither comes from a cache or goes
//! there.

use std::ops::Range;
use std::sync::Arc;

use slmdb_env::Result;

use crate::cursor::BlockCursor;
use crate::entry::{EntryKind, Place, order_of_entries};
use crate::index_chunk::IndexChunk;
use crate::reader::TableReader;
use crate::sequential::SequentialReader;
use crate::single::{self, SingleEntry};

/// The entries of a table file in order, all versions, newest first. Keeps the file open.
#[derive(Debug)]
pub struct TableScan {
    table: Arc<TableReader>,
    top: IndexChunk,
    blocks: SequentialReader,
    next_chunk: usize,
    chunk: Option<IndexChunk>,
    next_row: usize,
    at: At,
    /// Used again for each block.
    cursor: Option<BlockCursor>,
    /// The last entry of the block before.
    last: Option<(Vec<u8>, u64)>,
}

/// Where a scan is.
#[derive(Debug)]
enum At {
    /// Before the first entry, or behind the last, or behind an error.
    Nowhere,
    /// In a block.
    Block,
    /// On an entry that stands by itself in the window.
    Single(Place, SingleEntry),
}

impl TableReader {
    /// A scan that reads `window_bytes` at a time. The file must be [searched by key](TableReader::is_searched_by_key), else
    /// [`Error::Unsupported`](slmdb_env::Error::Unsupported).
    pub fn scan(self: &Arc<TableReader>, window_bytes: usize) -> Result<TableScan> {
        Ok(TableScan {
            table: self.clone(),
            top: self.top()?.clone(),
            blocks: self.sequential(window_bytes),
            next_chunk: 0,
            chunk: None,
            next_row: 0,
            at: At::Nowhere,
            cursor: None,
            last: None,
        })
    }
}

impl TableScan {
    /// Goes to the next entry, at first to the first; false: there is none. After an error there are no more.
    pub fn advance(&mut self) -> Result<bool> {
        let moved = self.step();
        if !matches!(moved, Ok(true)) {
            self.at = At::Nowhere;
            (self.next_chunk, self.chunk) = (self.top.rows(), None);
        }
        moved
    }

    /// Goes to the first entry whose key is at least `key`, the newest of that key; false: there is none. Forwards or back.
    pub fn seek(&mut self, key: &[u8]) -> Result<bool> {
        let order = self.table.source.order.clone();
        (self.at, self.last, self.chunk) = (At::Nowhere, None, None);
        self.next_chunk = self.top.row_of(&order, key, u64::MAX);
        if self.next_chunk < self.top.rows() {
            self.open_chunk()?;
            self.next_row = self.chunk.as_ref().map_or(0, |chunk| chunk.row_of(&order, key, u64::MAX));
        }
        while self.advance()? {
            if order.compare(self.key(), key).is_ge() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The current entry's key. Like the others, meaningless unless the last step told of an entry.
    pub fn key(&self) -> &[u8] {
        match &self.at {
            At::Nowhere => &[],
            At::Block => self.cursor.as_ref().map_or(&[], BlockCursor::key),
            At::Single(place, entry) => self.stored(*place, &entry.key),
        }
    }

    /// The current entry's sequence number.
    pub fn sequence(&self) -> u64 {
        match &self.at {
            At::Nowhere => 0,
            At::Block => self.cursor.as_ref().map_or(0, BlockCursor::sequence),
            At::Single(_, entry) => entry.sequence,
        }
    }

    /// What the current entry does.
    pub fn kind(&self) -> EntryKind {
        match &self.at {
            At::Nowhere => EntryKind::Put,
            At::Block => self.cursor.as_ref().map_or(EntryKind::Put, BlockCursor::kind),
            At::Single(_, entry) => entry.kind,
        }
    }

    /// The current entry's value, until the next step.
    pub fn value(&self) -> &[u8] {
        match &self.at {
            At::Nowhere => &[],
            At::Block => self.cursor.as_ref().map_or(&[], BlockCursor::value),
            At::Single(place, entry) => self.stored(*place, &entry.value),
        }
    }

    /// What the scan takes in memory, in bytes, the block it is in apart.
    pub fn memory_bytes(&self) -> usize {
        let chunk_bytes = self.chunk.as_ref().map_or(0, IndexChunk::memory_bytes);
        size_of::<TableScan>() + self.blocks.memory_bytes() + chunk_bytes
    }

    fn stored(&self, place: Place, range: &Range<usize>) -> &[u8] {
        self.blocks.piece.get(place).and_then(|stored| stored.get(range.clone())).unwrap_or_default()
    }

    fn step(&mut self) -> Result<bool> {
        if let (At::Block, Some(cursor)) = (&self.at, &mut self.cursor)
            && !cursor.is_at_last()
        {
            cursor.next()?;
            return Ok(cursor.valid());
        }
        self.note_last();
        let Some(place) = self.next_place()? else { return Ok(false) };
        self.enter(place)?;
        if let Some((key, sequence)) = &self.last {
            let (last, here) = ((&key[..], *sequence), (self.key(), self.sequence()));
            if order_of_entries(&self.table.source.order, last, here).is_ge() {
                return Err(self.table.source.corrupt_block(place, "its keys do not go on where those before end"));
            }
        }
        Ok(true)
    }

    /// Keeps the current entry's key, to be compared with the one behind it.
    fn note_last(&mut self) {
        if matches!(self.at, At::Nowhere) {
            return;
        }
        let (mut key, sequence) = (self.last.take().unwrap_or_default().0, self.sequence());
        key.clear();
        key.extend_from_slice(self.key());
        self.last = Some((key, sequence));
    }

    /// The place of the next block; `None`: there is none.
    fn next_place(&mut self) -> Result<Option<Place>> {
        if self.chunk.as_ref().is_none_or(|chunk| self.next_row >= chunk.rows()) {
            if self.next_chunk >= self.top.rows() {
                return Ok(None);
            }
            self.open_chunk()?;
        }
        let place = self.chunk.as_ref().map(|chunk| chunk.row(self.next_row).place);
        self.next_row += 1;
        Ok(place)
    }

    fn open_chunk(&mut self) -> Result<()> {
        let place = self.top.row(self.next_chunk).place;
        self.chunk = Some(self.table.read_index_chunk(place)?);
        self.next_chunk += 1;
        self.next_row = 0;
        Ok(())
    }

    /// Goes to the first entry of a block.
    fn enter(&mut self, place: Place) -> Result<()> {
        let source = &self.table.source;
        let stored = self.blocks.stored(place)?;
        if single::is_single(stored) {
            let entry = single::check(stored, source.identity, &source.path, place.offset)?;
            self.at = At::Single(place, entry);
            return Ok(());
        }
        let block = source.block_of(stored, place)?;
        let cursor = match &mut self.cursor {
            Some(cursor) => {
                cursor.enter(block);
                cursor
            }
            None => self.cursor.insert(block.cursor()),
        };
        cursor.seek_first()?;
        self.at = At::Block;
        Ok(())
    }
}
