//! The degree of sequentiality of a range query (paper, section 3.3): in how many table files its keys are, counted for
//! each sub-range.
//!
//! A cursor reports each entry whose value it reads. Only the current sub-range and the one with the most files are
//! kept, in arrays of fixed size. So watching costs a few comparisons per key and no allocation.

use slmdb_engine::options::SUB_RANGE_KEYS_MAX;

/// The counts of one range query.
#[derive(Debug)]
pub(crate) struct Sequentiality {
    /// Keys per sub-range.
    sub_range_keys: usize,
    /// Keys in the current sub-range.
    keys: usize,
    /// The last entry that was reported; its value may be read twice.
    last_sequence: u64,
    present: Files,
    worst: Files,
}

/// The distinct files of one sub-range.
#[derive(Debug, Clone, Copy)]
struct Files {
    count: usize,
    numbers: [u32; SUB_RANGE_KEYS_MAX],
}

const NONE: Files = Files { count: 0, numbers: [0; SUB_RANGE_KEYS_MAX] };

impl Files {
    fn numbers(&self) -> &[u32] {
        &self.numbers[..self.count]
    }

    fn add(&mut self, file: u32) {
        if !self.numbers().contains(&file) {
            self.numbers[self.count] = file;
            self.count += 1;
        }
    }
}

impl Sequentiality {
    /// For sub-ranges of `sub_range_keys`.
    pub(crate) fn new(sub_range_keys: usize) -> Sequentiality {
        let sub_range_keys = sub_range_keys.min(SUB_RANGE_KEYS_MAX);
        Sequentiality { sub_range_keys, keys: 0, last_sequence: 0, present: NONE, worst: NONE }
    }

    /// Reports that the value of the entry with this sequence number is read. `file`: the table file, or `None` for a
    /// MemTable.
    pub(crate) fn read(&mut self, sequence: u64, file: Option<u32>) {
        if sequence == self.last_sequence {
            return;
        }
        self.last_sequence = sequence;
        if let Some(file) = file {
            self.present.add(file);
        }
        self.keys += 1;
        if self.keys == self.sub_range_keys {
            self.end_sub_range();
        }
    }

    fn end_sub_range(&mut self) {
        if self.present.count > self.worst.count {
            self.worst = self.present;
        }
        self.present.count = 0;
        self.keys = 0;
    }

    /// Ends the range query, and returns the files of its worst sub-range. The next report begins another.
    pub(crate) fn end(&mut self) -> &[u32] {
        self.end_sub_range();
        self.last_sequence = 0;
        let count = std::mem::take(&mut self.worst.count);
        &self.worst.numbers[..count]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of a range query over entries in these files (0: in a MemTable), in sub-ranges of 3 keys.
    fn worst(files: &[u32]) -> Vec<u32> {
        let mut query = Sequentiality::new(3);
        for (number, &file) in files.iter().enumerate() {
            for _ in 0..2 {
                query.read(number as u64 + 1, (file != 0).then_some(file));
            }
        }
        query.end().to_vec()
    }

    #[test]
    fn the_sub_range_with_the_most_files_counts() {
        assert_eq!(worst(&[]), []);
        assert_eq!(worst(&[5]), [5]);
        assert_eq!(worst(&[1, 1, 1, 2, 2, 2, 3, 3, 3]), [1], "in order, each sub-range is in one file");
        assert_eq!(worst(&[1, 1, 2, 3, 4, 5, 6, 6, 7]), [3, 4, 5]);
        assert_eq!(worst(&[1, 1, 1, 2, 3]), [2, 3], "the last need not be whole");
        assert_eq!(worst(&[0, 1, 0, 0, 0, 0, 2, 3, 0]), [2, 3], "what is in a MemTable takes its place");
    }

    #[test]
    fn a_query_begins_anew_and_the_longest_sub_range_fits() {
        let mut query = Sequentiality::new(SUB_RANGE_KEYS_MAX);
        for round in 0..2 {
            for number in 0..3 * SUB_RANGE_KEYS_MAX as u32 {
                query.read(u64::from(number) + 1, Some(number));
            }
            assert_eq!(query.end().len(), SUB_RANGE_KEYS_MAX, "{round}");
            assert_eq!(query.end().len(), 0);
        }
    }
}
