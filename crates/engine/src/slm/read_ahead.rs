//! Reading ahead: where a range lies in order, its blocks come in pieces instead of one by one.
//!
//! A cursor that has read some blocks of one file each of which began where the one before ended will most likely go on so. From
//! there it reads a piece of the file at a time, short ones first, and cuts the blocks from that: a range of a hundred keys takes
//! a handful of reads, and a long one waits for the device once for each 128 KiB. Blocks that come so do not go into
//! the block cache: a scan of the whole store would leave nothing else in it. (What is in the cache is taken from
//! there.) In a store that is out of order blocks do not follow each other, and nothing is read that is not needed.
//!
//! The piece's file stays open until the cursor turns to another place, even if a compaction has removed it.

use slmdb_env::Result;
use slmdb_pmem::Medium;
use slmdb_table::{Block, Place, SequentialReader};

use super::snapshots::Location;
use super::store::Store;

/// So many blocks in a row are read one by one.
const BLOCKS_ALONE: u32 = 2;
/// What is read at once from then on, in bytes: at first, and at most (it doubles each time).
const PIECE_BYTES_FIRST: usize = 16 << 10;
const PIECE_BYTES_MAX: usize = 128 << 10;
/// A block that begins so much behind the end of the one before still follows it: what is between is garbage.
const GAP_BYTES_MAX: u64 = 16 << 10;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct ReadAhead {
    /// The file that the cursor has turned to last.
    file: u32,
    /// Where the block ended that it has turned to last.
    end: u64,
    /// How many blocks followed each other.
    run: u32,
    reader: Option<SequentialReader>,
}

impl ReadAhead {
    /// The cursor turns to this block.
    pub(super) fn turn_to(&mut self, file: u32, place: Place) {
        let gap_bytes = u64::from(place.offset).checked_sub(self.end);
        let follows = self.file == file && gap_bytes.is_some_and(|bytes| bytes <= GAP_BYTES_MAX);
        if follows {
            self.run = self.run.saturating_add(1);
        } else {
            (self.run, self.reader) = (1, None);
        }
        (self.file, self.end) = (file, place.end());
    }

    /// The block at `location`, which it has turned to, from the disk.
    pub(super) fn read<M: Medium + Clone>(&mut self, store: &Store<M>, location: Location) -> Result<Block> {
        if self.run <= BLOCKS_ALONE {
            return store.tables.read_block(location.file, location.place);
        }
        let reader = match &mut self.reader {
            Some(reader) => reader,
            none => {
                let table = store.tables.reader(location.file)?;
                none.insert(table.growing(PIECE_BYTES_FIRST, PIECE_BYTES_MAX))
            }
        };
        reader.read_block(location.place)
    }

    /// What the piece takes in memory, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.reader.as_ref().map_or(0, |reader| reader.memory_bytes() as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use slmdb_env::memory::MemoryEnv;

    use crate::slm::open;
    use crate::{CompactionOptions, CompactionPolicy, Options, WriteBatch};

    const KEYS: u32 = 4000;

    /// How often table files are read from for a scan of a store whose files have each so manieth key.
    fn reads_of_a_scan(files: u32, backwards: bool) -> usize {
        let env = MemoryEnv::new();
        let compaction = CompactionOptions { policy: CompactionPolicy::Manual, ..CompactionOptions::default() };
        let options = Options { env: Arc::new(env.clone()), compaction, memory_budget_bytes: 0, ..Options::default() };
        let engine = open::open(&options, Path::new("/db")).unwrap();
        let entry = |number: u32| (format!("key {number:05}"), [number as u8; 100]);
        for file in 0..files {
            let mut batch = WriteBatch::new();
            for (key, value) in (0..KEYS).filter(|number| number % files == file).map(entry) {
                batch.put(key, value).unwrap();
            }
            engine.write(&batch, false).unwrap();
            engine.flush().unwrap();
        }
        let before = env.operation_count();
        let mut cursor = engine.cursor().unwrap();
        if backwards {
            cursor.seek_last().unwrap()
        } else {
            cursor.seek_first().unwrap()
        }
        let mut numbers = (0..KEYS).collect::<Vec<u32>>();
        if backwards {
            numbers.reverse();
        }
        for number in numbers {
            let (key, value) = entry(number);
            assert_eq!(cursor.key(), key.as_bytes());
            assert_eq!(cursor.value().unwrap()[..], value);
            if backwards { cursor.prev().unwrap() } else { cursor.next().unwrap() }
        }
        assert!(!cursor.valid());
        let operations = env.operations();
        let since = operations.len() - (env.operation_count() - before) as usize;
        operations[since..].iter().filter(|operation| operation.starts_with("read ")).count()
    }

    #[test]
    fn what_lies_in_order_is_read_in_pieces_and_nothing_else_is() {
        let (blocks, in_order) = (reads_of_a_scan(1, true), reads_of_a_scan(1, false));
        assert!(blocks > 50, "{blocks}");
        assert!(in_order < blocks / 5, "{in_order} for {blocks} blocks");
        assert!(reads_of_a_scan(2, false) >= blocks, "each file's next block is another's");
    }
}
