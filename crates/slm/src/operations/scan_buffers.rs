//! What a cursor has at hand of the table files that it goes through.
//!
//! Where a store is out of order, neighbouring keys lie in different files, but in each of these the cursor goes forwards: some
//! files take turns, and each goes on where it was left. So a cursor keeps a **lane** for each of the last files: the block
//! that it had last, and what was [read ahead](crate::operations::read_ahead) behind it. A key whose block is at hand costs
//! neither a look into the block cache, which all share, nor a read.
//!
//! Entries that stand by themselves in mapped files are none of its business: see [`crate::operations::values_ahead`].
//!
//! What is at hand is bounded: so many lanes, and where all of them have much, of one that the cursor leaves only what is small. Lanes
//! that were left longest make place for others. Where more files take turns than there are lanes, what was read ahead would be
//! lost before it is needed: then the first blocks of a turn are read alone, and the cache remembers them.

use slmdb_engine::files::location::Location;
use slmdb_env::Result;
use slmdb_pmem::Medium;
use slmdb_table::{Block, Piece};

use crate::operations::ask_ahead::Temperature;
use crate::operations::get::Reader;
use crate::operations::read_ahead::{PIECE_BYTES_FIRST, PIECE_BYTES_MAX, ReadAhead, SMALL_BYTES};

/// How many files a cursor has a lane for.
const LANES_MAX: usize = 24;
/// Where more than this is at hand, in bytes, a lane is left only with what is small.
const HELD_BYTES_MAX: u64 = 1 << 20;
/// After a lane has made place for another, the lanes count as too few for so many turns; unless it was left so long
/// ago.
const CROWDED_TURNS: u64 = 2 * LANES_MAX as u64;
const LEFT_LONG_AGO_TURNS: u64 = 8 * LANES_MAX as u64;
/// Where the lanes are too few, so many blocks of each turn are read alone.
const CROWDED_BLOCKS_ALONE: u32 = 2;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct ScanBuffers {
    /// The files of the lanes; apart, so that one is found quickly.
    files: Vec<u32>,
    /// When the cursor turned last to each, in turns.
    turned_to: Vec<u64>,
    lanes: Vec<Lane>,
    /// Which lane the cursor turned to last.
    present: usize,
    /// How often the cursor has turned to another lane.
    turns: u64,
    /// How many blocks it has asked for in this turn, and how often something was read for that.
    fetches: u32,
    reads: u32,
    crowded_until: u64,
    /// A piece that was let go, for the next.
    spare: Option<Piece>,
    /// What blocks and pieces take, in bytes.
    held_bytes: u64,
    /// Whether what is not at hand comes from the disk.
    pub(crate) temperature: Temperature,
}

/// What there is of one file.
#[derive(Debug, Default)]
struct Lane {
    /// The last block: its offset in the file, and itself.
    block: Option<(u32, Block)>,
    ahead: ReadAhead,
}

impl Lane {
    fn memory_bytes(&self) -> u64 {
        self.block.as_ref().map_or(0, |(_, block)| block.memory_bytes() as u64) + self.ahead.memory_bytes()
    }
}

impl ScanBuffers {
    /// Nothing, in a store that was so the last time.
    pub(crate) fn new(temperature: Temperature) -> ScanBuffers {
        ScanBuffers { temperature, ..ScanBuffers::default() }
    }

    /// The block at `location`, if it is the last of its file.
    pub(crate) fn block(&mut self, location: Location) -> Option<&Block> {
        let index = self.find(location.file)?;
        let has_it = |(offset, _): &(u32, Block)| *offset == location.place.offset;
        if !self.lanes[index].block.as_ref().is_some_and(has_it) {
            return None;
        }
        self.turn_to(index);
        self.lanes[index].block.as_ref().map(|(_, block)| block)
    }

    /// The block at `location`: from what was read ahead, from the cache, or from the disk; then it is the last of its file.
    pub(crate) fn fetch<M: Medium + Clone>(&mut self, reader: &Reader<M>, location: Location) -> Result<Block> {
        let (file, place) = (location.file, location.place);
        let comes_from_another = self.files.get(self.present) != Some(&file);
        let index = self.lane_of(file);
        self.turn_to(index);
        self.fetches = self.fetches.saturating_add(1);
        let is_crowded = self.turns < self.crowded_until;
        let ahead_bytes = if is_crowded && self.fetches <= CROWDED_BLOCKS_ALONE {
            None
        } else if self.reads == 0 {
            Some(self.temperature.limit(file, place, PIECE_BYTES_FIRST))
        } else {
            Some(PIECE_BYTES_MAX)
        };
        // What follows it in this turn comes in longer pieces, which take their time from memory, too.
        let is_first = self.reads == 0;
        let is_timed = is_first && self.temperature.wants_to_know();
        let (mut reads, mut took_ns, mut is_sought) = (0, None, false);
        let block = self.change(index, |lane, spare| {
            lane.block = None;
            lane.ahead.turn_to(place, spare);
            let found = match lane.ahead.at_hand(place) {
                None => lane.ahead.mapped(reader, location, &mut is_sought)?,
                at_hand => at_hand,
            };
            let block = match found.or_else(|| reader.tables.cached_block(file, place)) {
                Some(block) => block,
                None => {
                    is_sought = true;
                    reads = 1;
                    let start_ns = is_timed.then(|| reader.context.env.monotonic_ns());
                    let block = lane.ahead.read(reader, location, ahead_bytes, spare);
                    took_ns = start_ns.map(|start_ns| reader.context.env.monotonic_ns() - start_ns);
                    block?
                }
            };
            lane.block = Some((place.offset, block.clone()));
            Ok(block)
        });
        if is_sought && comes_from_another {
            reader.naming.file_sought(file);
        }
        self.reads = self.reads.saturating_add(reads);
        if reads > 0 && is_first {
            self.temperature.read(place, took_ns);
        }
        block
    }

