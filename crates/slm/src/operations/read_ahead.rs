//! Reading ahead: where a file is gone through in order, its blocks come in pieces instead of one by one.
//!
//! A cursor that has read some blocks of one file each of which began where the one before ended will most likely go on so, even if
//! other files have their turns between. From there it reads a piece of the file at a time, short ones first, and cuts the blocks
//! from that: a range of a hundred keys takes a handful of reads, and a long one waits for the device once for each 128 KiB; where
//! files take turns pieces stay short. Blocks that come so do not go into the block cache: a scan of the whole store would
//! leave nothing else in it. What is in the cache already is taken from there, unless it came with a piece. Where a file's
//! blocks do not follow each other, nothing is read that is not needed.
//!
//! A piece that can't be read is given up, and the block read alone: damage behind it is nobody's error but its own.
//!
//! Of a file that is mapped and in memory nothing is read ahead: blocks are taken from there one by one.
//!
//! A piece does not keep its file open, which a compaction may remove meanwhile; then what is left of it is not used.

use std::sync::{Arc, Weak};

use slmdb_engine::files::location::Location;
use slmdb_env::Result;
use slmdb_pmem::Medium;
use slmdb_table::{Block, Piece, Place, TableReader};

use crate::operations::get::Reader;

/// So many blocks in a row are read one by one. (With two, ranges of a hundred keys took a tenth more time in order.)
const BLOCKS_ALONE: u32 = 1;
/// What is read at once from then on, in bytes: at first, and at most (it doubles each time).
pub(crate) const PIECE_BYTES_FIRST: usize = 16 << 10;
pub(crate) const PIECE_BYTES_MAX: usize = 128 << 10;
/// A piece, or a block, that takes no more in memory is small.
pub(crate) const SMALL_BYTES: usize = PIECE_BYTES_FIRST + (1 << 10);
/// A block that begins so much behind the end of the one before still follows it: what is between is garbage.
const GAP_BYTES_MAX: u64 = 16 << 10;

/// See the module. Of one file.
#[derive(Debug, Default)]
pub(crate) struct ReadAhead {
    /// Where the block ended that the cursor has turned to last.
    end: u64,
    /// How many blocks followed each other.
    run: u32,
    piece: Option<Piece>,
    /// The file.
    table: Weak<TableReader>,
}

impl ReadAhead {
    /// The cursor turns to this block of the file. `spare` takes a piece that is not needed any more.
    pub(crate) fn turn_to(&mut self, place: Place, spare: &mut Option<Piece>) {
        let gap_bytes = u64::from(place.offset).checked_sub(self.end);
        if self.run > 0 && gap_bytes.is_some_and(|bytes| bytes <= GAP_BYTES_MAX) {
            self.run = self.run.saturating_add(1);
        } else if !self.piece.as_ref().is_some_and(|piece| piece.holds(place)) {
            self.let_go(spare);
            self.run = 1;
        }
        self.end = place.end();
    }

    /// The cursor turns to another file, and has much of others: only a short piece is kept.
    pub(crate) fn leave(&mut self, spare: &mut Option<Piece>) {
        if self.memory_bytes() > SMALL_BYTES as u64 {
            self.put_by(spare);
        }
    }

    /// Nothing follows.
    pub(crate) fn let_go(&mut self, spare: &mut Option<Piece>) {
        self.run = 0;
        self.put_by(spare);
    }

    /// What one large block needed is not kept.
    fn put_by(&mut self, spare: &mut Option<Piece>) {
        if let Some(mut piece) = self.piece.take().filter(|piece| piece.memory_bytes() <= PIECE_BYTES_MAX) {
            piece.clear();
            *spare = Some(piece);
        }
    }

    /// The block at `place`, which it has turned to, if it is in the piece that was read last and sound. (Then nobody need look into
    /// the block cache, which took an eighth of the time of a range of a hundred keys.)
    pub(crate) fn at_hand(&mut self, place: Place) -> Option<Block> {
        let piece = self.piece.as_mut().filter(|piece| piece.holds(place))?;
        self.table.upgrade()?.read_block_ahead(place, piece, 0).ok()
    }

