//! [`Tables`]: the open table files and the block cache.
//!
//! Where [files are mapped](super::mapping) and the bytes are in memory, they are taken from the mapping. The block
//! cache then keeps only blocks that had to be unpacked: of others it would hold a second copy, and finding it costs
//! no less. Index chunks of files that are [searched by key](super::searched_tables) are kept there, too. Entries that stand by themselves are never cached, because the system keeps the pages of their files.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;
use slmdb_env::{Env, Error, Result};
use slmdb_order::KeyOrder;
use slmdb_sync::scheduled::atomic::AtomicBool;
use slmdb_table::{
    Block, BlockEntry, EntryKind, IndexChunk, KeyChunk, KeyStream, MappedRead, Place, Slice, TableReader,
};

use crate::Options;
use crate::files::descriptors::ClosingEnv;
use crate::files::file_names as names;
use crate::files::location::Location;
use crate::files::mapping::{Found, Mapping};
use crate::files::open_tables::OpenTables;

/// The name of a block or an index chunk: file number and offset.
type BlockKey = (u32, u32);

/// What the cache holds.
#[derive(Clone)]
pub(super) enum Cached {
    Block(Block),
    Chunk(IndexChunk),
    Keys(KeyChunk),
}

/// The error for a table file that is in the MANIFEST and not there.
pub fn missing(path: &Path) -> Error {
    Error::corruption(path, 0, "a table file of the store is missing")
}

/// What an allocator adds to each allocation, rounding included. A block is two allocations.
pub const ALLOCATION_BYTES: usize = 16;

/// What the cache's own tables take for each block. This estimate keeps the cache within its share. `stats` asks the
/// cache itself.
const CACHE_ENTRY_BYTES: usize = 64;

#[derive(Clone)]
struct ByMemory;

impl Weighter<BlockKey, Cached> for ByMemory {
    fn weight(&self, _: &BlockKey, cached: &Cached) -> u64 {
        let memory_bytes = match cached {
            Cached::Block(block) => block.memory_bytes(),
            Cached::Chunk(chunk) => chunk.memory_bytes(),
            Cached::Keys(chunk) => chunk.memory_bytes(),
        };
        (memory_bytes + 2 * ALLOCATION_BYTES + CACHE_ENTRY_BYTES) as u64
    }
}

/// What a mapping has of a value.
enum FromMapping {
    /// Nothing: the file must be read.
    Nothing,
    Value(Slice),
    /// The block that holds the value, if any does.
    Block(Block),
}

/// The open table files and the block cache.
pub struct Tables {
    env: Arc<dyn Env>,
    directory: PathBuf,
    store_uuid: [u8; 16],
    order: KeyOrder,
    readers: Arc<OpenTables>,
    mapping: Mapping,
    blocks: Cache<BlockKey, Cached, ByMemory>,
    /// Whether the last cursor had to wait for the disk. The next one then asks for blocks ahead.
    pub are_cold: AtomicBool,
}

impl Tables {
    /// No table file is open yet.
    pub fn new(options: &Options, directory: PathBuf, store_uuid: [u8; 16]) -> Tables {
        let cache_bytes = options.memory_budget_bytes;
        let typical_blocks = (cache_bytes / 4096).clamp(16, 1 << 24) as usize;
        let readers = Arc::new(OpenTables(Cache::new(options.open_tables_max)));
        Tables {
            env: Arc::new(ClosingEnv { env: options.env.clone(), readers: readers.clone() }),
            directory,
            store_uuid,
            order: options.comparator.clone(),
            readers,
            mapping: Mapping::new(options.map_tables),
            blocks: Cache::with_weighter(typical_blocks, cache_bytes, ByMemory),
            are_cold: AtomicBool::new(false),
        }
    }

    /// The environment for all openings of the store. Where too many files are open, it closes these.
    pub fn env(&self) -> Arc<dyn Env> {
        self.env.clone()
    }

