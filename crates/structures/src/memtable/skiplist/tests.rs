//! The list alone, over keys that are leaked for the test's length.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::*;

/// Key and value side by side, alive for the rest of the test process (small).
fn stored(key: &[u8], value: &[u8]) -> *const u8 {
    let mut bytes = key.to_vec();
    bytes.extend_from_slice(value);
    Box::leak(bytes.into_boxed_slice()).as_ptr()
}

fn insert(list: &SkipList, splice: &mut Splice, key: &[u8], sequence: u64, value: &[u8]) {
    let entry = NewEntry {
        key,
        stored_key: stored(key, value),
        value_length: value.len() as u32,
        kind: EntryKind::Put,
        sequence,
        slot: 0,
    };
    // SAFETY: the bytes are leaked; the splices here are used with one list each.
    unsafe { list.insert(splice, &entry) };
}

fn all(list: &SkipList) -> Vec<(Vec<u8>, u64)> {
    std::iter::successors(list.first(), |entry| entry.next()).map(|e| (e.key().to_vec(), e.sequence())).collect()
}

/// Every level is a sorted sublist of the one below it, and the lowest holds everything.
fn check_levels(list: &SkipList, entries: usize) {
    let mut below: Option<Vec<*mut Node>> = None;
    for level in 0..list.height.load(Ordering::Relaxed) {
        let mut nodes = Vec::new();
        // SAFETY: the nodes of a level have it.
        let mut node = unsafe { link(list.front, level) }.load(Ordering::Acquire);
        while !node.is_null() {
            nodes.push(node);
            // SAFETY: as above.
            node = unsafe { link(node, level) }.load(Ordering::Acquire);
        }
        // SAFETY: nodes of the list.
        let place = |node: *mut Node| unsafe { (key_of(node).to_vec(), Reverse((*node).sequence)) };
        assert!(nodes.windows(2).all(|pair| place(pair[0]) < place(pair[1])), "level {level} is not sorted");
        match &below {
            None => assert_eq!(nodes.len(), entries),
            Some(below) => {
                let mut lower = below.iter();
                assert!(nodes.iter().all(|node| lower.any(|other| other == node)), "level {level} is no sublist");
            }
        }
        below = Some(nodes);
    }
}

#[test]
fn heads_never_contradict_the_order_of_keys() {
    let mut keys: Vec<Vec<u8>> = vec![vec![]];
    // All strings over four telling bytes up to length 3, alone and behind a few beginnings.
    for beginning in
        [&b""[..], b"a", b"abcdefg", b"abcdefgh", b"abcdefghi", b"\0\0\0\0\0\0\0", b"\xff\xff\xff\xff\xff\xff\xff"]
    {
        for length in 1..=3_u32 {
            for number in 0..4_usize.pow(length) {
                let tail = (0..length).map(|at| b"\0ab\xff"[number / 4_usize.pow(at) % 4]);
                keys.push(beginning.iter().copied().chain(tail).collect());
            }
        }
    }
    for prefix in [&b""[..], b"a", b"abcdefgh", b"b\xff", b"\0", b"\xff"] {
        let list = SkipList::new(1, &KeyOrder::Bytewise, prefix, false);
        for node_key in &keys {
            let stored_key = node_key.as_ptr();
            let entry =
                NewEntry { key: node_key, stored_key, value_length: 0, kind: EntryKind::Put, sequence: 5, slot: 0 };
            let node = new_node(&list.towers, &entry, list.heads.head_of(node_key), 1, false);
            for key in &keys {
                let before = |sequence| list.heads.is_before(node, &list.heads.target(key, sequence));
                assert_eq!(before(5), node_key < key, "{prefix:?} {node_key:?} {key:?}");
                assert_eq!(before(4), node_key <= key, "{prefix:?} {node_key:?} {key:?}");
                assert_eq!(before(6), node_key < key, "{prefix:?} {node_key:?} {key:?}");
            }
        }
    }
}

