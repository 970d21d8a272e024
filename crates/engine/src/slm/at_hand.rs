//! What a cursor has at hand of the table files that it goes through.
//!
//! Where a store is out of order, neighbouring keys lie in different files, but in each of these the cursor goes forwards: a few
//! files take turns, and each goes on where it was left. So a cursor keeps a **lane** for each of the last few files: the block that it had
//! last, and what was [read ahead](super::read_ahead) behind it. A key whose block is at hand costs neither a look into the
//! block cache, which all share, nor a read.
//!
//! What is at hand is bounded: so many lanes, and of a lane that the cursor has left only what is small. Lanes that were left
//! longest make place for others.

use slmdb_env::Result;
use slmdb_pmem::Medium;
use slmdb_table::Block;

use super::read_ahead::ReadAhead;
use super::snapshots::Location;
use super::store::Store;

/// How many files a cursor has a lane for.
const LANES_MAX: usize = 8;
/// A block that takes more is let go when the cursor turns to another file, in bytes.
const LEFT_BLOCK_BYTES_MAX: usize = 64 << 10;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct AtHand {
    lanes: Vec<Lane>,
    /// Which lane the cursor turned to last.
    present: usize,
    /// How often the cursor has turned to another lane.
    turns: u64,
    /// Memory of a piece that was let go, for the next.
    spare: Vec<u8>,
}

#[derive(Debug)]
struct Lane {
    file: u32,
    /// The last block: its offset in the file, and itself.
    block: Option<(u32, Block)>,
    ahead: ReadAhead,
    /// When the cursor turned to it last, in turns.
    turned_to: u64,
}

impl Lane {
    fn memory_bytes(&self) -> u64 {
        self.block.as_ref().map_or(0, |(_, block)| block.memory_bytes() as u64) + self.ahead.memory_bytes()
    }
}

impl AtHand {
    /// The block at `location`, if it is the last of its file.
    pub(super) fn block(&mut self, location: Location) -> Option<&Block> {
        let is_its = |lane: &Lane| {
            lane.file == location.file
                && lane.block.as_ref().is_some_and(|(offset, _)| *offset == location.place.offset)
        };
        let index = if self.lanes.get(self.present).is_some_and(is_its) {
            self.present
        } else {
            self.lanes.iter().position(is_its)?
        };
        self.turn_to(index);
        self.lanes[index].block.as_ref().map(|(_, block)| block)
    }

    /// The block at `location`: from what was read ahead, from the cache, or from the disk; then it is the last of its file.
    pub(super) fn fetch<M: Medium + Clone>(&mut self, store: &Store<M>, location: Location) -> Result<&Block> {
        let (file, place) = (location.file, location.place);
        let is_another = self.lanes.get(self.present).is_none_or(|lane| lane.file != file);
        let index = self.lane_of(file);
        let lanes = self.lanes.len();
        self.turn_to(index);
        let lane = &mut self.lanes[index];
        lane.block = None;
        lane.ahead.turn_to(place, &mut self.spare);
        let block = match lane.ahead.at_hand(place).or_else(|| store.tables.cached_block(file, place)) {
            Some(block) => block,
            None => {
                if is_another {
                    store.file_sought(file);
                }
                lane.ahead.read(store, location, lanes, &mut self.spare)?
            }
        };
        Ok(&lane.block.insert((place.offset, block)).1)
    }

    /// The lane of this file, perhaps a new one.
    fn lane_of(&mut self, file: u32) -> usize {
        if let Some(index) = self.lanes.iter().position(|lane| lane.file == file) {
            return index;
        }
        let lane = Lane { file, block: None, ahead: ReadAhead::default(), turned_to: 0 };
        if self.lanes.len() < LANES_MAX {
            self.lanes.reserve_exact(LANES_MAX - self.lanes.len());
            self.lanes.push(lane);
            return self.lanes.len() - 1;
        }
        let longest_left = (0..self.lanes.len()).min_by_key(|&index| self.lanes[index].turned_to).unwrap_or_default();
        self.lanes[longest_left].ahead.let_go(&mut self.spare);
        self.lanes[longest_left] = lane;
        longest_left
    }

    fn turn_to(&mut self, index: usize) {
        if index != self.present {
            if let Some(left) = self.lanes.get_mut(self.present) {
                left.block.take_if(|(_, block)| block.memory_bytes() > LEFT_BLOCK_BYTES_MAX);
                left.ahead.leave();
            }
            self.present = index;
            self.turns += 1;
        }
        self.lanes[index].turned_to = self.turns;
    }

    /// The cursor goes to a place that may not follow from where it was: what was read ahead of other files than the last is let
    /// go, and files that a compaction has removed with it.
    pub(super) fn set_out(&mut self) {
        for (index, lane) in self.lanes.iter_mut().enumerate() {
            if index != self.present {
                lane.ahead.let_go(&mut self.spare);
            }
        }
    }

    /// What all of it takes in memory, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.lanes.iter().map(Lane::memory_bytes).sum::<u64>() + self.spare.capacity() as u64
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use slmdb_env::memory::{MemoryEnv, Random};

    use crate::slm::open;
    use crate::{CompactionOptions, CompactionPolicy, Options, WriteBatch};

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
        assert_eq!(engine.stats().memory.cursors_bytes, 0);
    }
}
