//! [`ReadAhead`]: reads a file that is scanned in order in pieces instead of block by block.
//!
//! A cursor that has read some blocks of one file, each beginning where the one before ended, will most likely go on
//! so, even if other files have their turns between. From there it reads a piece of the file at a time and cuts the
//! blocks from that. The first pieces are short. So a range of a hundred keys takes a handful of reads, and a long scan
//! waits for the device once for each 128 KiB. Where files take turns, pieces stay short.
//!
//! Blocks that come in pieces do not go into the block cache: a scan of the whole store would leave nothing else in
//! it. Blocks that are in the cache already are taken from there, unless they came with a piece.
//!
//! A piece that can't be read is given up, and the block is read alone. So damage behind a block fails only the reads
//! that need what is damaged.
//!
//! Nothing is read ahead of a file that is mapped and in memory. Its blocks are taken from the mapping one by one.
//!
//! A piece does not keep its file open. A compaction may remove the file meanwhile; then the rest of the piece is not
//! used.

use std::sync::{Arc, Weak};

use slmdb_env::Result;
use slmdb_table::{Block, Piece, Place, TableReader};

use crate::files::location::Location;
use crate::files::table_cache::Tables;

/// This many blocks in a row are read one by one before pieces are read. With two, ranges of a hundred keys take a
/// tenth more time in order.
const BLOCKS_ALONE: u32 = 1;
/// Length of a piece: at first, and at most. It doubles each time.
pub(super) const PIECE_BYTES_FIRST: usize = 16 << 10;
pub(super) const PIECE_BYTES_MAX: usize = 128 << 10;
/// A piece, or a block, that takes no more memory than this is small.
pub(super) const SMALL_BYTES: usize = PIECE_BYTES_FIRST + (1 << 10);
/// A block follows the one before if the gap between them is no longer than this. The gap is garbage.
const GAP_BYTES_MAX: u64 = 16 << 10;

/// What was read ahead of one file.
#[derive(Debug, Default)]
pub(super) struct ReadAhead {
    /// Where the current block ends.
    end: u64,
    /// How many blocks followed each other.
    run: u32,
    piece: Option<Piece>,
    /// The file.
    table: Weak<TableReader>,
}

impl ReadAhead {
    /// Makes this block of the file the current one. `spare` takes a piece that is no longer needed.
    pub(super) fn move_to(&mut self, place: Place, spare: &mut Option<Piece>) {
        let gap_bytes = u64::from(place.offset).checked_sub(self.end);
        if self.run > 0 && gap_bytes.is_some_and(|bytes| bytes <= GAP_BYTES_MAX) {
            self.run = self.run.saturating_add(1);
        } else if !self.piece.as_ref().is_some_and(|piece| piece.holds(place)) {
            self.clear(spare);
            self.run = 1;
        }
        self.end = place.end();
    }

    /// Keeps the piece only if it is short.
    pub(super) fn shrink(&mut self, spare: &mut Option<Piece>) {
        if self.memory_bytes() > SMALL_BYTES as u64 {
            self.give_up_piece(spare);
        }
    }

    /// Forgets what was read ahead: the next block does not follow.
    pub(super) fn clear(&mut self, spare: &mut Option<Piece>) {
        self.run = 0;
        self.give_up_piece(spare);
    }

    /// Makes the piece the spare one, unless a large block has made it too long for that.
    fn give_up_piece(&mut self, spare: &mut Option<Piece>) {
        if let Some(mut piece) = self.piece.take().filter(|piece| piece.memory_bytes() <= PIECE_BYTES_MAX) {
            piece.clear();
            *spare = Some(piece);
        }
    }

    /// The current block, if it is in the piece and sound. This needs no look into the block cache, which took an
    /// eighth of the time of a range of a hundred keys.
    pub(super) fn buffered(&mut self, place: Place) -> Option<Block> {
        let piece = self.piece.as_mut().filter(|piece| piece.holds(place))?;
        self.table.upgrade()?.read_block_ahead(place, piece, 0).ok()
    }

    /// The current block, if the file is mapped and has it in memory. Sets `is_sought` if it came from the mapping and
    /// not from the cache. The cache keeps only blocks that had to be unpacked, and not those of a run.
    pub(super) fn mapped(
        &mut self,
        tables: &Tables,
        location: Location,
        is_sought: &mut bool,
    ) -> Result<Option<Block>> {
        if !tables.are_mapped() {
            return Ok(None);
        }
        let table = self.table(tables, location.file)?;
        if let Some(block) = tables.unpacked_block(&table, location.place) {
            return Ok(Some(block));
        }
        let block = tables.mapped_block(&table, location.place, self.run <= BLOCKS_ALONE)?;
        *is_sought = block.is_some();
        Ok(block)
    }

    fn table(&mut self, tables: &Tables, file: u32) -> Result<Arc<TableReader>> {
        if let Some(table) = self.table.upgrade() {
            return Ok(table);
        }
        let table = tables.reader(file)?;
        self.table = Arc::downgrade(&table);
        Ok(table)
    }

    /// The current block, from the disk: in a piece of up to `ahead_bytes`, or alone.
    pub(super) fn read(
        &mut self,
        tables: &Tables,
        location: Location,
        ahead_bytes: Option<usize>,
        spare: &mut Option<Piece>,
    ) -> Result<Block> {
        let Some(ahead_bytes) = ahead_bytes.filter(|_| self.run > BLOCKS_ALONE) else {
            return tables.read_block(location.file, location.place);
        };
        let table = self.table(tables, location.file)?;
        let piece = self.piece.get_or_insert_with(|| {
            let fitting = spare.take_if(|piece| piece.memory_bytes() <= ahead_bytes);
            fitting.unwrap_or_else(|| Piece::new(PIECE_BYTES_FIRST, PIECE_BYTES_MAX))
        });
        table.read_block_ahead(location.place, piece, ahead_bytes).or_else(|_| {
            // Another part of the piece may be what can't be read.
            self.clear(spare);
            tables.read_block(location.file, location.place)
        })
    }

    /// Memory of the piece in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.piece.as_ref().map_or(0, |piece| piece.memory_bytes() as u64)
    }
}