    /// The environment's clock, in nanoseconds.
    pub fn clock_ns(&self) -> u64 {
        self.env.monotonic_ns()
    }

    /// Sets the bytes of all table files.
    pub fn set_table_bytes(&self, bytes: u64) {
        self.mapping.set_table_bytes(bytes);
        self.look_at_memory();
    }

    /// Decides again whether files are mapped, if that is due. If that has changed, all files are closed. The next read
    /// opens its file anew.
    fn look_at_memory(&self) {
        match self.mapping.look(&*self.env) {
            Found::NothingNew => {}
            Found::Changed => self.readers.close_all(),
            Found::Doubt => self.readers.0.iter().for_each(|(_, reader)| reader.doubt_mapped()),
        }
    }

    /// The reader of table file `number`. Opens the file if it is not open.
    pub fn reader(&self, number: u32) -> Result<Arc<TableReader>> {
        self.reader_by(number, |path| {
            let order = self.order.clone();
            self.look_at_memory();
            match TableReader::open_in_order(&*self.env, path, number, self.store_uuid, order) {
                Ok(mut reader) => {
                    if self.mapping.is_on() {
                        reader.map();
                    }
                    Ok(Arc::new(reader))
                }
                Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Err(missing(path)),
                Err(error) => Err(error),
            }
        })
    }

    /// The reader of table file `number`, if the file is open.
    #[inline]
    pub fn open_reader(&self, number: u32) -> Option<Arc<TableReader>> {
        self.readers.0.get(&number)
    }

    fn reader_by(&self, number: u32, open: impl FnOnce(&Path) -> Result<Arc<TableReader>>) -> Result<Arc<TableReader>> {
        if let Some(reader) = self.open_reader(number) {
            return Ok(reader);
        }
        // Two threads may open the file at once. The cache could make one wait for the other, but opening takes locks
        // of its own.
        let path = names::table(&self.directory, number);
        let reader = open(&path)?;
        self.readers.0.insert(number, reader.clone());
        // It may have been removed and forgotten meanwhile. Then it must not stay open, or it would keep its space.
        if self.env.exists(&path).is_ok_and(|exists| !exists) {
            self.forget(number);
        }
        Ok(reader)
    }

    /// Closes a file that has been removed.
    pub fn forget(&self, number: u32) {
        self.readers.0.remove(&number);
    }

    /// The block at `place`, from the cache or by one read.
    pub fn block(&self, number: u32, place: Place) -> Result<Block> {
        self.block_by(number, place, || self.reader(number)?.read_block(place))
    }

    /// The block at `place`, if it is in the cache.
    pub fn cached_block(&self, number: u32, place: Place) -> Option<Block> {
        match self.cached(number, place) {
            Some(Cached::Block(block)) => Some(block),
            Some(Cached::Chunk(_) | Cached::Keys(_)) | None => None,
        }
    }

    /// What of this place is in the cache.
    pub(super) fn cached(&self, number: u32, place: Place) -> Option<Cached> {
        self.blocks.get(&(number, place.offset))
    }

    /// Puts a part of a file into the cache.
    pub(super) fn keep(&self, number: u32, place: Place, cached: Cached) {
        self.blocks.insert((number, place.offset), cached);
    }

    /// The block at `place`, from the cache or as `read` has it. Then it is put into the cache, unless it is an entry by
    /// itself.
    pub(super) fn block_by(&self, number: u32, place: Place, read: impl FnOnce() -> Result<Block>) -> Result<Block> {
        if let Some(block) = self.cached_block(number, place) {
            return Ok(block);
        }
        let block = read()?;
        if !block.is_single() {
            self.keep(number, place, Cached::Block(block.clone()));
        }
        Ok(block)
    }

