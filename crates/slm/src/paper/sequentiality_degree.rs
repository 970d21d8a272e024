//! The degree of sequentiality of a range query (paper, section 3.3): in how many table files its keys are, counted for
//! each sub-range.
//!
//! A cursor reports each entry whose value it reads. Only the current sub-range and the one with the most files are
//! kept.

/// The counts of one range query.
#[derive(Debug)]
pub(crate) struct Sequentiality {
    /// Keys per sub-range.
    sub_range_keys: usize,
    /// Keys in the current sub-range.
    keys: usize,
    /// The last entry that was reported; its value may be read twice.
    last_sequence: u64,
    /// The files of the current sub-range, each once.
    present: Vec<u32>,
    worst: Vec<u32>,
}

impl Sequentiality {
    /// For sub-ranges of `sub_range_keys`.
    pub(crate) fn new(sub_range_keys: usize) -> Sequentiality {
        Sequentiality { sub_range_keys, keys: 0, last_sequence: 0, present: Vec::new(), worst: Vec::new() }
    }

    /// Reports that the value of the entry with this sequence number is read. `file`: the table file, or `None` for a
    /// MemTable.
    pub(crate) fn read(&mut self, sequence: u64, file: Option<u32>) {
        if sequence == self.last_sequence {
            return;
        }
        self.last_sequence = sequence;
        self.present.extend(file.filter(|file| !self.present.contains(file)));
        self.keys += 1;
        if self.keys == self.sub_range_keys {
            self.end_sub_range();
        }
    }

    fn end_sub_range(&mut self) {
        if self.present.len() > self.worst.len() {
            std::mem::swap(&mut self.present, &mut self.worst);
        }
        self.present.clear();
        self.keys = 0;
    }

    /// Ends the range query, and returns the files of its worst sub-range. The next report begins another.
    pub(crate) fn end(&mut self) -> Vec<u32> {
        self.end_sub_range();
        self.last_sequence = 0;
        std::mem::take(&mut self.worst)
    }
}

#[cfg(test)]
mod tests {
    use slmdb_engine::options::SUB_RANGE_KEYS_MAX;

    use super::*;

    /// What comes of a range query over entries in these files (0: in a MemTable), in sub-ranges of 3 keys.
    fn worst(files: &[u32]) -> Vec<u32> {
        let mut query = Sequentiality::new(3);
        for (number, &file) in files.iter().enumerate() {
            for _ in 0..2 {
                query.read(number as u64 + 1, (file != 0).then_some(file));
            }
        }
        query.end()
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
