//! Sorting alone, against the obvious.

use std::cmp::Reverse;

use slmdb_order::KeyOrder;

use super::*;
use crate::log::Payload;

/// Sorts entries with these keys, in this order, by head and by whole keys, and compares.
fn check(keys: &[Vec<u8>], prefix: &[u8]) {
    let mut payload = Payload::new();
    let mut offsets = Vec::new();
    for key in keys {
        offsets.push(payload.len_bytes() as u32);
        payload.put(key, b"v").unwrap();
    }
    let heads = Heads::new(&KeyOrder::Bytewise, prefix);
    let sorter = Sorter { bytes: payload.as_bytes(), heads: &heads };
    let mut entries: Vec<_> = offsets.iter().zip(0..).map(|(&offset, index)| sorter.sortable(index, offset)).collect();
    let before: Vec<_> = entries.iter().map(|entry| (entry.head(), entry.index(), entry.offset())).collect();
    sorter.sort(&mut entries);
    let mut expected: Vec<u32> = (0..keys.len() as u32).collect();
    expected.sort_by_key(|&index| (&keys[index as usize], Reverse(index)));
    assert_eq!(entries.iter().map(|entry| entry.index()).collect::<Vec<_>>(), expected, "prefix {prefix:?}");
    for entry in entries {
        assert_eq!(before[entry.index() as usize], (entry.head(), entry.index(), entry.offset()), "a head was lost");
    }
}

#[test]
fn any_keys_are_sorted_whatever_their_heads_say() {
    let mut random = 20_190_225_u64;
    let mut below = |limit: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % limit
    };
    let beginnings: [&[u8]; 8] =
        [b"", b"a", b"abcdefgh", b"abcdefghabcdefgh", &[0; 8], &[0; 17], &[0xff; 8], &[0xff; 20]];
    for round in 0..300 {
        let few = 1 + below(8);
        let count = if round % 10 == 0 { 2_000 } else { below(200) };
        let keys: Vec<Vec<u8>> = (0..count)
            .map(|_| {
                let mut key = beginnings[below(few) as usize].to_vec();
                let telling = [0, b'a', b'b', 0xff];
                (0..below(12)).for_each(|_| key.push(telling[below(4) as usize]));
                key
            })
            .collect();
        for prefix in [&b""[..], b"abcdefgh", &[0; 8], &[0xff; 8]] {
            check(&keys, prefix);
        }
    }
}

/// Every key is a prefix of the next: the worst for sorting eight bytes at a time.
#[test]
fn a_staircase_of_keys_is_sorted() {
    let stairs: Vec<Vec<u8>> = (0..1_500_usize).map(|n| vec![b'x'; n * 7 % 1_500 * 8]).collect();
    check(&stairs, b"");
    check(&stairs.iter().chain(&stairs).cloned().collect::<Vec<_>>(), b"xxx");
    let zeros: Vec<Vec<u8>> = (0..1_500_usize).map(|n| vec![0; n * 7 % 1_500]).collect();
    check(&zeros, b"");
}

#[test]
fn a_merge_sort_is_stable_and_survives_what_is_no_order() {
    for length in [0, 1, 2, 3, 7, 8, 9, 1_000] {
        let mut items: Vec<u64> = (0..length).map(|n| n * 7_919 % 1_000).collect();
        let mut expected = items.clone();
        expected.sort_by_key(|item| item % 10);
        merge_sort(&mut items, |one, other| one % 10 < other % 10);
        assert_eq!(items, expected);
        for nonsense in [|_: &u64, _: &u64| true, |one: &u64, other: &u64| (one ^ other).count_ones().is_multiple_of(2)]
        {
            merge_sort(&mut items, nonsense);
            let mut sorted = items.clone();
            sorted.sort_unstable();
            let mut all = expected.clone();
            all.sort_unstable();
            assert_eq!(sorted, all);
        }
    }
}