    /// A chunk of a table file's key section, from the cache or by one read. `stream` is one of that file.
    pub fn key_chunk(&self, number: u32, stream: &KeyStream, chunk: usize) -> Result<KeyChunk> {
        // (A file whose offsets are longer can't be: places are 32 bits long.)
        let at = (number, stream.chunk_offset(chunk) as u32);
        if let Some(Cached::Keys(chunk)) = self.blocks.get(&at) {
            return Ok(chunk);
        }
        let chunk = stream.read_chunk(&*self.reader(number)?, chunk)?;
        self.blocks.insert(at, Cached::Keys(chunk.clone()));
        Ok(chunk)
    }

    /// Whether the block at `place` is in the cache. Does not count as a use of it.
    pub fn is_cached(&self, number: u32, place: Place) -> bool {
        self.blocks.contains_key(&(number, place.offset))
    }

    /// The block at `place`, by one read. Puts it into the cache, unless it is an entry by itself.
    pub fn read_block(&self, number: u32, place: Place) -> Result<Block> {
        let block = self.reader(number)?.read_block(place)?;
        if !block.is_single() {
            self.keep(number, place, Cached::Block(block.clone()));
        }
        Ok(block)
    }

    /// The value of `key` at a location that the engine's index gave. [`Error::Corruption`] if the block does not
    /// hold that key at that sequence number.
    pub fn value(&self, key: &[u8], location: Location) -> Result<Slice> {
        let block = match self.value_from_mapping(key, location)? {
            FromMapping::Value(value) => return Ok(value),
            FromMapping::Block(block) => block,
            FromMapping::Nothing => self.block(location.file, location.place)?,
        };
        self.value_in(&block, key, location)
    }

    /// The newest entry of `key` in the block at `place`, whatever its sequence number. `None`: the block has no such key.
    pub fn entry(&self, number: u32, place: Place, key: &[u8]) -> Result<Option<BlockEntry>> {
        let mapped = match self.mapped_reader(number)? {
            Some(table) => match self.unpacked_block(&table, place) {
                None => self.mapped_block(&table, place, true)?,
                unpacked => unpacked,
            },
            None => None,
        };
        mapped.map_or_else(|| self.block(number, place), Ok)?.get(key)
    }

    /// Whether files are mapped now.
    pub fn are_mapped(&self) -> bool {
        if self.mapping.is_to_look() {
            self.look_at_memory();
        }
        self.mapping.is_on()
    }

    /// The file's reader, if files are mapped and this one is.
    fn mapped_reader(&self, number: u32) -> Result<Option<Arc<TableReader>>> {
        if !self.are_mapped() {
            return Ok(None);
        }
        Ok(Some(self.reader(number)?).filter(|table| table.mapped_bytes() > 0))
    }

    /// What the file's mapping has of a value.
    fn value_from_mapping(&self, key: &[u8], location: Location) -> Result<FromMapping> {
        let Location { file, place, sequence } = location;
        let Some(table) = self.mapped_reader(file)? else { return Ok(FromMapping::Nothing) };
        if let Some(block) = self.unpacked_block(&table, place) {
            return Ok(FromMapping::Block(block));
        }
        Ok(match table.read_mapped_version(place, key, sequence)? {
            MappedRead::Entry(entry) if entry.kind == EntryKind::Put => FromMapping::Value(entry.value),
            // A delete is not what the index points to. Reading the block makes the error that says so.
            MappedRead::Nothing | MappedRead::Entry(_) => FromMapping::Nothing,
            MappedRead::Block(block) => {
                self.keep_if_unpacked(file, place, &block);
                FromMapping::Block(block)
            }
        })
    }

    /// The block at `place` of a mapped file, if it had to be unpacked and is in the cache.
    pub fn unpacked_block(&self, table: &TableReader, place: Place) -> Option<Block> {
        if table.has_met_compressed() { self.cached_block(table.properties().number, place) } else { None }
    }

