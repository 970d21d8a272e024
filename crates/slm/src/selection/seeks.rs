//! A counter of seeks for each table file.
//!
//! Readers must not wait for one another to count. So a counter is one word, at a place given by the file's number,
//! without a lock. Two files with the same place displace each other's counts, and two readers at the same moment may
//! count once. That can only delay what the counts decide.

use std::sync::atomic::{AtomicU64, Ordering};

/// Files whose numbers are closer than this have places of their own. (A file's data is a thousand times its counter's
/// 8 bytes.)
const PLACES: usize = 2048;

/// The counters.
#[derive(Debug)]
pub(crate) struct FileCounts {
    /// The file's number in the high half, its count in the low half.
    places: Box<[AtomicU64]>,
}

impl Default for FileCounts {
    fn default() -> FileCounts {
        FileCounts { places: (0..PLACES).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl FileCounts {
    fn place(&self, file: u32) -> &AtomicU64 {
        &self.places[file as usize % PLACES]
    }

    fn set(&self, file: u32, count: u32) {
        self.place(file).store(u64::from(file) << 32 | u64::from(count), Ordering::Relaxed);
    }

    /// This file's count.
    fn get(&self, file: u32) -> u32 {
        let word = self.place(file).load(Ordering::Relaxed);
        if (word >> 32) as u32 == file { word as u32 } else { 0 }
    }

    /// Adds one, and returns the new count.
    pub(crate) fn add(&self, file: u32) -> u32 {
        let count = self.get(file).saturating_add(1);
        self.set(file, count);
        count
    }

    /// A number that changes when a seek is counted.
    pub(crate) fn fingerprint(&self) -> u64 {
        self.places.iter().fold(0, |sum, place| sum.wrapping_add(place.load(Ordering::Relaxed)))
    }

    /// Memory in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        size_of_val(&*self.places) as u64
    }

    /// Sets the count to 0.
    pub(crate) fn clear(&self, file: u32) {
        if self.get(file) > 0 {
            self.set(file, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_counted_apart_until_one_displaces_another() {
        let counts = FileCounts::default();
        assert_eq!((counts.get(0), counts.get(7)), (0, 0));
        assert_eq!((counts.add(7), counts.add(8), counts.add(7)), (1, 1, 2));
        assert_eq!((counts.get(7), counts.get(8)), (2, 1));
        counts.clear(7);
        assert_eq!((counts.get(7), counts.get(8)), (0, 1));
        let other = 8 + PLACES as u32;
        counts.clear(other);
        assert_eq!(counts.get(8), 1, "what has not been counted is not cleared");
        assert_eq!((counts.add(other), counts.get(8)), (1, 0));
    }
}
