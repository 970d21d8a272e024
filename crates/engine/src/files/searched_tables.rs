//! Table files that are searched by key, through the block cache: [`Tables::find`] and cursors.
//!
//! Index chunks are in the cache beside the blocks, whether files are mapped or not: a chunk is checked once, and then
//! searched where it lies. Blocks are as for any table file.

use std::sync::Arc;

use slmdb_env::Result;
use slmdb_table::{
    Block, BlockEntry, EntriesBefore, IndexChunk, MappedRead, Place, TableCursor, TableParts, TableReader, TableScan,
};

use crate::files::caches::Cached;
use crate::files::table_cache::Tables;

impl Tables {
    /// The newest entry of `key` with a sequence number up to `at_most` in a table file that is searched by key; see
    /// [`TableReader::find`].
    pub fn find(&self, number: u32, key: &[u8], at_most: u64) -> Result<Option<BlockEntry>> {
        let table = self.reader(number)?;
        table.find(key, at_most, &OpenTable { tables: self, table: &table })
    }

    /// How much of a table file that is searched by key stands before a key; see [`TableReader::entries_before`].
    pub fn entries_before(&self, number: u32, key: &[u8]) -> Result<EntriesBefore> {
        let table = self.reader(number)?;
        table.entries_before(key, &OpenTable { tables: self, table: &table })
    }

    /// A cursor over a table file that is searched by key. It keeps no file open.
    pub fn cursor(self: &Arc<Tables>, number: u32) -> Result<TableCursor<CachedParts>> {
        TableCursor::new(&*self.reader(number)?, CachedParts { tables: self.clone(), number })
    }

    /// A scan of a table file that is searched by key, which reads `window_bytes` at a time past the cache. It keeps the
    /// file open.
    pub fn scan(&self, number: u32, window_bytes: usize) -> Result<TableScan> {
        self.reader(number)?.scan(window_bytes)
    }

    fn chunk_of(&self, table: &TableReader, place: Place) -> Result<IndexChunk> {
        let number = table.properties().number;
        if let Some(Cached::Chunk(chunk)) = self.cached(number, place) {
            return Ok(chunk);
        }
        let chunk = table.read_index_chunk(place)?;
        self.keep(number, place, Cached::Chunk(chunk.clone()));
        Ok(chunk)
    }

    fn block_of(&self, table: &TableReader, place: Place) -> Result<Block> {
        let number = table.properties().number;
        if self.is_mapped(table) {
            if let Some(block) = self.unpacked_block(table, place) {
                return Ok(block);
            }
            if let Some(block) = self.mapped_block(table, place, true)? {
                return Ok(block);
            }
        }
        self.block_by(number, place, || table.read_block(place))
    }

    fn entry_of(&self, table: &TableReader, place: Place, key: &[u8], at_most: u64) -> Result<Option<BlockEntry>> {
        let mut block = None;
        if self.is_mapped(table) {
            block = self.unpacked_block(table, place);
            if block.is_none() {
                match table.read_mapped_at_most(place, key, at_most)? {
                    MappedRead::Entry(entry) => return Ok(Some(entry)),
                    MappedRead::Block(read) => {
                        self.keep_if_unpacked(table.properties().number, place, &read);
                        block = Some(read);
                    }
                    MappedRead::Nothing => {}
                }
            }
        }
        match block {
            Some(block) => block.get_at_most(key, at_most),
            None => {
                let number = table.properties().number;
                self.block_by(number, place, || table.read_block(place))?.get_at_most(key, at_most)
            }
        }
    }

    fn is_mapped(&self, table: &TableReader) -> bool {
        self.are_mapped() && table.mapped_bytes() > 0
    }
}

/// The parts of a table file that is open meanwhile.
struct OpenTable<'a> {
    tables: &'a Tables,
    table: &'a TableReader,
}

impl TableParts for OpenTable<'_> {
    fn chunk(&self, place: Place) -> Result<IndexChunk> {
        self.tables.chunk_of(self.table, place)
    }

    fn block(&self, place: Place) -> Result<Block> {
        self.tables.block_of(self.table, place)
    }

    fn entry(&self, place: Place, key: &[u8], at_most: u64) -> Result<Option<BlockEntry>> {
        self.tables.entry_of(self.table, place, key, at_most)
    }
}

/// The parts of a table file, from the block cache or the file, which is opened for each that is not in the cache if it is not open.
#[derive(Clone)]
pub struct CachedParts {
    tables: Arc<Tables>,
    number: u32,
}

impl TableParts for CachedParts {
    fn chunk(&self, place: Place) -> Result<IndexChunk> {
        self.tables.chunk_of(&*self.tables.reader(self.number)?, place)
    }

