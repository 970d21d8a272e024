//! [`TableReader`]: an open table file.
//!
//! Opening reads footer and properties, and the top of the index if there is one; memory is what these take.
//! After that a block costs one read of exactly its bytes, and a block that was not compressed stays in the very buffer
//! it was read into.
//!
//! Where blocks are is known to the index and to the key section, not to the reader. So a [`Place`] is taken with the same
//! doubt as bytes: it has to lie among the blocks, and the checksum fails unless a block of this file starts there.

use std::path::Path;
use std::sync::Arc;

use slmdb_env::{Env, Error, File, OpenMode, Result};
use slmdb_order::KeyOrder;

use crate::block::Block;
use crate::entry::Place;
use crate::footer::{FOOTER_BYTES, Footer};
use crate::index_chunk::IndexChunk;
use crate::key_section::{Chunk, KeySection, content_bytes_at_most};
use crate::mapping::Mapping;
use crate::part::{Identity, PartKind};
use crate::properties::Properties;
use crate::source::Source;

/// A table file, open for reading by any number of threads.
#[derive(Debug)]
pub struct TableReader {
    pub(crate) source: Source,
    pub(crate) footer: Footer,
    pub(crate) properties: Properties,
    /// Of the key section.
    pub(crate) chunk_lengths: Vec<u32>,
    /// Of a file that is searched by key.
    pub(crate) top: Option<IndexChunk>,
    pub(crate) mapping: Option<Mapping>,
}

impl TableReader {
    /// Opens table file `number` of the store, whose keys are ordered by bytes, and tells the system that it will be read
    /// at random.
    ///
    /// [`Error::Corruption`] if it is not that file, or not as it was written as far as footer, properties and length
    /// can tell; [`Error::Unsupported`] if it is of another format version.
    pub fn open(env: &dyn Env, path: &Path, number: u32, store_uuid: [u8; 16]) -> Result<TableReader> {
        TableReader::open_in_order(env, path, number, store_uuid, KeyOrder::Bytewise)
    }

    /// As [`open`](TableReader::open), for a store with this order of keys. The file does not name its order: under
    /// another one than it was built in its keys are [`Error::Corruption`] to whoever goes through them.
    pub fn open_in_order(
        env: &dyn Env,
        path: &Path,
        number: u32,
        store_uuid: [u8; 16],
        order: KeyOrder,
    ) -> Result<TableReader> {
        let file = env.open_file(path, OpenMode::Read)?;
        file.advise_random();
        TableReader::load(file, Arc::from(path), number, store_uuid, order)
    }

    /// Reads and checks what an open file's reader knows of it.
    pub(crate) fn load(
        file: Arc<dyn File>,
        path: Arc<Path>,
        number: u32,
        store_uuid: [u8; 16],
        order: KeyOrder,
    ) -> Result<TableReader> {
        let file_bytes = file.length_bytes()?;
        let Some(footer_offset) = file_bytes.checked_sub(FOOTER_BYTES as u64) else {
            return Err(Error::corruption(path, 0, format!("{file_bytes} bytes are too short for a table file")));
        };
        let mut footer = [0; FOOTER_BYTES];
        file.read_exact_at(&mut footer, footer_offset)?;
        let footer = Footer::decode(&footer, &path, file_bytes, number, store_uuid)?;
        let (identity, data_bytes) = (Identity::new(store_uuid, number), footer.key_section_offset);
        let source = Source { file, path, identity, data_bytes, order };
        let content = source.part(PartKind::Properties, footer.properties_offset, footer.properties_bytes)?;
        let offset = footer.properties_offset;
        let (properties, mut chunk_lengths) =
            Properties::decode(content.as_slice(), number, &source.path, offset, &source.order)?;
        let chunk_bytes: u64 = chunk_lengths.iter().copied().map(u64::from).sum();
        let is_length_right = if footer.has_index() {
            chunk_lengths.len() == 1 && chunk_bytes < footer.key_section_bytes
        } else {
            chunk_bytes == footer.key_section_bytes
        };
        if properties.data_bytes != footer.key_section_offset || !is_length_right {
            let what = "properties: the parts are not where the footer says";
            return Err(Error::corruption(&source.path, offset, what));
        }
        let mut top = None;
        if footer.has_index() {
            top = Some(source.top(&footer, &properties, chunk_bytes)?);
            chunk_lengths = Vec::new();
        }
        Ok(TableReader { source, footer, properties, chunk_lengths, top, mapping: None })
    }

    /// What the file says about itself.
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.source.path
    }

    /// Whether the file is one of [`TableForm::ByKey`](crate::TableForm::ByKey).
    pub fn is_searched_by_key(&self) -> bool {
        self.top.is_some()
    }

    /// Length of the file in bytes.
    pub fn length_bytes(&self) -> u64 {
        self.footer.file_bytes
    }

    /// What this reader takes in memory, in bytes; blocks and key sections that it has read are their holders'.
    pub fn memory_bytes(&self) -> usize {
        let keys_bytes = self.properties.smallest_key.capacity() + self.properties.largest_key.capacity();
        let top_bytes = self.top.as_ref().map_or(0, IndexChunk::memory_bytes);
        size_of::<TableReader>() + keys_bytes + self.chunk_lengths.capacity() * size_of::<u32>() + top_bytes
    }

    /// Reads a block: one read of `place.length` bytes.
    ///
    /// [`Error::Corruption`] if there is no such block, or not as it was written; [`Error::Unsupported`] if it is
    /// compressed in a way that is not built in.
    pub fn read_block(&self, place: Place) -> Result<Block> {
        self.source.read_block(place)
    }

    /// Says that these bytes of the file will be read soon; see [`File::advise_will_read`].
    pub fn will_read(&self, offset_bytes: u64, length_bytes: u64) {
        self.source.file.advise_will_read(offset_bytes, length_bytes);
    }

    /// Reads the key section into memory: one read for each of its chunks. It takes what the keys take and a little for
    /// each entry; [`Properties`] tell beforehand how many there are and how long they are together, and are taken at
    /// their word.
    ///
    /// [`Error::Unsupported`] if the file is [searched by key](TableReader::is_searched_by_key): it has none.
    pub fn key_section(&self) -> Result<KeySection> {
        if self.is_searched_by_key() {
            let what = "a key section of a table file that is searched by key: it has none".to_string();
            return Err(Error::Unsupported { what, file: Some(self.path().to_path_buf()) });
        }
        let mut bytes_left = content_bytes_at_most(&self.properties, self.chunk_lengths.len());
        let mut chunks = Vec::with_capacity(self.chunk_lengths.len());
        for (offset, length) in self.chunk_places() {
            let chunk = self.read_chunk(offset, length)?;
            let Some(left) = bytes_left.checked_sub(chunk.content.length as u64) else {
                return Err(Error::corruption(self.path(), offset, "key chunk: more keys than the properties tell of"));
            };
            bytes_left = left;
            chunks.push(chunk);
        }
        let path = self.source.path.clone();
        let (entries, data_bytes) = (self.properties.entries, self.properties.data_bytes);
        Ok(KeySection::new(path, chunks, entries, data_bytes, self.source.order.clone()))
    }

    /// Offset and length of each key chunk.
    pub(crate) fn chunk_places(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut next = self.footer.key_section_offset;
        self.chunk_lengths.iter().map(move |&length| {
            let offset = next;
            next += u64::from(length);
            (offset, u64::from(length))
        })
    }

    pub(crate) fn read_chunk(&self, offset: u64, length: u64) -> Result<Chunk> {
        Ok(Chunk { content: self.source.part(PartKind::Keys, offset, length)?, offset })
    }
}
