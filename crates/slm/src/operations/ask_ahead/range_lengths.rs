//! [`RangeLengths`]: how many values the last ranges over cold data had.
//!
//! Programs ask for ranges of the same length again and again. So what the last ones had in common is asked for at
//! once: a range then waits for the disk once, and nothing behind its end is read.

use std::sync::atomic::{AtomicU64, Ordering};

/// So many ranges are remembered.
const RANGES: u32 = 4;
const LENGTH_BITS: u32 = u64::BITS / RANGES;
const LENGTH_MAX: u64 = (1 << LENGTH_BITS) - 1;

/// The lengths of the last four ranges. Cursors of all threads record theirs here. Two that end at the same moment may
/// count as one.
#[derive(Debug, Default)]
pub(crate) struct RangeLengths(AtomicU64);

impl RangeLengths {
    /// Records that a range has ended which had so many values.
    pub(crate) fn record(&self, values: usize) {
        let length = (values as u64).min(LENGTH_MAX);
        let before = self.0.load(Ordering::Relaxed);
        let now = before << LENGTH_BITS | length;
        if now != before {
            self.0.store(now, Ordering::Relaxed);
        }
    }

    /// How many values the next range has at least, if it is like the last four. If those were of different lengths,
    /// that is the shortest, but no less than `least`, unless all were shorter. `least`: nothing is known.
    pub(crate) fn expected(&self, least: usize) -> usize {
        let word = self.0.load(Ordering::Relaxed);
        let lengths = (0..RANGES).map(|range| (word >> (range * LENGTH_BITS) & LENGTH_MAX) as usize);
        let (shortest, longest) =
            lengths.fold((usize::MAX, 0), |(shortest, longest), length| (shortest.min(length), longest.max(length)));
        if shortest == 0 { least } else { shortest.max(longest.min(least)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_of_the_last_four_is_expected() {
        let lengths = RangeLengths::default();
        let mut expected_after = |values| {
            lengths.record(values);
            lengths.expected(4)
        };
        assert_eq!([100, 100, 90].map(&mut expected_after), [4, 4, 4], "three are too few");
        assert_eq!([110, 1_000_000, 120, 130].map(&mut expected_after), [90, 90, 90, 110]);
        assert_eq!([1, 140].map(&mut expected_after), [4, 4], "a short one among long ones is not believed");
        assert_eq!([2, 1, 3, 1, 1, 1, 1].map(&mut expected_after), [4, 4, 4, 3, 3, 3, 1], "but four are");
    }
}