#[test]
fn every_order_of_insertion_gives_the_same_list() {
    const COUNT: u64 = 3_000;
    let key = |i: u64| format!("key{:05}", i / 3).into_bytes();
    let orders: [(&str, Vec<u64>); 5] = [
        ("ascending", (0..COUNT).collect()),
        ("descending", (0..COUNT).rev().collect()),
        ("shuffled", (0..COUNT).map(|i| i * 1_009 % COUNT).collect()),
        ("two streams", (0..COUNT).map(|i| i / 2 + i % 2 * (COUNT / 2)).collect()),
        ("saw", (0..COUNT).map(|i| i % 60 * (COUNT / 60) + i / 60).collect()),
    ];
    for (name, order) in orders {
        // One splice for all, a fresh one each time, and one for every 17 entries.
        for entries_per_splice in [usize::MAX, 1, 17] {
            let list = SkipList::new(7, &KeyOrder::Bytewise, b"", false);
            let mut splice = Splice::new();
            let mut model = BTreeMap::new();
            for (n, &i) in order.iter().enumerate() {
                if n % entries_per_splice == 0 {
                    splice = Splice::new();
                }
                insert(&list, &mut splice, &key(i), i + 1, b"value");
                model.insert((key(i), Reverse(i + 1)), ());
            }
            let expected: Vec<_> = model.into_keys().map(|(key, Reverse(sequence))| (key, sequence)).collect();
            assert_eq!(all(&list), expected, "{name}, {entries_per_splice} entries a splice");
            check_levels(&list, expected.len());
            let heights = list.height.load(Ordering::Relaxed);
            assert!((4..=12).contains(&heights), "{heights} levels for {COUNT} entries");
        }
    }
}

/// A splice of a sorted batch survives entries that others put in between.
#[test]
fn a_splice_of_a_sorted_batch_survives_entries_in_between() {
    let list = SkipList::new(3, &KeyOrder::Bytewise, b"", false);
    let (mut odd, mut even) = (Splice::new(), Splice::new());
    for i in 0..2_000_u64 {
        // The even splice runs ahead by 500, so the odd one's `after` is stale at nearly every step.
        insert(&list, &mut even, &(2 * (i + 500)).to_be_bytes(), 2 * i + 1, b"");
        insert(&list, &mut odd, &(2 * i + 1).to_be_bytes(), 2 * i + 2, b"");
    }
    check_levels(&list, 4_000);
}

/// A splice that was at the end knows nothing of the levels above.
#[test]
fn a_splice_at_the_end_knows_nothing_of_the_levels_above() {
    let list = SkipList::new(5, &KeyOrder::Bytewise, b"", false);
    let (mut splice, mut other) = (Splice::new(), Splice::new());
    let mut sequences = 1..;
    let mut put = |splice: &mut Splice, key: u64| {
        insert(&list, splice, &key.to_be_bytes(), sequences.next().unwrap(), b"");
    };
    for round in 0..1_000 {
        let end = 1_000 * (round + 2);
        put(&mut other, end - 500);
        // Around the middle on all levels, then at the end on some, then before another's entry that is the end now.
        put(&mut splice, end / 2);
        put(&mut splice, end);
        put(&mut other, end + 10);
        put(&mut splice, end + 5);
    }
    check_levels(&list, 5_000);
}

#[test]
fn four_threads_build_one_sorted_list() {
    for (round, sorted) in [(1_u64, true), (2, false)] {
        const EACH: u64 = 5_000;
        let list = SkipList::new(round, &KeyOrder::Bytewise, b"", false);
        std::thread::scope(|scope| {
            for worker in 0..4_u64 {
                let list = &list;
                scope.spawn(move || {
                    let mut splice = Splice::new();
                    for i in 0..EACH {
                        let key = if sorted { i * 4 + worker } else { mix(i * 4 + worker) };
                        insert(list, &mut splice, &key.to_be_bytes(), i * 4 + worker + 1, b"v");
                        assert_eq!(list.first_from(&key.to_be_bytes(), u64::MAX).unwrap().key(), key.to_be_bytes());
                    }
                });
            }
        });
        check_levels(&list, 4 * EACH as usize);
    }
}

#[test]
fn heights_fall_by_a_fourth_and_depend_on_the_entry_alone() {
    let list = SkipList::new(99, &KeyOrder::Bytewise, b"", false);
    let mut counts = [0_u32; MAXIMUM_HEIGHT + 1];
    for sequence in 1..=400_000 {
        counts[list.height_for(sequence)] += 1;
    }
    for (height, pair) in counts[1..7].windows(2).enumerate() {
        let ratio = f64::from(pair[0]) / f64::from(pair[1]);
        assert!((3.4..4.7).contains(&ratio), "height {}: {ratio}", height + 1);
    }
    let same = SkipList::new(99, &KeyOrder::Bytewise, b"", false);
    assert!((1..1_000).all(|sequence| list.height_for(sequence) == same.height_for(sequence)));
}

#[test]
fn an_empty_list_has_neither_end() {
    let list = SkipList::new(0, &KeyOrder::Bytewise, b"", false);
    assert!(list.first().is_none() && list.last().is_none());
    assert!(list.first_from(b"", u64::MAX).is_none() && list.last_before(b"x", 0).is_none());
}