    /// The block at `location`, which it has turned to, if the file is mapped and has it in memory; whether it `is_sought` there, and was
    /// not in the cache. (Only what had to be unpacked is kept in the cache, unless it is one of many in a row.)
    pub(crate) fn mapped<M: Medium + Clone>(
        &mut self,
        reader: &Reader<M>,
        location: Location,
        is_sought: &mut bool,
    ) -> Result<Option<Block>> {
        if !reader.tables.are_mapped() {
            return Ok(None);
        }
        let table = self.table(reader, location.file)?;
        if let Some(block) = reader.tables.unpacked_block(&table, location.place) {
            return Ok(Some(block));
        }
        let block = reader.tables.mapped_block(&table, location.place, self.run <= BLOCKS_ALONE)?;
        *is_sought = block.is_some();
        Ok(block)
    }

    fn table<M: Medium + Clone>(&mut self, reader: &Reader<M>, file: u32) -> Result<Arc<TableReader>> {
        if let Some(table) = self.table.upgrade() {
            return Ok(table);
        }
        let table = reader.tables.reader(file)?;
        self.table = Arc::downgrade(&table);
        Ok(table)
    }

    /// The block at `location`, which it has turned to, from the disk; in a piece of up to `ahead_bytes`, or alone.
    pub(crate) fn read<M: Medium + Clone>(
        &mut self,
        reader: &Reader<M>,
        location: Location,
        ahead_bytes: Option<usize>,
        spare: &mut Option<Piece>,
    ) -> Result<Block> {
        let Some(ahead_bytes) = ahead_bytes.filter(|_| self.run > BLOCKS_ALONE) else {
            return reader.tables.read_block(location.file, location.place);
        };
        let table = self.table(reader, location.file)?;
        let piece = self.piece.get_or_insert_with(|| {
            let fitting = spare.take_if(|piece| piece.memory_bytes() <= ahead_bytes);
            fitting.unwrap_or_else(|| Piece::new(PIECE_BYTES_FIRST, PIECE_BYTES_MAX))
        });
        table.read_block_ahead(location.place, piece, ahead_bytes).or_else(|_| {
            // Something else in the piece may be what can't be read.
            self.let_go(spare);
            reader.tables.read_block(location.file, location.place)
        })
    }

    /// What the piece takes in memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.piece.as_ref().map_or(0, |piece| piece.memory_bytes() as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use slmdb_env::memory::{Failure, MemoryEnv, Repeat};

    use crate::recovery::open;
    use slmdb_engine::{CompactionOptions, CompactionPolicy, Engine, MapTables, Options, WriteBatch};

    const KEYS: u32 = 4000;

    fn entry(number: u32) -> (String, [u8; 100]) {
        (format!("key {number:05}"), [number as u8; 100])
    }

    /// A store of so many files, each of which has each so manieth key, and no cache.
    fn store(env: &MemoryEnv, files: u32) -> Arc<dyn Engine> {
        store_of(env, (0, 512), files, |number| number % files)
    }

    /// A store of so many files, and in which each key is; with this budget and blocks of this length.
    fn store_of(
        env: &MemoryEnv,
        (memory_budget_bytes, block_bytes): (u64, usize),
        files: u32,
        file_of: impl Fn(u32) -> u32,
    ) -> Arc<dyn Engine> {
        let compaction = CompactionOptions { policy: CompactionPolicy::Manual, ..CompactionOptions::default() };
        let (env, memtable_bytes) = (Arc::new(env.clone()), 1 << 20);
        // What is mapped is not read in pieces.
        let unmapped = Options { map_tables: MapTables::Never, ..Options::default() };
        let options = Options { env, compaction, memory_budget_bytes, memtable_bytes, block_bytes, ..unmapped };
        let engine = open::open(&options, Path::new("/db")).unwrap();
        for file in 0..files {
            let mut batch = WriteBatch::new();
            for (key, value) in (0..KEYS).filter(|number| file_of(*number) == file).map(entry) {
                batch.put(key, value).unwrap();
            }
            engine.write(&batch, false).unwrap();
            engine.flush().unwrap();
        }
        engine
    }

