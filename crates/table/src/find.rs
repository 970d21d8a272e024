//! Searching a file by key: top, chunk, block.
//!
//! The top is in the reader's memory. It names the chunk; the chunk's filter says whether the key can be there at all, and its rows name the
//! one block that can have the version that is wanted. Chunks and blocks come from the caller, who may have them in a
//! cache ([`TableParts`]).

use std::sync::Arc;

use slmdb_env::{Error, Result};

use crate::block::Block;
use crate::entry::{BlockEntry, Place};
use crate::index_chunk::IndexChunk;
use crate::part::{Stored, zeroed};
use crate::reader::TableReader;

/// Where index chunks and blocks of one table file come from.
pub trait TableParts {
    /// The index chunk at a place; see [`TableReader::read_index_chunk`].
    fn chunk(&self, place: Place) -> Result<IndexChunk>;

    /// The block at a place; see [`TableReader::read_block`].
    fn block(&self, place: Place) -> Result<Block>;

    /// The block at a place, for one who will soon want the next one, too, which is there.
    fn block_before(&self, place: Place, next: Place) -> Result<Block> {
        let _ = next;
        self.block(place)
    }

    /// The newest entry of `key` with a sequence number up to `at_most` in the block at a place.
    fn entry(&self, place: Place, key: &[u8], at_most: u64) -> Result<Option<BlockEntry>> {
        self.block(place)?.get_at_most(key, at_most)
    }
}

/// Each part is read when it is wanted.
impl TableParts for &TableReader {
    fn chunk(&self, place: Place) -> Result<IndexChunk> {
        self.read_index_chunk(place)
    }

    fn block(&self, place: Place) -> Result<Block> {
        self.read_block(place)
    }
}

/// Each part is read when it is wanted.
impl TableParts for Arc<TableReader> {
    fn chunk(&self, place: Place) -> Result<IndexChunk> {
        self.read_index_chunk(place)
    }

    fn block(&self, place: Place) -> Result<Block> {
        self.read_block(place)
    }
}

/// What stands before a key in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntriesBefore {
    /// So many entries.
    pub entries: u64,
    /// So many bytes of blocks, as stored. Of a block that only begins before the key, its part by count of entries.
    pub bytes: u64,
}

impl TableReader {
    /// The newest entry of `key` with a sequence number up to `at_most`: its value, or that it is a delete. `None`: the file has none.
    ///
    /// One chunk is asked for, and no block unless the filter lets the key through; then one block. The file must be
    /// [searched by key](TableReader::is_searched_by_key), else [`Error::Unsupported`].
    pub fn find(&self, key: &[u8], at_most: u64, parts: &impl TableParts) -> Result<Option<BlockEntry>> {
        let (top, order) = (self.top()?, &self.source.order);
        let number = top.row_of(order, key, at_most);
        if number == top.rows() {
            return Ok(None);
        }
        let place = top.row(number).place;
        let chunk = parts.chunk(place)?;
        if !chunk.may_have(key) {
            return Ok(None);
        }
        let row = chunk.row_of(order, key, at_most);
        if row == chunk.rows() {
            return Err(self.source.corrupt_chunk(place, CHUNK_IS_NOT_TOPS));
        }
        parts.entry(chunk.row(row).place, key, at_most)
    }

    /// How much of the file stands before `key`. One chunk is asked for, and the block that the key is in, or would be. The file must be
    /// [searched by key](TableReader::is_searched_by_key), else [`Error::Unsupported`].
    pub fn entries_before(&self, key: &[u8], parts: &impl TableParts) -> Result<EntriesBefore> {
        let (top, order) = (self.top()?, &self.source.order);
        let number = top.row_of(order, key, u64::MAX);
        if number == top.rows() {
            return Ok(EntriesBefore { entries: self.properties.entries, bytes: self.properties.data_bytes });
        }
        let place = top.row(number).place;
        let chunk = parts.chunk(place)?;
        let row = chunk.row_of(order, key, u64::MAX);
        if row == chunk.rows() {
            return Err(self.source.corrupt_chunk(place, CHUNK_IS_NOT_TOPS));
        }
        let row = chunk.row(row);
        let in_block = parts.block(row.place)?.cursor().slot_of(key)? as u64;
        let block_bytes = u64::from(row.place.length) * in_block / u64::from(row.entries.max(1));
        let bytes = u64::from(row.place.offset) + block_bytes;
        Ok(EntriesBefore { entries: u64::from(row.entries_before) + in_block, bytes })
    }

    /// Reads an index chunk of a file that is searched by key: from the mapping, if that has it, or by one read.
    ///
    /// [`Error::Corruption`] if there is no such chunk, or not as it was written.
    pub fn read_index_chunk(&self, place: Place) -> Result<IndexChunk> {
        let footer = &self.footer;
        let is_within = place.end() <= footer.properties_offset && u64::from(place.offset) >= footer.key_section_offset;
        let Some(row) = self.top.as_ref().filter(|_| is_within).and_then(|top| top.row_at(place)) else {
            return Err(self.source.corrupt_chunk(place, "there is none of this length here"));
        };
        let bytes = match self.read_mapped(place)? {
            Some(bytes) => bytes,
            None => {
                let mut bytes = zeroed(place.length as usize);
                self.source.file.read_exact_at(Arc::get_mut(&mut bytes).unwrap_or_default(), place.offset.into())?;
                bytes
            }
        };
        let chunk = self.source.index_chunk(Stored::Own(bytes), place)?;
        let (first, last) = (chunk.row(0), chunk.row(chunk.rows() - 1));
        let entries = last.entries_before + last.entries - first.entries_before;
        if (last.separator, first.entries_before, entries) != (row.separator, row.entries_before, row.entries) {
            return Err(self.source.corrupt_chunk(place, CHUNK_IS_NOT_TOPS));
        }
        Ok(chunk)
    }

    /// The top, or the error that there is none.
    pub(crate) fn top(&self) -> Result<&IndexChunk> {
        self.top.as_ref().ok_or_else(|| {
            let what = "a search by key in a table file that has no index".to_string();
            Error::Unsupported { what, file: Some(self.source.path.to_path_buf()) }
        })
    }
}

/// What is wrong with a chunk that does not have what the top says.
pub(crate) const CHUNK_IS_NOT_TOPS: &str = "not what the top says of it";
