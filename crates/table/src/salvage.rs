//! What can be read of a damaged file that is searched by key.
//!
//! Such a file has no list of its keys. Of a block that can't be read the index still tells between which keys its own
//! lie, how many they are, and, by the filter, of nearly every other key that it was not there.

use std::cmp::Ordering;
use std::ops::Bound;

use slmdb_env::{Error, Result};
use slmdb_order::KeyOrder;

use crate::block::Block;
use crate::cursor::BlockCursor;
use crate::index_chunk::{IndexChunk, Row, Separator};
use crate::reader::TableReader;

/// A part of a file that is searched by key.
pub enum SalvagedPart {
    /// A block that is sound.
    Block(Block),
    /// Entries that can't be read.
    Gap(Gap),
}

/// Entries of a file that is searched by key, and that can't be read.
#[derive(Debug)]
pub struct Gap {
    /// How many they are.
    pub entries: u64,
    /// Where their keys begin.
    pub from: Bound<Vec<u8>>,
    /// No key of theirs is larger than this.
    pub through: Vec<u8>,
    /// Set if `through` is a key of theirs that goes on behind them, in older versions: the lowest sequence number that
    /// it has among them.
    pub goes_on_at: Option<u64>,
    /// Its filter knows their keys. `None`: the chunk can't be read either.
    chunk: Option<IndexChunk>,
}

impl Gap {
    /// Whether the file can still tell which keys they may have.
    pub fn knows_keys(&self) -> bool {
        self.chunk.as_ref().is_some_and(|chunk| !chunk.filter().is_empty())
    }

    /// Whether they may have this key. About one key in a hundred is said to be among them and is not.
    pub fn may_have(&self, order: &KeyOrder, key: &[u8]) -> bool {
        let is_within = order.is_from(key, self.from.as_ref().map(Vec::as_slice))
            && order.compare(key, &self.through) != Ordering::Greater;
        is_within && self.chunk.as_ref().is_none_or(|chunk| chunk.may_have(key))
    }
}

impl TableReader {
    /// Hands over the file part by part, in order. What is damaged comes as a [`Gap`]. The file must be
    /// [searched by key](TableReader::is_searched_by_key), else [`Error::Unsupported`].
    pub fn salvage(&self, take: &mut dyn FnMut(SalvagedPart) -> Result<()>) -> Result<()> {
        let (top, mut before) = (self.top()?, None);
        for row in (0..top.rows()).map(|row| top.row(row)) {
            match self.read_index_chunk(row.place) {
                Ok(chunk) => self.salvage_chunk(&chunk, before, take)?,
                Err(Error::Corruption { .. }) => take(SalvagedPart::Gap(self.gap(&row, before, None)))?,
                Err(error) => return Err(error),
            }
            before = Some(row.separator);
        }
        Ok(())
    }

    fn salvage_chunk<'c>(
        &self,
        chunk: &'c IndexChunk,
        mut before: Option<Separator<'c>>,
        take: &mut dyn FnMut(SalvagedPart) -> Result<()>,
    ) -> Result<()> {
        for row in (0..chunk.rows()).map(|row| chunk.row(row)) {
            let part = match self.read_block(row.place) {
                Ok(block) if self.is_sound(&block, &row, before) => SalvagedPart::Block(block),
                Ok(_) | Err(Error::Corruption { .. }) => SalvagedPart::Gap(self.gap(&row, before, Some(chunk))),
                Err(error) => return Err(error),
            };
            take(part)?;
            before = Some(row.separator);
        }
        Ok(())
    }

    /// Whether all entries of a block can be read, are as many as its row says, and lie between its separators.
    fn is_sound(&self, block: &Block, row: &Row<'_>, before: Option<Separator<'_>>) -> bool {
        let (order, mut cursor, mut entries) = (&self.source.order, block.cursor(), 0);
        let mut moved = cursor.seek_first();
        while moved.is_ok() && cursor.valid() {
            let is_behind = before.is_none_or(|before| before.compare(order, cursor.key(), cursor.sequence()).is_lt());
            if !is_behind || row.separator.compare(order, cursor.key(), cursor.sequence()).is_lt() {
                return false;
            }
            entries += 1;
            moved = BlockCursor::next(&mut cursor);
        }
        moved.is_ok() && entries == row.entries
    }

    fn gap(&self, row: &Row<'_>, before: Option<Separator<'_>>, chunk: Option<&IndexChunk>) -> Gap {
        let from = match before {
            None => Bound::Included(self.properties().smallest_key.clone()),
            Some(separator) if separator.goes_on => Bound::Included(separator.key.to_vec()),
            Some(separator) => Bound::Excluded(separator.key.to_vec()),
        };
        Gap {
            entries: row.entries.into(),
            from,
            through: row.separator.key.to_vec(),
            goes_on_at: row.separator.goes_on.then_some(row.separator.sequence),
            chunk: chunk.cloned(),
        }
    }
}