    /// All entries in order, or backwards.
    fn scan(engine: &Arc<dyn Engine>, backwards: bool) {
        let mut cursor = engine.cursor().unwrap();
        if backwards {
            cursor.seek_last().unwrap()
        } else {
            cursor.seek_first().unwrap()
        }
        for at in 0..KEYS {
            let (key, value) = entry(if backwards { KEYS - 1 - at } else { at });
            assert_eq!(cursor.key(), key.as_bytes());
            assert_eq!(cursor.value().unwrap()[..], value);
            if backwards { cursor.prev().unwrap() } else { cursor.next().unwrap() }
        }
        assert!(!cursor.valid());
    }

    /// How often files are read from for a scan of such a store.
    fn reads_of_a_scan(files: u32, backwards: bool) -> usize {
        let env = MemoryEnv::new();
        reads_of(&env, &store(&env, files), backwards)
    }

    fn reads_of(env: &MemoryEnv, engine: &Arc<dyn Engine>, backwards: bool) -> usize {
        let before = env.operation_count();
        scan(engine, backwards);
        let operations = env.operations();
        let since = operations.len() - (env.operation_count() - before) as usize;
        operations[since..].iter().filter(|operation| operation.starts_with("read ")).count()
    }

    #[test]
    fn what_lies_in_order_is_read_in_pieces_and_nothing_else_is() {
        let (blocks, in_order) = (reads_of_a_scan(1, true), reads_of_a_scan(1, false));
        assert!(blocks > 50, "{blocks}");
        assert!(in_order < blocks / 5, "{in_order} for {blocks} blocks");
        let taking_turns = reads_of_a_scan(2, false);
        assert!(taking_turns < blocks / 3, "{taking_turns} for {blocks} blocks");
    }

    #[test]
    fn many_files_in_order_are_read_in_pieces_as_one_is() {
        let (env, files) = (MemoryEnv::new(), 30);
        let engine = store_of(&env, (0, 512), files, |number| number * files / KEYS);
        let (blocks, reads) = (reads_of(&env, &engine, true), reads_of(&env, &engine, false));
        assert!(blocks > 10 * files as usize, "{blocks}");
        assert!(reads <= 3 * files as usize, "{reads} for {blocks} blocks");
    }

    #[test]
    fn where_more_files_take_turns_than_there_are_lanes_no_more_is_read_than_each_block() {
        for (files, keys_a_turn, block_bytes) in
            [(7, 1, 512), (30, 1, 512), (30, 6, 512), (60, 6, 512), (2, 1, 32 << 10)]
        {
            let any_file = |number: u32| {
                (u64::from(number / keys_a_turn + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) as u32 % files
            };
            let made = |env: &MemoryEnv| store_of(env, (16 << 20, block_bytes), files, any_file);
            let (env, other) = (MemoryEnv::new(), MemoryEnv::new());
            // Backwards each is read alone.
            let blocks = reads_of(&other, &made(&other), true);
            let reads = reads_of(&env, &made(&env), false);
            assert!(
                reads <= blocks + blocks / 8,
                "{files} files, {keys_a_turn} keys a turn: {reads} for {blocks} blocks"
            );
        }
    }

    #[test]
    fn a_piece_that_can_t_be_read_costs_nobody_a_block_that_can() {
        for failure in [Failure::Io, Failure::FlippedBit { seed: 5 }] {
            for passed in [0, 1, 2, 3] {
                let env = MemoryEnv::new();
                let engine = store(&env, 1);
                scan(&engine, true);
                env.fail_after(passed, "read ", failure, Repeat::Once);
                let mut cursor = engine.cursor().unwrap();
                cursor.seek_first().unwrap();
                let mut errors = 0;
                while cursor.valid() {
                    errors += usize::from(cursor.value().is_err());
                    cursor.next().unwrap();
                }
                assert_eq!(env.failures_struck(), 1);
                assert_eq!(errors > 0, passed == 0, "{failure:?} of read {passed}: {errors} errors");
            }
        }
    }
}