    fn block(&self, place: Place) -> Result<Block> {
        self.tables.block_of(&*self.tables.reader(self.number)?, place)
    }

    fn block_before(&self, place: Place, next: Place) -> Result<Block> {
        let table = self.tables.reader(self.number)?;
        // The processor fetches it while this one is copied and used.
        table.prefetch_mapped_block(next);
        self.tables.block_of(&table, place)
    }

    fn entry(&self, place: Place, key: &[u8], at_most: u64) -> Result<Option<BlockEntry>> {
        self.tables.entry_of(&*self.tables.reader(self.number)?, place, key, at_most)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use slmdb_env::Env;
    use slmdb_order::KeyOrder;
    use slmdb_table::{Compression, EntryKind, TableBuilder, TableForm, TableOptions};
    use slmdb_testkit::MemoryEnv;

    use super::*;
    use crate::files::file_names as names;
    use crate::{MapTables, Options};

    const ENTRIES: u32 = 20_000;

    fn key(number: u32) -> [u8; 4] {
        (2 * number).to_be_bytes()
    }

    /// Table file 1 with this many entries, of two versions every third.
    fn tables(map_tables: MapTables, compression: Compression, cache_bytes: u64) -> (MemoryEnv, Arc<Tables>) {
        let (env, directory) = (MemoryEnv::new(), PathBuf::from("/db"));
        env.create_directory(&directory).unwrap();
        let options = TableOptions { compression, form: TableForm::LEVELS, ..TableOptions::default() };
        let path = names::table(&directory, 1);
        let mut builder = TableBuilder::new_in_order(&env, &path, 1, [7; 16], options, KeyOrder::Bytewise).unwrap();
        for number in 0..ENTRIES {
            builder.add(&key(number), 9, EntryKind::Put, &[number as u8; 50]).unwrap();
            if number % 3 == 0 {
                builder.add(&key(number), 5, EntryKind::Delete, b"").unwrap();
            }
        }
        builder.finish().unwrap();
        let options =
            Options { env: Arc::new(env.clone()), map_tables, memory_budget_bytes: cache_bytes, ..Options::default() };
        let tables = Arc::new(Tables::new(&options, directory, [7; 16]));
        tables.set_table_bytes(1 << 20);
        (env, tables)
    }

    fn check(tables: &Arc<Tables>) {
        for number in (0..ENTRIES).step_by(7) {
            let found = tables.find(1, &key(number), u64::MAX).unwrap().unwrap();
            assert_eq!((found.sequence, found.kind), (9, EntryKind::Put));
            assert_eq!(found.value, [number as u8; 50]);
            let older = tables.find(1, &key(number), 8).unwrap().map(|entry| (entry.sequence, entry.kind));
            assert_eq!(older, (number % 3 == 0).then_some((5, EntryKind::Delete)));
            assert_eq!(tables.find(1, &(2 * number + 1).to_be_bytes(), u64::MAX).unwrap(), None);
        }
        let mut cursor = tables.cursor(1).unwrap();
        cursor.seek_first().unwrap();
        let mut entries = 0;
        while cursor.valid() {
            entries += 1;
            cursor.next().unwrap();
        }
        assert_eq!(entries, ENTRIES + ENTRIES.div_ceil(3));
        let before = tables.entries_before(1, &key(ENTRIES / 2)).unwrap().entries;
        assert_eq!(before, u64::from(ENTRIES / 2 + (ENTRIES / 2).div_ceil(3)));
    }

    #[test]
    fn keys_are_found_through_the_cache_and_the_mapping() {
        for map_tables in [MapTables::Never, MapTables::Auto] {
            for compression in [Compression::None, Compression::Lz4] {
                let (_, tables) = tables(map_tables, compression, 64 << 20);
                check(&tables);
                assert_eq!(tables.are_mapped(), map_tables == MapTables::Auto);
                let cached_bytes = tables.cache_memory_bytes();
                assert!(cached_bytes > 10_000, "chunks are cached");
                let has_blocks = map_tables == MapTables::Never || compression != Compression::None;
                assert_eq!(cached_bytes > 1_000_000, has_blocks, "{cached_bytes} bytes in the cache");
            }
        }
    }

    #[test]
    fn what_is_cached_is_not_read_again() {
        let (env, tables) = tables(MapTables::Never, Compression::None, 64 << 20);
        check(&tables);
        env.fail_after(0, "read ", slmdb_testkit::Failure::Io, slmdb_testkit::Repeat::ForGood);
        check(&tables);
    }

    #[test]
    fn the_cache_stays_within_its_budget() {
        let (_, tables) = tables(MapTables::Never, Compression::None, 100_000);
        check(&tables);
        assert!(tables.cache_memory_bytes() < 200_000, "{} bytes", tables.cache_memory_bytes());
    }
}
