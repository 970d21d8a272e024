use std::sync::Arc;

use slmdb_order::Comparator;

use super::*;

/// Deletes of `keys`, in this order, passed by a cursor at `moment`; `begun` is the last number that was handed out. Returns how many
/// it had to pass.
fn pass(ranges: &EmptyRanges, keys: impl Iterator<Item = u32>, is_forward: bool, moment: u64, begun: u64) -> usize {
    let mut deletes = PassedDeletes::new(moment, is_forward);
    let (mut passed, mut sought) = (0, None::<Vec<u8>>);
    for key in keys.map(u32::to_be_bytes) {
        let is_before = |end: &Vec<u8>| if is_forward { key[..] < end[..] } else { key[..] >= end[..] };
        if !sought.as_ref().is_some_and(is_before) {
            passed += 1;
            sought = deletes.pass(&key, ranges);
        }
    }
    deletes.end(ranges, || begun);
    passed
}

fn put(ranges: &EmptyRanges, key: u32) {
    let mut batch = WriteBatch::new();
    batch.put(key.to_be_bytes(), "value").unwrap();
    ranges.note_puts(&batch);
}

#[test]
fn deletes_are_passed_once() {
    let ranges = EmptyRanges::new(KeyOrder::Bytewise);
    assert_eq!(pass(&ranges, 0..1000, true, 5, 5), 1000);
    assert_eq!(pass(&ranges, 0..1000, true, 4, 5), 1000, "an earlier moment may have had a value");
    assert!(pass(&ranges, 0..1000, true, 6, 9) < 20);
    assert!(pass(&ranges, (0..1000).rev(), false, 5, 9) < 20);
    // More are deleted at either end.
    assert!(pass(&ranges, 0..1100, true, 9, 9) < 120);
    assert!(pass(&ranges, 0..1100, true, 9, 9) < 20);
    assert!(pass(&ranges, (0..1200).rev(), false, 9, 9) < 240);
    assert!(pass(&ranges, (0..1200).rev(), false, 9, 9) < 40);
}

#[test]
fn a_put_that_was_told_before_is_not_skipped() {
    let ranges = EmptyRanges::new(KeyOrder::Bytewise);
    // Number 6 was handed out and told, and the cursor does not see it.
    put(&ranges, 500);
    pass(&ranges, 0..1000, true, 5, 6);
    assert_eq!(pass(&ranges, 0..1000, true, 5, 6), 1000, "at a moment before the last number");
    assert_eq!(pass(&ranges, 0..1000, true, 6, 7), 1000, "the first to know");
    assert!(pass(&ranges, 0..1000, true, 6, 7) < 20);
    // A put ends what is watched.
    pass(&ranges, 2000..3000, true, 7, 8);
    put(&ranges, 2500);
    pass(&ranges, 2000..3000, true, 8, 9);
    assert_eq!(pass(&ranges, 2000..3000, true, 8, 9), 1000);
}

#[test]
fn cursors_that_overtake_each_other_skip_in_the_end() {
    let ranges = EmptyRanges::new(KeyOrder::Bytewise);
    // Each began before the one before it has ended, and writers never rest.
    for moment in 1..5 {
        pass(&ranges, 0..1000, true, moment, moment + 2);
    }
    assert!(pass(&ranges, 0..1000, true, 5, 7) < 20);
}

struct Backwards;

impl Comparator for Backwards {
    fn name(&self) -> &str {
        "backwards"
    }

    fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        right.cmp(left)
    }
}

#[test]
fn a_put_is_cut_out() {
    let ranges = EmptyRanges::new(KeyOrder::Bytewise);
    pass(&ranges, 0..1000, true, 5, 5);
    put(&ranges, 500);
    let end_of = |ranges: &EmptyRanges, key: u32| ranges.end_of(&key.to_be_bytes(), 6, true);
    assert_eq!(end_of(&ranges, 499), Some(500_u32.to_be_bytes().to_vec()));
    assert_eq!(end_of(&ranges, 500), None);
    assert!(end_of(&ranges, 501).is_some());
    assert_eq!(ranges.end_of(&501_u32.to_be_bytes(), 6, false), Some([&500_u32.to_be_bytes()[..], &[0]].concat()));

    let ranges = EmptyRanges::new(KeyOrder::Custom(Arc::new(Backwards)));
    pass(&ranges, (0..1000).rev(), true, 5, 5);
    put(&ranges, 500);
    assert_eq!(end_of(&ranges, 501), Some(500_u32.to_be_bytes().to_vec()));
    assert_eq!([500, 499].map(|key| end_of(&ranges, key)), [None, None], "it is not known which key comes next");
}

#[test]
fn few_ranges_are_remembered_and_not_for_ever() {
    let ranges = EmptyRanges::new(KeyOrder::Bytewise);
    for start in (0..20_000).step_by(1000) {
        pass(&ranges, start..start + 900, true, 5, 5);
        assert!(pass(&ranges, 0..900, true, 5, 5) < 20, "what is used is kept");
    }
    (0..100).for_each(|key| put(&ranges, 20 + 3 * key));
    assert_eq!(ranges.count.load(Relaxed), RANGES_MAX);
    (0..=IDLE_LOOKS_MAX).for_each(|_| put(&ranges, 100_000));
    assert_eq!(ranges.count.load(Relaxed), 0);
    let long = |number: u32| [vec![b'k'; BOUND_BYTES_MAX], number.to_be_bytes().to_vec()].concat();
    let mut deletes = PassedDeletes::new(5, true);
    (0..1000).for_each(|number| assert!(deletes.pass(&long(number), &ranges).is_none()));
    deletes.end(&ranges, || 5);
    assert_eq!(ranges.count.load(Relaxed), 0);
}
