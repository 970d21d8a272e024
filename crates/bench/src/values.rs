//! Values as compressible as real data: db_bench's way.
//!
//! One piece of data serves all: fragments of 100 bytes, each a few random printable bytes that are repeated until it is full,
//! so that a compressor shrinks it to about the ratio asked for. A value is the next part of it; nothing is copied. It is much
//! larger than the windows in which compressors look for repetitions.

use std::sync::Arc;

use crate::random::Random;

const FRAGMENT_BYTES: usize = 100;
const DATA_BYTES_MIN: usize = 1 << 20;

/// Where values come from. Clones share the data.
#[derive(Debug, Clone)]
pub struct Values {
    data: Arc<[u8]>,
    position: usize,
}

impl Values {
    /// Values of at most `value_bytes_max` that shrink to `compression_ratio` (0 to 1) of their length.
    pub fn new(value_bytes_max: usize, compression_ratio: f64, seed: u64) -> Values {
        let mut random = Random::new(seed);
        let random_bytes = ((FRAGMENT_BYTES as f64 * compression_ratio) as usize).clamp(1, FRAGMENT_BYTES);
        let wanted_bytes = DATA_BYTES_MIN.max(value_bytes_max);
        let mut data = Vec::with_capacity(wanted_bytes + FRAGMENT_BYTES);
        while data.len() < wanted_bytes {
            let start = data.len();
            data.extend((0..random_bytes).map(|_| b' ' + random.below(95) as u8));
            while data.len() < start + FRAGMENT_BYTES {
                let repeated = data[data.len() - random_bytes];
                data.push(repeated);
            }
        }
        Values { data: data.into(), position: 0 }
    }

    /// The same, from somewhere in the data: threads and phases are not to write the same values at the same time.
    pub fn from_somewhere(&self, random: &mut Random) -> Values {
        Values { data: self.data.clone(), position: random.below(self.data.len() as u64) as usize }
    }

    /// The next value.
    pub fn value(&mut self, bytes: usize) -> &[u8] {
        if self.position + bytes > self.data.len() {
            self.position = 0;
        }
        let end = (self.position + bytes).min(self.data.len());
        let value = &self.data[self.position..end];
        self.position = end;
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_shrink_as_they_are_told_to() {
        for (ratio, expected) in [(0.25, 0.2..0.4), (0.5, 0.45..0.65), (1.0, 0.9..1.1)] {
            let mut values = Values::new(1000, ratio, 1);
            let mut blocks = (0..100).map(|_| lz4_flex::compress(values.value(4096)).len());
            let shrunk = blocks.by_ref().sum::<usize>() as f64 / 409_600.0;
            assert!(expected.contains(&shrunk), "{ratio}: {shrunk}");
        }
    }

    #[test]
    fn values_have_the_length_asked_for_and_differ() {
        let mut values = Values::new(3 << 20, 0.5, 1);
        for bytes in [0, 1, 100, 4096, 3 << 20, 100] {
            assert_eq!(values.value(bytes).len(), bytes);
        }
        let (first, second) = (values.value(100).to_vec(), values.value(100).to_vec());
        assert_ne!(first, second);
        assert!(first.iter().all(|byte| (b' '..=b'~').contains(byte)));
        let again = Values::new(3 << 20, 0.5, 1).value(100).to_vec();
        assert_eq!(again, Values::new(3 << 20, 0.5, 1).value(100));
        assert_ne!(again, Values::new(3 << 20, 0.5, 2).value(100));
    }
}
