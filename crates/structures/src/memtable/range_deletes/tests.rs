use slmdb_order::Comparator;
use slmdb_testkit::Random;

use super::*;

struct Backwards;

impl Comparator for Backwards {
    fn name(&self) -> &str {
        "backwards"
    }

    fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        right.cmp(left)
    }
}

/// Beside looking through all ranges, with bounds of all kinds, ranges without keys, equal places, and both orders.
#[test]
fn the_next_range_over_a_version_is_the_one_that_a_search_through_all_finds() {
    let mut random = Random(7);
    for round in 0..300 {
        let order = if round % 3 == 0 { KeyOrder::Custom(Arc::new(Backwards)) } else { KeyOrder::Bytewise };
        let key = |random: &mut Random| vec![b'a' + random.below(6) as u8; random.below(3) as usize];
        let bound = |random: &mut Random| match random.below(5) {
            0 => Bound::Unbounded,
            1 | 2 => Bound::Included(key(random)),
            _ => Bound::Excluded(key(random)),
        };
        let mut bounds = Vec::new();
        for sequence in 1..=random.below(12) {
            bounds.push((bound(&mut random), bound(&mut random), sequence * 3));
        }
        let deletes = RangeDeletes::new(&order);
        assert!(deletes.get().is_none() && deletes.memory_bytes() == 0);
        // In any order, as writers come.
        let mut added = bounds.clone();
        while !added.is_empty() {
            let (from, to, sequence) = added.swap_remove(random.below(added.len() as u64) as usize);
            let range = (from.as_ref().map(|key| &key[..]), to.as_ref().map(|key| &key[..]));
            deletes.add(vec![DeletedRange::new(range, sequence)]);
        }
        let Some(ranges) = deletes.get() else { continue };
        assert_eq!(ranges.all().len(), bounds.len());
        let least = random.below(40);
        for key in (0..30).map(|_| key(&mut random)) {
            let is_in =
                |(from, to): &(Bound<&[u8]>, Bound<&[u8]>)| order.is_from(&key, *from) && order.is_up_to(&key, *to);
            let spans = ranges.spans(least).iter().filter(|span| is_in(span)).count();
            let is_in_any = ranges.next_over(&key, least.saturating_sub(1)).is_some();
            assert_eq!(spans, usize::from(is_in_any), "{key:?} in {:?}, from {least} on", ranges.spans(least));
        }
        for _ in 0..200 {
            let (key, sequence): (Vec<u8>, u64) = (key(&mut random), random.below(40));
            let expected = bounds
                .iter()
                .filter(|(from, to, number)| {
                    *number > sequence && order.is_from(&key, from.as_ref()) && order.is_up_to(&key, to.as_ref())
                })
                .map(|(.., number)| *number)
                .min();
            assert_eq!(ranges.next_over(&key, sequence), expected, "{key:?} over {sequence} in {bounds:?}");
        }
    }
}
