//! [`ScanBuffers`]: what a cursor keeps of the table files that it scans.
//!
//! Where a store is out of order, neighbouring keys lie in different files. But within each file the cursor goes
//! forwards: some files take turns, and each goes on where it was left. So a cursor keeps a buffer for each of the last
//! files: the block that it had last, and what was read ahead behind it. A key in a buffered
//! block costs neither a read nor a look into the block cache, which all threads share.
//!
//! Entries that stand by themselves in mapped files do not come here: [`values_ahead`](super::values_ahead) has them.
//!
//! The memory is bounded. There are at most 24 buffers. Once they hold much, a buffer that the cursor leaves keeps
//! only what is small. The buffer that was left longest makes way for a new file. Where more files take turns than
//! there are buffers, pieces would be lost before they are used. So the first blocks of each turn are then read
//! alone, and the cache keeps them.

use slmdb_env::Result;
use slmdb_table::{Block, Piece};

use super::read_ahead::{PIECE_BYTES_FIRST, PIECE_BYTES_MAX, ReadAhead, SMALL_BYTES};
use super::temperature::Temperature;
use crate::files::location::Location;
use crate::files::table_cache::Tables;

/// Number of files that have a buffer, at most.
const FILES_MAX: usize = 24;
/// Once buffers hold more than this, one that the cursor leaves keeps only what is small.
const HELD_BYTES_MAX: u64 = 1 << 20;
/// After a buffer has made way for another, there count as too few for this many turns.
const CROWDED_TURNS: u64 = 2 * FILES_MAX as u64;
/// It makes no difference if that buffer was left longer ago than this.
const LEFT_LONG_AGO_TURNS: u64 = 8 * FILES_MAX as u64;
/// While there are too few buffers, this many blocks of each turn are read alone.
const CROWDED_BLOCKS_ALONE: u32 = 2;

/// Counts the seeks of cursors.
pub trait SeekCounter {
    /// Counts a seek: a cursor has moved to this file, and no buffer or cache had the block that it needs.
    fn count_seek(&self, file: u32);
}

/// What a cursor keeps of the table files that it scans.
#[derive(Debug, Default)]
pub struct ScanBuffers {
    /// The files of the buffers. They are apart, so that one is found quickly.
    files: Vec<u32>,
    /// The turn in which the cursor was last at each.
    last_turns: Vec<u64>,
    buffers: Vec<FileBuffer>,
    /// The buffer that the cursor is at.
    current: usize,
    /// How often the cursor has moved to another buffer.
    turns: u64,
    /// Blocks fetched in this turn, and reads from the disk for them.
    fetches: u32,
    reads: u32,
    /// Until this turn there count as too few buffers.
    crowded_until: u64,
    /// A piece that is not in use.
    spare: Option<Piece>,
    /// Memory of blocks and pieces in bytes.
    held_bytes: u64,
    /// Whether what is not in a buffer comes from the disk.
    pub temperature: Temperature,
}

/// What is kept of one file.
#[derive(Debug, Default)]
struct FileBuffer {
    /// The last block, and its offset in the file.
    block: Option<(u32, Block)>,
    ahead: ReadAhead,
}

impl FileBuffer {
    fn memory_bytes(&self) -> u64 {
        self.block.as_ref().map_or(0, |(_, block)| block.memory_bytes() as u64) + self.ahead.memory_bytes()
    }
}

impl ScanBuffers {
    /// Empty buffers. `temperature` is as the last cursor has found it.
    pub fn new(temperature: Temperature) -> ScanBuffers {
        ScanBuffers { temperature, ..ScanBuffers::default() }
    }

    /// The block at `location`, if it is the last of its file.
    #[inline]
    pub fn block(&mut self, location: Location) -> Option<&Block> {
        let index = self.find(location.file)?;
        let has_it = |(offset, _): &(u32, Block)| *offset == location.place.offset;
        if !self.buffers[index].block.as_ref().is_some_and(has_it) {
            return None;
        }
        self.move_to(index);
        self.buffers[index].block.as_ref().map(|(_, block)| block)
    }

