//! [`SequentialReader`]: blocks in ascending order, for compaction, verification and long ranges.
//!
//! A table file is opened for reads at random, so the system reads nothing ahead, and block after block would cost a
//! device's full delay each. This reader takes a large piece at a time instead and cuts the blocks from that. A caller
//! may leave out blocks; a long gap starts a new piece.

use slmdb_env::Result;

use crate::block::Block;
use crate::entry::Place;
use crate::reader::Source;

/// Reads blocks of one table file; quick if each is behind the one before. Lives on its own: it may outlast the
/// [`TableReader`](crate::TableReader) it comes from.
#[derive(Debug)]
pub struct SequentialReader {
    source: Source,
    /// What is read next time, and at most, in bytes.
    next_bytes: usize,
    window_bytes: usize,
    window: Vec<u8>,
    /// How much of the window holds what was read, from its beginning.
    filled_bytes: usize,
    /// Where in the file the window starts.
    window_offset: u64,
}

impl SequentialReader {
    pub(crate) fn new(source: Source, first_bytes: usize, window_bytes: usize) -> SequentialReader {
        SequentialReader {
            source,
            next_bytes: first_bytes,
            window_bytes,
            window: Vec::new(),
            filled_bytes: 0,
            window_offset: 0,
        }
    }

    /// The same with memory for its window, from one that is done.
    pub fn with_memory(self, window: Vec<u8>) -> SequentialReader {
        SequentialReader { window, filled_bytes: 0, ..self }
    }

    /// The memory of its window, for the next.
    pub fn into_memory(self) -> Vec<u8> {
        self.window
    }

    /// The block at `place`; errors as [`TableReader::read_block`](crate::TableReader::read_block) has them.
    pub fn read_block(&mut self, place: Place) -> Result<Block> {
        self.source.check(place)?;
        if let Some(bytes) = self.within_window(place) {
            return self.source.block_of(&self.window[bytes], place);
        }
        self.fill(place)?;
        let bytes = self.within_window(place).unwrap_or_default();
        self.source.block_of(&self.window[bytes], place)
    }

    /// Whether the block can be had without reading from the file.
    pub fn holds(&self, place: Place) -> bool {
        self.within_window(place).is_some()
    }

    /// What this reader takes in memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.window.capacity()
    }

    /// Where the block lies in the window, if it does.
    fn within_window(&self, place: Place) -> Option<std::ops::Range<usize>> {
        let start = u64::from(place.offset).checked_sub(self.window_offset)?;
        let start = usize::try_from(start).ok()?;
        let end = start.checked_add(place.length as usize)?;
        (end <= self.filled_bytes).then_some(start..end)
    }

    /// Reads the block and, up to the window's length, what follows it.
    fn fill(&mut self, place: Place) -> Result<()> {
        let offset = u64::from(place.offset);
        let behind = usize::try_from(self.source.data_bytes() - offset).unwrap_or(usize::MAX);
        let length = self.next_bytes.min(behind).max(place.length as usize);
        let goes_on = self.next_bytes == self.window_bytes;
        self.next_bytes = (2 * self.next_bytes).min(self.window_bytes);
        // What is in the window is read over, so it need not be zeroed; a window that one large block needed is not kept.
        if self.window.len() < length || self.window.len() > length.max(self.window_bytes) {
            self.window = vec![0; length];
        }
        self.window_offset = offset;
        let read = self.source.file.read_exact_at(&mut self.window[..length], offset);
        self.filled_bytes = if read.is_ok() { length } else { 0 };
        if read.is_ok() && goes_on {
            // The next piece comes from the device while this one is worked on.
            let end = offset + length as u64;
            let behind_bytes = self.source.data_bytes().saturating_sub(end);
            self.source.file.advise_will_read(end, behind_bytes.min(self.window_bytes as u64));
        }
        read
    }
}
