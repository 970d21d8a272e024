//! [`Source`]: reading and checking the parts of one table file, blocks above all.

use std::path::Path;
use std::sync::Arc;

use slmdb_env::{Error, File, Result};
use slmdb_order::KeyOrder;

use crate::block::Block;
use crate::entry::Place;
use crate::footer::Footer;
use crate::index_chunk::IndexChunk;
use crate::options::{LARGEST_BLOCK_BYTES, MAXIMUM_KEY_BYTES, MAXIMUM_VALUE_BYTES};
use crate::part::{self, Identity, PartKind, Stored};
use crate::properties::Properties;
use crate::single;

/// More than any block takes as stored.
const BLOCK_BYTES_AT_MOST: usize = MAXIMUM_VALUE_BYTES + MAXIMUM_KEY_BYTES + 64;
const _: () = assert!(LARGEST_BLOCK_BYTES < BLOCK_BYTES_AT_MOST);

/// What it takes to read parts of one file.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) file: Arc<dyn File>,
    pub(crate) path: Arc<Path>,
    pub(crate) identity: Identity,
    /// Where the blocks end.
    pub(crate) data_bytes: u64,
    pub(crate) order: KeyOrder,
}

impl Source {
    /// Reads a part that the footer vouches for: it lies within the file.
    pub(crate) fn part(&self, kind: PartKind, offset: u64, length: u64) -> Result<part::Content> {
        let (Ok(start), Ok(length)) = (u32::try_from(offset), usize::try_from(length)) else {
            return Err(Error::corruption(&self.path, offset, "a part beyond 4 GiB"));
        };
        part::read(&*self.file, self.identity, kind, &self.path, start, length)
    }

    /// Reads the top of the index, which lies at its end.
    pub(crate) fn top(&self, footer: &Footer, properties: &Properties, length: u64) -> Result<IndexChunk> {
        let offset = footer.properties_offset - length;
        let content = self.part(PartKind::IndexTop, offset, length)?;
        let top = IndexChunk::parse(content).and_then(|top| {
            let (first, last) = (top.row(0), top.row(top.rows() - 1));
            let entries = u64::from(last.entries_before) + u64::from(last.entries);
            let is_whole = u64::from(first.place.offset) == footer.key_section_offset
                && last.place.end() == offset
                && first.entries_before == 0
                && entries == properties.entries
                && last.separator.key == properties.largest_key
                && top.filter().is_empty();
            is_whole.then_some(top).ok_or("not that of this file's chunks")
        });
        top.map_err(|what| Error::corruption(&self.path, offset, format!("index top: {what}")))
    }

    /// Takes an index chunk as it is stored and was read at `place`.
    pub(crate) fn index_chunk(&self, stored: Stored<'_>, place: Place) -> Result<IndexChunk> {
        let content = part::open(stored, self.identity, PartKind::IndexChunk, &self.path, place.offset)?;
        IndexChunk::parse(content).map_err(|what| self.corrupt_chunk(place, what))
    }

    /// An error about a block.
    #[cold]
    pub(crate) fn corrupt_block(&self, place: Place, what: &str) -> Error {
        Error::corruption(&self.path, place.offset.into(), format!("block: {what}"))
    }

    /// An error about an index chunk.
    #[cold]
    pub(crate) fn corrupt_chunk(&self, place: Place, what: &str) -> Error {
        Error::corruption(&self.path, place.offset.into(), format!("index chunk: {what}"))
    }

    pub(crate) fn read_block(&self, place: Place) -> Result<Block> {
        self.check(place)?;
        let mut bytes = part::zeroed(place.length as usize);
        // Nobody else has these bytes yet, so `get_mut` gives them.
        self.file.read_exact_at(Arc::get_mut(&mut bytes).unwrap_or_default(), place.offset.into())?;
        self.block_of_stored(Stored::Own(bytes), place)
    }

    /// Takes a block from bytes that were read with others.
    pub(crate) fn block_of(&self, bytes: &[u8], place: Place) -> Result<Block> {
        self.block_of_stored(Stored::Lent(bytes), place)
    }

    /// The block, or the entry by itself, that is stored so and was read at `place`.
    pub(crate) fn block_of_stored(&self, stored: Stored<'_>, place: Place) -> Result<Block> {
        if !single::is_single(stored.as_slice()) {
            let content = part::open(stored, self.identity, PartKind::Block, &self.path, place.offset)?;
            return self.block_with(content, place);
        }
        let entry = single::check(stored.as_slice(), self.identity, &self.path, place.offset)?;
        let (path, order) = (self.path.clone(), self.order.clone());
        Ok(Block::single(stored.into_shared(), entry.value.end, path, place.offset, order))
    }

    /// The block that has this content, and was read at `place`.
    pub(crate) fn block_with(&self, content: part::Content, place: Place) -> Result<Block> {
        Block::new(content, self.path.clone(), place.offset, self.order.clone())
    }

    /// Refuses a place where no block can be.
    pub(crate) fn check(&self, place: Place) -> Result<()> {
        let fits = place.end() <= self.data_bytes;
        if fits && (single::SHORTEST_BYTES..=BLOCK_BYTES_AT_MOST).contains(&(place.length as usize)) {
            return Ok(());
        }
        let what = format!("no block of {} bytes can be here; blocks end at {}", place.length, self.data_bytes);
        Err(Error::corruption(&self.path, place.offset.into(), what))
    }

    /// Where the blocks end.
    pub(crate) fn data_bytes(&self) -> u64 {
        self.data_bytes
    }
}