    /// The block at `location`: from what was read ahead, from the cache, or from the disk. It is then the last of its
    /// file.
    pub fn fetch(&mut self, tables: &Tables, seeks: &impl SeekCounter, location: Location) -> Result<Block> {
        let (file, place) = (location.file, location.place);
        let comes_from_another = self.files.get(self.current) != Some(&file);
        let index = self.buffer_of(file);
        self.move_to(index);
        self.fetches = self.fetches.saturating_add(1);
        let is_crowded = self.turns < self.crowded_until;
        let is_first = self.reads == 0;
        let ahead_bytes = if is_crowded && self.fetches <= CROWDED_BLOCKS_ALONE {
            None
        } else if is_first {
            Some(self.temperature.limit_bytes(file, place, PIECE_BYTES_FIRST))
        } else {
            Some(PIECE_BYTES_MAX)
        };
        // Only the first read of a turn is timed: later ones come in longer pieces, which take time from memory, too.
        let is_timed = is_first && self.temperature.is_read_to_be_timed();
        let (mut reads, mut took_ns, mut is_sought) = (0, None, false);
        let block = self.change(index, |buffer, spare| {
            buffer.block = None;
            buffer.ahead.move_to(place, spare);
            let found = match buffer.ahead.buffered(place) {
                None => buffer.ahead.mapped(tables, location, &mut is_sought)?,
                buffered => buffered,
            };
            let block = match found.or_else(|| tables.cached_block(file, place)) {
                Some(block) => block,
                None => {
                    is_sought = true;
                    reads = 1;
                    let start_ns = is_timed.then(|| tables.clock_ns());
                    let block = buffer.ahead.read(tables, location, ahead_bytes, spare);
                    took_ns = start_ns.map(|start_ns| tables.clock_ns() - start_ns);
                    block?
                }
            };
            buffer.block = Some((place.offset, block.clone()));
            Ok(block)
        });
        if is_sought && comes_from_another {
            seeks.count_seek(file);
        }
        self.reads = self.reads.saturating_add(reads);
        if reads > 0 && is_first {
            self.temperature.record_read(place, took_ns);
        }
        block
    }

    /// Whether the cursor has read from its file more than once in this turn. The file is then scanned in order.
    #[inline]
    pub fn is_in_order(&self) -> bool {
        self.reads > 1
    }

    #[inline]
    fn find(&self, file: u32) -> Option<usize> {
        if self.files.get(self.current) == Some(&file) {
            return Some(self.current);
        }
        self.files.iter().position(|&its| its == file)
    }

    /// The buffer of this file, perhaps a new one.
    fn buffer_of(&mut self, file: u32) -> usize {
        if let Some(index) = self.find(file) {
            return index;
        }
        if self.buffers.len() < FILES_MAX {
            if self.buffers.is_empty() {
                self.files.reserve(FILES_MAX);
                self.last_turns.reserve(FILES_MAX);
                self.buffers.reserve(FILES_MAX / 3);
            }
            self.files.push(file);
            self.last_turns.push(0);
            self.buffers.push(FileBuffer::default());
            return self.buffers.len() - 1;
        }
        let longest_left = (0..self.last_turns.len()).min_by_key(|&index| self.last_turns[index]).unwrap_or_default();
        self.change(longest_left, |buffer, spare| {
            buffer.ahead.clear(spare);
            *buffer = FileBuffer::default();
        });
        self.files[longest_left] = file;
        if self.turns - self.last_turns[longest_left] < LEFT_LONG_AGO_TURNS {
            self.crowded_until = self.turns + CROWDED_TURNS;
        }
        longest_left
    }

    /// Makes this buffer the current one.
    #[inline]
    fn move_to(&mut self, index: usize) {
        if index != self.current {
            if self.current < self.buffers.len() && self.held_bytes > HELD_BYTES_MAX {
                self.change(self.current, |left, spare| {
                    left.block.take_if(|(_, block)| block.memory_bytes() > SMALL_BYTES);
                    left.ahead.shrink(spare);
                });
            }
            (self.current, self.fetches, self.reads) = (index, 0, 0);
            self.turns += 1;
        }
        self.last_turns[index] = self.turns;
    }

    /// Changes a buffer or the spare piece, and counts their memory.
    fn change<T>(&mut self, index: usize, change: impl FnOnce(&mut FileBuffer, &mut Option<Piece>) -> T) -> T {
        let bytes = |buffer: &FileBuffer, spare: &Option<Piece>| {
            buffer.memory_bytes() + spare.as_ref().map_or(0, |piece| piece.memory_bytes() as u64)
        };
        let (buffer, spare) = (&mut self.buffers[index], &mut self.spare);
        let before = bytes(buffer, spare);
        let result = change(buffer, spare);
        self.held_bytes = self.held_bytes + bytes(buffer, spare) - before;
        result
    }

    /// Prepares for a seek, after which the next key may lie anywhere: only the current file keeps what was read
    /// ahead.
    pub fn prepare_seek(&mut self) {
        let current = self.current;
        for index in (0..self.buffers.len()).filter(|&index| index != current) {
            self.change(index, |buffer, spare| buffer.ahead.clear(spare));
        }
    }

    /// Memory of all of it in bytes.
    pub fn memory_bytes(&self) -> u64 {
        let buffer_bytes = size_of::<FileBuffer>() + size_of::<u32>() + size_of::<u64>();
        self.held_bytes + (self.buffers.capacity() * buffer_bytes) as u64
    }
}