    /// Whether a file is gone through in order: the cursor has read from it more than once since it has turned to it.
    pub(crate) fn goes_through_a_file(&self) -> bool {
        self.reads > 1
    }

    fn find(&self, file: u32) -> Option<usize> {
        if self.files.get(self.present) == Some(&file) {
            return Some(self.present);
        }
        self.files.iter().position(|&its| its == file)
    }

    /// The lane of this file, perhaps a new one.
    fn lane_of(&mut self, file: u32) -> usize {
        if let Some(index) = self.find(file) {
            return index;
        }
        if self.lanes.len() < LANES_MAX {
            if self.lanes.is_empty() {
                self.files.reserve(LANES_MAX);
                self.turned_to.reserve(LANES_MAX);
                self.lanes.reserve(LANES_MAX / 3);
            }
            self.files.push(file);
            self.turned_to.push(0);
            self.lanes.push(Lane::default());
            return self.lanes.len() - 1;
        }
        let longest_left = (0..self.turned_to.len()).min_by_key(|&index| self.turned_to[index]).unwrap_or_default();
        self.change(longest_left, |lane, spare| {
            lane.ahead.let_go(spare);
            *lane = Lane::default();
        });
        self.files[longest_left] = file;
        if self.turns - self.turned_to[longest_left] < LEFT_LONG_AGO_TURNS {
            self.crowded_until = self.turns + CROWDED_TURNS;
        }
        longest_left
    }

    fn turn_to(&mut self, index: usize) {
        if index != self.present {
            if self.present < self.lanes.len() && self.held_bytes > HELD_BYTES_MAX {
                self.change(self.present, |left, spare| {
                    left.block.take_if(|(_, block)| block.memory_bytes() > SMALL_BYTES);
                    left.ahead.leave(spare);
                });
            }
            (self.present, self.fetches, self.reads) = (index, 0, 0);
            self.turns += 1;
        }
        self.turned_to[index] = self.turns;
    }

    /// Changes a lane or the spare piece, and counts what they take then.
    fn change<T>(&mut self, index: usize, change: impl FnOnce(&mut Lane, &mut Option<Piece>) -> T) -> T {
        let bytes = |lane: &Lane, spare: &Option<Piece>| {
            lane.memory_bytes() + spare.as_ref().map_or(0, |piece| piece.memory_bytes() as u64)
        };
        let (lane, spare) = (&mut self.lanes[index], &mut self.spare);
        let before = bytes(lane, spare);
        let result = change(lane, spare);
        self.held_bytes = self.held_bytes + bytes(lane, spare) - before;
        result
    }

    /// The cursor goes to a place that may not follow from where it was: what was read ahead of other files than the last is let
    /// go.
    pub(crate) fn set_out(&mut self) {
        let present = self.present;
        for index in (0..self.lanes.len()).filter(|&index| index != present) {
            self.change(index, |lane, spare| lane.ahead.let_go(spare));
        }
    }

    /// What all of it takes in memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let lane_bytes = size_of::<Lane>() + size_of::<u32>() + size_of::<u64>();
        self.held_bytes + (self.lanes.capacity() * lane_bytes) as u64
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use slmdb_env::memory::{MemoryEnv, Random};

    use crate::recovery::open;
    use slmdb_engine::{CompactionOptions, CompactionPolicy, Options, WriteBatch};

    const LARGE_BYTES: usize = 1 << 20;

    #[test]
    fn of_files_that_were_left_only_what_is_small_is_kept() {
        let env = MemoryEnv::new();
        let compaction = CompactionOptions { policy: CompactionPolicy::Manual, ..CompactionOptions::default() };
        let options = Options { env: Arc::new(env.clone()), compaction, memory_budget_bytes: 0, ..Options::default() };
        let engine = open::open(&options, Path::new("/db")).unwrap();
        let mut value = vec![0; LARGE_BYTES];
        Random(7).fill(&mut value);
        for file in 0..4 {
            let mut batch = WriteBatch::new();
            for round in 0..5 {
                batch.put(format!("key {round} {file}"), &value).unwrap();
            }
            engine.write(&batch, false).unwrap();
            engine.flush().unwrap();
        }
        let mut cursor = engine.cursor().unwrap();
        cursor.seek_first().unwrap();
        let (mut keys, mut most_bytes) = (0, 0);
        while cursor.valid() {
            assert_eq!(cursor.value().unwrap()[..], value);
            most_bytes = engine.stats().memory.cursors_bytes.max(most_bytes);
            cursor.next().unwrap();
            keys += 1;
        }
        assert_eq!(keys, 20);
        // The present block, and the piece that it was cut from.
        assert!(most_bytes < 5 * LARGE_BYTES as u64 / 2, "{most_bytes}");
        drop(cursor);
        let mut batch = WriteBatch::new();
        batch.put("small", "1").unwrap();
        batch.put("small, too", "2").unwrap();
        engine.write(&batch, false).unwrap();
        engine.flush().unwrap();
        let mut cursor = engine.cursor().unwrap();
        for (key, largest_bytes) in [("small", 0), ("key 1 1", LARGE_BYTES), ("small, too", 0)] {
            cursor.seek(key.as_bytes()).unwrap();
            cursor.value().unwrap();
            let cursors_bytes = engine.stats().memory.cursors_bytes;
            assert!(cursors_bytes < largest_bytes as u64 + (64 << 10), "at {key}: {cursors_bytes}");
        }
        drop(cursor);
        assert_eq!(engine.stats().memory.cursors_bytes, 0);
    }
}
