//! [`Tables`]: the open table files and the block cache.
//!
//! Where [files are mapped](super::mapping) and the bytes are in memory, they are taken from the mapping. The block
//! cache then keeps only blocks that had to be unpacked: of others it would hold a second copy, and finding it costs
//! no less. Index chunks of files that are [searched by key](super::searched_tables) are kept there, too. Entries that stand by themselves are never cached, because the system keeps the pages of their files.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use slmdb_env::{Env, Error, Result};
use slmdb_order::KeyOrder;
use slmdb_sync::scheduled::atomic::AtomicBool;
use slmdb_table::{Block, BlockEntry, EntryKind, KeyChunk, KeyStream, MappedRead, Place, Slice, TableReader};

use crate::Options;
use crate::files::caches::{ALLOCATION_BYTES, Cached, Caches};
use crate::files::descriptors::ClosingEnv;
use crate::files::file_names as names;
use crate::files::location::Location;
use crate::files::mapping::{Found, Mapping};

/// The error for a table file that is in the MANIFEST and not there.
pub fn missing(path: &Path) -> Error {
    Error::corruption(path, 0, "a table file of the store is missing")
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
    caches: Arc<Caches>,
    /// Whether other stores have the caches, too.
    are_shared: bool,
    /// The store's number in the caches.
    store: u32,
    mapping: Mapping,
    /// Whether the last cursor had to wait for the disk. The next one then asks for blocks ahead.
    pub are_cold: AtomicBool,
}

impl Tables {
    /// No table file is open yet.
    pub fn new(options: &Options, directory: PathBuf, store_uuid: [u8; 16]) -> Tables {
        let caches = match &options.shared {
            Some(shared) => shared.caches().clone(),
            None => Arc::new(Caches::new(options.open_tables_max, options.memory_budget_bytes)),
        };
        Tables {
            env: Arc::new(ClosingEnv { env: options.env.clone(), caches: caches.clone() }),
            directory,
            store_uuid,
            order: options.comparator.clone(),
            store: caches.one_more(),
            are_shared: options.shared.is_some(),
            caches,
            mapping: Mapping::new(options.map_tables),
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
            Found::Changed => self.caches.close_those_of(self.store),
            Found::Doubt => self.own_readers().for_each(|reader| reader.doubt_mapped()),
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
        self.caches.readers.get(&(self.store, number))
    }

    fn reader_by(&self, number: u32, open: impl FnOnce(&Path) -> Result<Arc<TableReader>>) -> Result<Arc<TableReader>> {
        if let Some(reader) = self.open_reader(number) {
            return Ok(reader);
        }
        // Two threads may open the file at once. The cache could make one wait for the other, but opening takes locks
        // of its own.
        let path = names::table(&self.directory, number);
        let reader = open(&path)?;
        self.caches.readers.insert((self.store, number), reader.clone());
        // It may have been removed and forgotten meanwhile. Then it must not stay open, or it would keep its space.
        if self.env.exists(&path).is_ok_and(|exists| !exists) {
            self.forget(number);
        }
        Ok(reader)
    }

    /// Closes a file that has been removed.
    pub fn forget(&self, number: u32) {
        self.caches.readers.remove(&(self.store, number));
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
        self.caches.blocks.get(&(self.store, number, place.offset))
    }

    /// Puts a part of a file into the cache.
    pub(super) fn keep(&self, number: u32, place: Place, cached: Cached) {
        self.caches.blocks.insert((self.store, number, place.offset), cached);
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
        let at = (self.store, number, stream.chunk_offset(chunk) as u32);
        if let Some(Cached::Keys(chunk)) = self.caches.blocks.get(&at) {
            return Ok(chunk);
        }
        let chunk = stream.read_chunk(&*self.reader(number)?, chunk)?;
        self.caches.blocks.insert(at, Cached::Keys(chunk.clone()));
        Ok(chunk)
    }

    /// Whether the block at `place` is in the cache. Does not count as a use of it.
    pub fn is_cached(&self, number: u32, place: Place) -> bool {
        self.caches.blocks.contains_key(&(self.store, number, place.offset))
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
        self.caches.memory_bytes()
    }

    /// The open files and the block cache.
    pub fn caches(&self) -> &Caches {
        &self.caches
    }

    /// Number of mapped table files, and their mapped bytes.
    pub fn mapped(&self) -> (u64, u64) {
        let mapped = self.own_readers().map(|reader| reader.mapped_bytes()).filter(|&bytes| bytes > 0);
        mapped.fold((0, 0), |(files, all_bytes), bytes| (files + 1, all_bytes + bytes))
    }

    /// Memory of the open table files' readers in bytes.
    pub fn readers_memory_bytes(&self) -> u64 {
        let readers = self.own_readers().map(|reader| reader.memory_bytes() + 4 * ALLOCATION_BYTES).sum::<usize>();
        let tables = self.caches.readers.memory_used();
        let of_tables = if self.are_shared { 0 } else { tables.entries + tables.map };
        (readers + of_tables) as u64
    }

    /// The readers of the store's own files that are open.
    fn own_readers(&self) -> impl Iterator<Item = Arc<TableReader>> {
        self.caches.readers.iter().filter(|((of, _), _)| *of == self.store).map(|(_, reader)| reader)
    }
}

impl Drop for Tables {
    /// Others go on with the caches.
    fn drop(&mut self) {
        if self.are_shared {
            self.caches.forget(self.store);
        }
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
