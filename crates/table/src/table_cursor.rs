//! [`TableCursor`]: walking through a file that is searched by key, both ways, from anywhere.

use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;

use slmdb_env::{Error, Result};
use slmdb_order::KeyOrder;

use crate::cursor::BlockCursor;
use crate::entry::{EntryKind, Place, order_of_entries};
use crate::find::{CHUNK_IS_NOT_TOPS, TableParts};
use crate::index_chunk::IndexChunk;
use crate::reader::TableReader;
use crate::slice::Slice;

/// A position in a table file: on an entry, or nowhere (not [`valid`](TableCursor::valid)): before the first move, after a
/// move past either end, and after an error. All versions of a key are entries, newest first.
///
/// It keeps one chunk and one block in memory, and no file open: chunks and blocks are the business of its [`TableParts`].
#[derive(Debug)]
pub struct TableCursor<P> {
    path: Arc<Path>,
    order: KeyOrder,
    parts: P,
    top: IndexChunk,
    /// The chunk's row in the top, and the chunk.
    chunk: Option<(usize, IndexChunk)>,
    /// The block's row in the chunk.
    row: usize,
    block: Option<BlockCursor>,
    valid: bool,
    /// Where the cursor stood before it went to another block.
    left: (Vec<u8>, u64),
}

impl<P: TableParts> TableCursor<P> {
    /// Nowhere in a file, which must be [searched by key](TableReader::is_searched_by_key), else [`Error::Unsupported`]. Reads
    /// nothing.
    pub fn new(table: &TableReader, parts: P) -> Result<TableCursor<P>> {
        Ok(TableCursor {
            path: table.source.path.clone(),
            order: table.source.order.clone(),
            parts,
            top: table.top()?.clone(),
            chunk: None,
            row: 0,
            block: None,
            valid: false,
            left: (Vec::new(), 0),
        })
    }

    /// Whether the cursor is on an entry.
    pub fn valid(&self) -> bool {
        self.valid
    }

    /// The current entry's key. Like the others, meaningless unless [`valid`](TableCursor::valid).
    pub fn key(&self) -> &[u8] {
        self.block.as_ref().map_or(&[], BlockCursor::key)
    }

    /// The current entry's sequence number.
    pub fn sequence(&self) -> u64 {
        self.block.as_ref().map_or(0, BlockCursor::sequence)
    }

    /// What the current entry does.
    pub fn kind(&self) -> EntryKind {
        self.block.as_ref().map_or(EntryKind::Put, BlockCursor::kind)
    }

    /// The current entry's value, without pinning the block.
    pub fn value(&self) -> &[u8] {
        self.block.as_ref().map_or(&[], BlockCursor::value)
    }

    /// The current entry's value, as a slice that keeps the block in memory.
    pub fn value_slice(&self) -> Slice {
        self.block.as_ref().map_or_else(Slice::new, BlockCursor::value_slice)
    }

    /// Moves to the first entry.
    pub fn seek_first(&mut self) -> Result<()> {
        self.valid = false;
        self.enter(0, |_| 0, false)?;
        self.move_in_block(BlockCursor::seek_first)
    }

    /// Moves to the last entry.
    pub fn seek_last(&mut self) -> Result<()> {
        self.valid = false;
        self.enter(self.top.rows() - 1, |chunk| chunk.rows() - 1, false)?;
        self.move_in_block(BlockCursor::seek_last)
    }

