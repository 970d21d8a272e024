//! Distances between keys, for the overlap ratio of two files' key ranges (paper, section 3.3).
//!
//! The paper's keys are numbers; ours are byte strings. In the order of bytes, a key's number is the 8 bytes,
//! big-endian, that follow the common prefix of all bounds in question; a shorter key is padded with zeros. Two keys in
//! order have numbers in order, and the common prefix does not blur them. A comparator reveals nothing but its order;
//! there the number of a bound is its rank among all the bounds.

use slmdb_engine::read::ordered_key::positions_in_order;
use slmdb_order::KeyOrder;

/// A key range: smallest and largest key.
pub(crate) type KeyRange<'a> = (&'a [u8], &'a [u8]);

/// Key ranges, each with its bounds as numbers.
pub(crate) struct Distances<'a> {
    order: &'a KeyOrder,
    ranges: Vec<(KeyRange<'a>, (f64, f64))>,
}

impl<'a> Distances<'a> {
    pub(crate) fn new(order: &'a KeyOrder, ranges: &[KeyRange<'a>]) -> Distances<'a> {
        let numbers = if order.is_bytewise() { by_bytes(ranges) } else { by_rank(order, ranges) };
        Distances { order, ranges: ranges.iter().copied().zip(numbers).collect() }
    }

    /// The number of a range's smallest key.
    pub(crate) fn smallest(&self, range: usize) -> f64 {
        self.ranges[range].1.0
    }

    /// The overlap ratio of two ranges: from 0 (no overlap) to 1 (equal). Ranges that overlap have a ratio above 0,
    /// however small.
    pub(crate) fn overlap_ratio(&self, s: usize, t: usize) -> f64 {
        let ((s_keys, s), (t_keys, t)) = (self.ranges[s], self.ranges[t]);
        // Equal numbers do not tell which key is the smaller.
        let is_before =
            |a: f64, b: f64, a_key: &[u8], b_key: &[u8]| a < b || (a == b && self.order.compare(a_key, b_key).is_lt());
        if !is_before(s.0, t.1, s_keys.0, t_keys.1) || !is_before(t.0, s.1, t_keys.0, s_keys.1) {
            return 0.0;
        }
        let (common, whole) = (s.1.min(t.1) - s.0.max(t.0), s.1.max(t.1) - s.0.min(t.0));
        if whole > 0.0 { (common / whole).max(f64::MIN_POSITIVE) } else { 1.0 }
    }
}

fn by_bytes(ranges: &[KeyRange<'_>]) -> Vec<(f64, f64)> {
    let smallest = ranges.iter().map(|range| range.0).min().unwrap_or_default();
    let largest = ranges.iter().map(|range| range.1).max().unwrap_or_default();
    let common = smallest.iter().zip(largest).take_while(|(a, b)| a == b).count();
    let number = |key: &[u8]| {
        let mut bytes = [0; 8];
        bytes.iter_mut().zip(key.iter().skip(common)).for_each(|(byte, of_key)| *byte = *of_key);
        u64::from_be_bytes(bytes) as f64
    };
    ranges.iter().map(|range| (number(range.0), number(range.1))).collect()
}

fn by_rank(order: &KeyOrder, ranges: &[KeyRange<'_>]) -> Vec<(f64, f64)> {
    let bounds: Vec<&[u8]> = ranges.iter().flat_map(|range| [range.0, range.1]).collect();
    let mut numbers = vec![(0.0, 0.0); ranges.len()];
    let (mut rank, mut before) = (0.0, None);
    for index in positions_in_order(bounds.iter().copied(), order) {
        let key = bounds[index];
        if before.is_some_and(|before| order.compare(before, key).is_ne()) {
            rank += 1.0;
        }
        before = Some(key);
        let number = &mut numbers[index / 2];
        *(if index % 2 == 0 { &mut number.0 } else { &mut number.1 }) = rank;
    }
    numbers
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;
    use std::sync::Arc;

    use slmdb_order::Comparator;

    use super::*;

    struct Backwards;

    impl Comparator for Backwards {
        fn name(&self) -> &str {
            "test.backwards"
        }
        fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
            right.cmp(left)
        }
    }

    fn ratio(order: &KeyOrder, s: (&str, &str), t: (&str, &str)) -> f64 {
        let ranges = [(s.0.as_bytes(), s.1.as_bytes()), (t.0.as_bytes(), t.1.as_bytes())];
        let distances = Distances::new(order, &ranges);
        let ratio = distances.overlap_ratio(0, 1);
        assert_eq!(ratio, distances.overlap_ratio(1, 0));
        ratio
    }

    #[test]
    fn ratios_are_the_papers_whatever_the_keys_have_in_common() {
        let bytes = KeyOrder::Bytewise;
        let about = |found: f64, wanted: f64| assert!((found - wanted).abs() < 0.01, "{found} {wanted}");
        about(ratio(&bytes, ("a", "e"), ("c", "g")), 2.0 / 6.0);
        about(ratio(&bytes, ("customer/a", "customer/e"), ("customer/c", "customer/g")), 2.0 / 6.0);
        about(ratio(&bytes, ("a", "i"), ("c", "e")), 2.0 / 8.0);
        assert_eq!(ratio(&bytes, ("a", "c"), ("a", "c")), 1.0);
        assert_eq!(ratio(&bytes, ("a", "c"), ("d", "e")), 0.0, "would be below 0");
        assert_eq!(ratio(&bytes, ("a", "c"), ("c", "e")), 0.0, "they meet in one key");
    }

    #[test]
    fn keys_that_numbers_cannot_tell_apart_are_compared_whole() {
        let bytes = KeyOrder::Bytewise;
        assert_eq!(ratio(&bytes, ("", ""), ("", "")), 0.0, "one key, twice");
        assert_eq!(ratio(&bytes, ("", "\0"), ("", "\0")), 1.0);
        // Numbers of 64 bits are rounded, and end after 8 bytes.
        let (s, t) = (("aaaaaaaaa", "zzzzzzzzza"), ("zzzzzzzzzb", "zzzzzzzzzz"));
        assert_eq!(ratio(&bytes, s, t), 0.0);
        let overlap = ratio(&bytes, s, ("zzzzzzzzz", "zzzzzzzzzz"));
        assert!(overlap > 0.0 && overlap < 1e-9, "{overlap}");
        assert!(ratio(&bytes, ("a", "z"), ("k", "k")) > 0.0, "a file of one key is within another");
    }

    #[test]
    fn in_a_comparators_order_bounds_have_ranks() {
        let order = KeyOrder::Custom(Arc::new(Backwards));
        assert_eq!(ratio(&order, ("g", "c"), ("e", "a")), 1.0 / 3.0);
        assert_eq!(ratio(&order, ("z", "c"), ("z", "c")), 1.0);
        assert_eq!(ratio(&order, ("g", "e"), ("c", "a")), 0.0);
    }
}