    /// The block at `place` of an open file, from its mapping. `is_kept`: put it into the cache if it had to be
    /// unpacked. `None`: the file is not mapped, or the block not in memory.
    pub fn mapped_block(&self, table: &TableReader, place: Place, is_kept: bool) -> Result<Option<Block>> {
        let block = table.read_mapped_block(place)?;
        if let Some(block) = block.as_ref().filter(|_| is_kept) {
            self.keep_if_unpacked(table.properties().number, place, block);
        }
        Ok(block)
    }

    pub(super) fn keep_if_unpacked(&self, number: u32, place: Place, block: &Block) {
        if block.was_compressed() {
            self.keep(number, place, Cached::Block(block.clone()));
        }
    }

    /// The value of `key` in this block, likewise.
    pub fn value_in(&self, block: &Block, key: &[u8], location: Location) -> Result<Slice> {
        match block.get_version(key, location.sequence)? {
            Some(entry) if entry.kind == EntryKind::Put => Ok(entry.value),
            _ => {
                let what = match block.get(key)? {
                    None => "the index points to a block that does not hold the key".to_string(),
                    Some(entry) => format!(
                        "the index points to sequence number {}, the block holds {} ({:?})",
                        location.sequence, entry.sequence, entry.kind
                    ),
                };
                let path = names::table(&self.directory, location.file);
                Err(Error::corruption(path, u64::from(location.place.offset), what))
            }
        }
    }

    /// Memory of the block cache in bytes.
    pub fn cache_memory_bytes(&self) -> u64 {
        let guessed_bytes = (self.blocks.len() * CACHE_ENTRY_BYTES) as u64;
        let own = self.blocks.memory_used();
        self.blocks.weight().saturating_sub(guessed_bytes) + (own.entries + own.map) as u64
    }

    /// Sets the most memory that the block cache may take, in bytes. Returns how much it freed for that.
    pub fn set_cache_bytes(&self, bytes: u64) -> u64 {
        let before = self.blocks.weight();
        self.blocks.set_capacity(bytes);
        before.saturating_sub(self.blocks.weight())
    }

    /// Number of mapped table files, and their mapped bytes.
    pub fn mapped(&self) -> (u64, u64) {
        let readers = self.readers.0.iter().map(|(_, reader)| reader.mapped_bytes()).filter(|&bytes| bytes > 0);
        readers.fold((0, 0), |(files, all_bytes), bytes| (files + 1, all_bytes + bytes))
    }

    /// Memory of the open table files' readers in bytes.
    pub fn readers_memory_bytes(&self) -> u64 {
        let own = self.readers.0.memory_used();
        let readers =
            self.readers.0.iter().map(|(_, reader)| reader.memory_bytes() + 4 * ALLOCATION_BYTES).sum::<usize>();
        (readers + own.entries + own.map) as u64
    }
}

#[cfg(test)]
mod tests {
    use slmdb_table::{EntryKind, TableBuilder, TableOptions};
    use slmdb_testkit::MemoryEnv;

    use super::*;

    #[test]
    fn a_file_removed_while_it_is_opened_does_not_stay_open() {
        let (env, directory) = (MemoryEnv::new(), PathBuf::from("/db"));
        env.create_directory(&directory).unwrap();
        let path = names::table(&directory, 1);
        let (options, order) = (TableOptions::default(), KeyOrder::Bytewise);
        let mut builder = TableBuilder::new_in_order(&env, &path, 1, [7; 16], options, order.clone()).unwrap();
        builder.add(b"key", 1, EntryKind::Put, b"value").unwrap();
        builder.finish().unwrap();
        let tables = Tables::new(&Options { env: Arc::new(env.clone()), ..Options::default() }, directory, [7; 16]);
        let removed_meanwhile = |path: &Path| {
            let reader = Arc::new(TableReader::open_in_order(&env, path, 1, [7; 16], order.clone())?);
            env.remove_file(path)?;
            tables.forget(1);
            Ok(reader)
        };
        let reader = tables.reader_by(1, removed_meanwhile).unwrap();
        assert_eq!(Arc::strong_count(&reader), 1, "the cache keeps it");
    }
}