    /// Moves to the first entry whose key is at least `key`, the newest of that key; nowhere if there is none.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        if !self.enter_block_of(key)? {
            return Ok(());
        }
        self.move_in_block(|block| block.seek(key))?;
        if self.valid || !self.enter_next()? {
            return Ok(());
        }
        // The key would stand between two blocks.
        self.move_in_block(BlockCursor::seek_first)?;
        self.check_side(key, Ordering::Less)
    }

    /// Moves to the last entry whose key is less than `key`, the oldest of that key; nowhere if there is none.
    pub fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        if !self.enter_block_of(key)? {
            self.seek_last()?;
            return self.check_side(key, Ordering::Greater);
        }
        self.move_in_block(|block| block.seek_before(key))?;
        if self.valid || !self.enter_previous()? {
            return Ok(());
        }
        self.move_in_block(BlockCursor::seek_last)?;
        self.check_side(key, Ordering::Greater)
    }

    /// Moves to the next entry; nowhere after the last. Stays nowhere if it is.
    // As with a block's cursor.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<()> {
        self.step(BlockCursor::next, TableCursor::enter_next, BlockCursor::seek_first, Ordering::Less)
    }

    /// Moves to the entry before; nowhere before the first. Stays nowhere if it is.
    pub fn prev(&mut self) -> Result<()> {
        self.step(BlockCursor::prev, TableCursor::enter_previous, BlockCursor::seek_last, Ordering::Greater)
    }

    /// A step in the block, or by `enter` to another one's `end`, whose entry must be behind this one, or before it: `left` tells how this
    /// one compares to it.
    fn step(
        &mut self,
        within: fn(&mut BlockCursor) -> Result<()>,
        enter: fn(&mut TableCursor<P>) -> Result<bool>,
        end: fn(&mut BlockCursor) -> Result<()>,
        left: Ordering,
    ) -> Result<()> {
        let Some(block) = self.block.as_mut().filter(|_| self.valid) else { return Ok(()) };
        let is_last = if left == Ordering::Less { block.is_at_last() } else { block.is_at_first() };
        if !is_last {
            return self.move_in_block(within);
        }
        self.valid = false;
        self.left.0.clear();
        self.left.0.extend_from_slice(block.key());
        self.left.1 = block.sequence();
        if !enter(self)? {
            return Ok(());
        }
        self.move_in_block(end)?;
        let here = (self.key(), self.sequence());
        if order_of_entries(&self.order, (&self.left.0, self.left.1), here) != left {
            return Err(self.do_not_ascend());
        }
        Ok(())
    }

    /// Moves in the block; the cursor is where the block's is then.
    fn move_in_block(&mut self, to: impl FnOnce(&mut BlockCursor) -> Result<()>) -> Result<()> {
        self.valid = false;
        if let Some(block) = &mut self.block {
            to(block)?;
            self.valid = block.valid();
        }
        Ok(())
    }

    /// Refuses an entry that is on the wrong side of a key that was looked for. `side` is how the key must compare to the entry's, unless it is
    /// equal and not to be excluded.
    fn check_side(&mut self, key: &[u8], side: Ordering) -> Result<()> {
        let found = self.order.compare(key, self.key());
        if self.valid && found != side {
            return Err(self.do_not_ascend());
        }
        Ok(())
    }

    #[cold]
    fn do_not_ascend(&mut self) -> Error {
        self.valid = false;
        let offset = self.chunk.as_ref().map_or(0, |(_, chunk)| chunk.row(self.row).place.offset);
        Error::corruption(&self.path, offset.into(), "block: its keys do not go on where those of its neighbour end")
    }

    /// Goes to the one block that can have `key`; false: all entries are before it.
    fn enter_block_of(&mut self, key: &[u8]) -> Result<bool> {
        self.valid = false;
        let number = self.top.row_of(&self.order, key, u64::MAX);
        if number == self.top.rows() {
            return Ok(false);
        }
        let order = self.order.clone();
        self.enter(number, |chunk| chunk.row_of(&order, key, u64::MAX), false)?;
        Ok(true)
    }

    /// Goes to the next block; false: there is none.
    fn enter_next(&mut self) -> Result<bool> {
        let Some((number, chunk)) = &self.chunk else { return Ok(false) };
        let (number, next) = (*number, self.row + 1);
        if next < chunk.rows() {
            self.enter(number, |_| next, true)?;
        } else if number + 1 < self.top.rows() {
            self.enter(number + 1, |_| 0, true)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Goes to the block before; false: there is none.
    fn enter_previous(&mut self) -> Result<bool> {
        let Some((number, _)) = self.chunk else { return Ok(false) };
        if let Some(before) = self.row.checked_sub(1) {
            self.enter(number, |_| before, false)?;
        } else if let Some(before) = number.checked_sub(1) {
            self.enter(before, |chunk| chunk.rows() - 1, false)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Goes to a block of a chunk. `is_walking`: the next one will be wanted soon, too.
    fn enter(&mut self, number: usize, row_in: impl FnOnce(&IndexChunk) -> usize, is_walking: bool) -> Result<()> {
        let opened = match &self.chunk {
            Some((open, _)) if *open == number => None,
            _ => Some((number, self.parts.chunk(self.top.place(number))?)),
        };
        let Some((_, chunk)) = opened.as_ref().or(self.chunk.as_ref()) else { return Ok(()) };
        let row = row_in(chunk);
        if row >= chunk.rows() {
            return Err(self.corrupt_chunk(self.top.place(number)));
        }
        let place = chunk.place(row);
        let next = (is_walking && row + 1 < chunk.rows()).then(|| chunk.place(row + 1));
        if opened.is_some() {
            self.chunk = opened;
        }
        self.row = row;
        let block = match next {
            Some(next) => self.parts.block_before(place, next)?,
            None => self.parts.block(place)?,
        };
        match &mut self.block {
            Some(cursor) => cursor.enter(block),
            None => self.block = Some(block.cursor()),
        }
        Ok(())
    }

    #[cold]
    fn corrupt_chunk(&self, place: Place) -> Error {
        Error::corruption(&self.path, place.offset.into(), format!("index chunk: {CHUNK_IS_NOT_TOPS}"))
    }
}
