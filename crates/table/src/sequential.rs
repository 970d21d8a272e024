//! [`SequentialReader`] and [`Piece`]: blocks in ascending order, for compaction, verification and long ranges.
//!
//! A table file is opened for reads at random, so the system reads nothing ahead, and block after block would cost a
//! device's full delay each. Here a large piece is taken at a time instead, and the blocks are cut from that. A caller
//! may leave out blocks; a long gap starts a new piece.

use slmdb_env::Result;

use crate::block::Block;
use crate::entry::{EntryKind, Place};
use crate::reader::TableReader;
use crate::single::{self, SingleEntry};
use crate::source::Source;

/// Reads blocks of one table file; quick if each is behind the one before. Lives on its own: it may outlast the
/// [`TableReader`] it comes from.
#[derive(Debug)]
pub struct SequentialReader {
    source: Source,
    pub(crate) piece: Piece,
}

impl SequentialReader {
    fn new(source: Source, window_bytes: usize) -> SequentialReader {
        SequentialReader { source, piece: Piece::new(window_bytes, window_bytes) }
    }

    /// The block at `place`; errors as [`TableReader::read_block`] has them.
    pub fn read_block(&mut self, place: Place) -> Result<Block> {
        self.piece.read_block(&self.source, place, usize::MAX)
    }

    /// The entry at `place`, if it stands there by itself, or the block that has it. Errors as [`TableReader::read_block`] has them.
    pub fn read(&mut self, place: Place) -> Result<Lent<'_>> {
        let (source, piece) = (&self.source, &mut self.piece);
        let stored = piece.read(source, place, usize::MAX)?;
        if !single::is_single(stored) {
            return source.block_of(stored, place).map(Lent::Block);
        }
        let SingleEntry { kind, sequence, key, value } =
            single::check(stored, source.identity, &source.path, place.offset)?;
        Ok(Lent::Entry { key: &stored[key], sequence, kind, value: &stored[value] })
    }

    /// What is stored at `place`, unchecked.
    pub(crate) fn stored(&mut self, place: Place) -> Result<&[u8]> {
        self.piece.read(&self.source, place, usize::MAX)
    }

    /// What this reader takes in memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.piece.memory_bytes()
    }
}

/// What a [`SequentialReader`] lends until it reads again.
#[derive(Debug)]
pub enum Lent<'a> {
    /// An entry that stands by itself.
    Entry {
        /// Its key.
        key: &'a [u8],
        /// The number of the write that made it.
        sequence: u64,
        /// What it does.
        kind: EntryKind,
        /// Its value; empty for a delete.
        value: &'a [u8],
    },
    /// A block.
    Block(Block),
}

/// A piece of a table file that was read at once, for one who may not go on for long. It does not keep the file open, so
/// its blocks are [asked of the table](TableReader::read_block_ahead).
#[derive(Debug)]
pub struct Piece {
    /// What is read at first, next time, and at most, in bytes.
    first_bytes: usize,
    next_bytes: usize,
    most_bytes: usize,
    bytes: Vec<u8>,
    /// How much of it holds what was read, from its beginning.
    filled_bytes: usize,
    /// Where in the file it starts.
    offset: u64,
}

impl Piece {
    /// An empty one. `first_bytes` are read at once, then twice as many each time, `most_bytes` in the end; only from there on the
    /// system is told what comes next. One block is read in any case, however long it is.
    pub fn new(first_bytes: usize, most_bytes: usize) -> Piece {
        Piece { first_bytes, next_bytes: first_bytes, most_bytes, bytes: Vec::new(), filled_bytes: 0, offset: 0 }
    }

    /// Nothing is in it any more, as if it were new; it keeps its memory, and may be used with another file.
    pub fn clear(&mut self) {
        (self.filled_bytes, self.next_bytes) = (0, self.first_bytes);
    }

    /// Whether the block can be had without reading from the file.
    pub fn holds(&self, place: Place) -> bool {
        self.within(place).is_some()
    }

    /// What it takes in memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// What is stored at `place`, if the piece has it.
    pub(crate) fn get(&self, place: Place) -> Option<&[u8]> {
        self.within(place).map(|range| &self.bytes[range])
    }

    fn read_block(&mut self, source: &Source, place: Place, limit_bytes: usize) -> Result<Block> {
        let stored = self.read(source, place, limit_bytes)?;
        source.block_of(stored, place)
    }

    /// What is stored at `place`.
    fn read(&mut self, source: &Source, place: Place, limit_bytes: usize) -> Result<&[u8]> {
        source.check(place)?;
        if !self.holds(place) {
            self.fill(source, place, limit_bytes)?;
        }
        let bytes = self.within(place).unwrap_or_default();
        Ok(&self.bytes[bytes])
    }

