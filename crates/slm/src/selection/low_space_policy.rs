//! The policy when space is short: what gives back most for what it takes, within what is reserved for it.
//!
//! A compaction writes its output before its inputs go. So with little space left it chooses differently. Files in
//! which nothing is needed come first, because they take no space. Then those with the most garbage, no more than fit
//! one file of the reserved size ([`Limits`]). In a full pool files with little garbage count, too: key segments take
//! whole units, and several that are not full may become one that is.

use slmdb_pmem::UNIT_BYTES;

/// A file, and estimates of what compacting it takes and gives back, as if all its entries had the same length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) number: u32,
    /// Number of entries.
    pub(crate) entries: u64,
    /// Those that are garbage.
    pub(crate) garbage: u64,
    pub(crate) length_bytes: u64,
    /// Bytes that its key segment takes in the pool.
    pub(crate) segment_bytes: u64,
    /// Bytes of these that are filled.
    pub(crate) segment_filled_bytes: u64,
}

impl Candidate {
    fn needed_part(&self) -> f64 {
        1.0 - self.garbage as f64 / self.entries.max(1) as f64
    }

    pub(crate) fn needed_bytes(&self) -> u64 {
        (self.length_bytes as f64 * self.needed_part()) as u64
    }

    pub(crate) fn needed_segment_bytes(&self) -> u64 {
        (self.segment_filled_bytes as f64 * self.needed_part()) as u64
    }
}

/// What an output may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) file_bytes: u64,
    pub(crate) segment_bytes: u64,
    /// Maximum number of inputs.
    pub(crate) files: usize,
}

/// Files whose compaction gives back disk space: their needed part is less than `needed_part_max`.
pub(crate) fn on_disk(candidates: &[Candidate], needed_part_max: f64, limits: &Limits) -> Option<Vec<u32>> {
    let empty: Vec<u32> =
        candidates.iter().filter(|file| file.garbage >= file.entries).map(|file| file.number).collect();
    if !empty.is_empty() {
        return Some(empty);
    }
    let worth = candidates.iter().filter(|file| file.garbage > 0 && file.needed_part() < needed_part_max);
    let mut worth: Vec<Candidate> = worth.copied().collect();
    worth.sort_by(|a, b| a.needed_part().total_cmp(&b.needed_part()));
    let chosen = packed(&worth, limits);
    (!chosen.is_empty()).then(|| numbers(&chosen))
}

/// Files whose compaction gives back space in the pool.
pub(crate) fn in_pool(candidates: &[Candidate], limits: &Limits) -> Option<Vec<u32>> {
    let mut worth = candidates.to_vec();
    let filled_part = |file: &Candidate| file.needed_segment_bytes() as f64 / file.segment_bytes.max(1) as f64;
    worth.sort_by(|a, b| filled_part(a).total_cmp(&filled_part(b)));
    let chosen = packed(&worth, limits);
    if let [one] = chosen[..] {
        // Written anew it could be just as large, again and again.
        if one.garbage == 0 {
            return None;
        }
    }
    let given: u64 = chosen.iter().map(|file| file.segment_bytes).sum();
    let taken: u64 = chosen.iter().map(Candidate::needed_segment_bytes).sum();
    (taken.next_multiple_of(UNIT_BYTES) < given).then(|| numbers(&chosen))
}

/// Takes the files in order, leaving out each that no longer fits the limits.
fn packed(files: &[Candidate], limits: &Limits) -> Vec<Candidate> {
    let (mut file_bytes, mut segment_bytes) = (0, 0);
    let mut chosen = Vec::new();
    for file in files {
        let more = (file_bytes + file.needed_bytes(), segment_bytes + file.needed_segment_bytes());
        if chosen.len() < limits.files && more.0 <= limits.file_bytes && more.1 <= limits.segment_bytes {
            (file_bytes, segment_bytes) = more;
            chosen.push(*file);
        }
    }
    chosen
}

fn numbers(files: &[Candidate]) -> Vec<u32> {
    files.iter().map(|file| file.number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { file_bytes: 1000, segment_bytes: UNIT_BYTES, files: 10 };

    fn file(number: u32, garbage: u64) -> Candidate {
        let (entries, length_bytes) = (100, 1000);
        Candidate { number, entries, garbage, length_bytes, segment_bytes: UNIT_BYTES, segment_filled_bytes: 5000 }
    }

    #[test]
    fn files_without_anything_needed_come_first_and_all_at_once() {
        assert_eq!(on_disk(&[file(1, 50), file(2, 100), file(3, 100)], 0.9, &LIMITS), Some(vec![2, 3]));
    }

    #[test]
    fn the_most_garbage_is_next_as_much_as_fits_what_is_kept_back() {
        let files = [file(1, 50), file(2, 20), file(3, 80), file(4, 60), file(5, 5)];
        assert_eq!(on_disk(&files, 0.9, &LIMITS), Some(vec![3, 4]));
        assert_eq!(on_disk(&files[4..], 0.9, &LIMITS), None);
        assert_eq!(on_disk(&files[1..2], 0.9, &Limits { file_bytes: 700, ..LIMITS }), None);
    }

    #[test]
    fn in_a_pool_whole_units_count() {
        let large = Limits { file_bytes: 1 << 20, ..LIMITS };
        assert_eq!(in_pool(&[file(1, 0), file(2, 0)], &large), Some(vec![1, 2]));
        assert_eq!(in_pool(&[file(1, 50)], &large), None);
        assert_eq!(in_pool(&[file(1, 0), file(2, 0)], &LIMITS), None);
    }
}