    /// Where the block lies in the piece, if it does.
    fn within(&self, place: Place) -> Option<std::ops::Range<usize>> {
        let start = u64::from(place.offset).checked_sub(self.offset)?;
        let start = usize::try_from(start).ok()?;
        let end = start.checked_add(place.length as usize)?;
        (end <= self.filled_bytes).then_some(start..end)
    }

    /// Reads the block and, up to the piece's length, what follows it.
    fn fill(&mut self, source: &Source, place: Place, limit_bytes: usize) -> Result<()> {
        let offset = u64::from(place.offset);
        let behind = usize::try_from(source.data_bytes() - offset).unwrap_or(usize::MAX);
        let wanted = self.next_bytes.min(limit_bytes);
        let length = wanted.min(behind).max(place.length as usize);
        let goes_on = wanted == self.most_bytes;
        self.next_bytes = wanted.saturating_mul(2).clamp(self.first_bytes, self.most_bytes);
        // What is there is read over, so it need not be zeroed; what one large block needed is not kept.
        if self.bytes.len() < length || self.bytes.len() > length.max(self.most_bytes) {
            self.bytes = vec![0; length];
        }
        (self.offset, self.filled_bytes) = (offset, 0);
        source.file.read_exact_at(&mut self.bytes[..length], offset)?;
        self.filled_bytes = length;
        if goes_on {
            // The next piece comes from the device while this one is worked on.
            let end = offset + length as u64;
            let behind_bytes = source.data_bytes().saturating_sub(end);
            source.file.advise_will_read(end, behind_bytes.min(self.most_bytes as u64));
        }
        Ok(())
    }
}

impl TableReader {
    /// A reader for many blocks in ascending order, which reads `window_bytes` at a time.
    pub fn sequential(&self, window_bytes: usize) -> SequentialReader {
        SequentialReader::new(self.source.clone(), window_bytes)
    }

    /// The block at `place`, from a piece of this file or an empty one; if it is not there, the piece that begins with it is read, of
    /// `limit_bytes` at most. Errors as [`TableReader::read_block`] has them, but that other blocks of the piece may be what
    /// could not be read.
    pub fn read_block_ahead(&self, place: Place, piece: &mut Piece, limit_bytes: usize) -> Result<Block> {
        piece.read_block(&self.source, place, limit_bytes)
    }
}

#[cfg(test)]
mod tests {
    use slmdb_order::KeyOrder;
    use slmdb_testkit::{Failure, MemoryEnv, Repeat};

    use super::*;
    use crate::{TableBuilder, TableOptions};

    /// A table whose values are all this byte, and the places of its blocks.
    fn table(env: &MemoryEnv, number: u32, byte: u8) -> (TableReader, Vec<Place>) {
        let path = format!("/{number}.table");
        let (options, order) = (TableOptions { block_bytes: 512, ..TableOptions::default() }, KeyOrder::Bytewise);
        let mut builder =
            TableBuilder::new_in_order(env, path.as_ref(), number, [7; 16], options, order.clone()).unwrap();
        for key in 0..100_u32 {
            builder.add(&key.to_be_bytes(), 1, EntryKind::Put, &[byte; 100]).unwrap();
        }
        builder.finish().unwrap();
        let reader = TableReader::open_in_order(env, path.as_ref(), number, [7; 16], order).unwrap();
        let keys = reader.key_section().unwrap();
        let mut places: Vec<Place> = keys.entries().map(|entry| entry.unwrap().place).collect();
        places.dedup();
        (reader, places)
    }

    #[test]
    fn a_piece_that_was_cleared_or_not_read_holds_nothing() {
        let env = MemoryEnv::new();
        let ((first, places), (second, others)) = (table(&env, 1, 1), table(&env, 2, 2));
        let mut piece = Piece::new(1 << 10, 1 << 14);
        let byte_of = |block: Block| block.entries().next().unwrap().unwrap().value[0];
        assert_eq!(byte_of(first.read_block_ahead(places[0], &mut piece, usize::MAX).unwrap()), 1);
        assert!(piece.holds(places[1]) && !piece.holds(*places.last().unwrap()));
        piece.clear();
        assert!(!piece.holds(places[0]));
        assert_eq!(byte_of(second.read_block_ahead(others[0], &mut piece, usize::MAX).unwrap()), 2);
        env.fail_after(0, "read ", Failure::Io, Repeat::Once);
        first.read_block_ahead(*places.last().unwrap(), &mut piece, usize::MAX).unwrap_err();
        assert!(!piece.holds(places[0]) && !piece.holds(*places.last().unwrap()));
        assert_eq!(byte_of(first.read_block_ahead(places[2], &mut piece, 0).unwrap()), 1);
        assert!(!piece.holds(places[3]), "no more than the limit allows");
    }
}
