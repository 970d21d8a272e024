//! Readers that are held up between their two looks at the commit word.

use std::sync::Arc;

use slmdb_order::KeyOrder;
use slmdb_pmem::{Dram, Pool, PoolOptions, Slots};

use super::super::{Entry, HybridTree, LeafCopy, Place, Size, Version};
use super::meanwhile;
use crate::EntryKind;

pub(super) fn entry(key: &[u8], sequence: u64) -> Entry<'_> {
    let version = Version { sequence, kind: EntryKind::Put, file: 1, offset: 0, length_bytes: 1 };
    Entry { key, version }
}

pub(super) fn tree(keys: &[&[u8]]) -> Arc<HybridTree<Dram>> {
    let options = PoolOptions { initial_bytes: 0, growth_bytes: 1 << 16, maximum_bytes: 8 << 20, uuid: [1; 16] };
    let pool = Arc::new(Pool::anonymous(Dram, &options).unwrap());
    let slots = Arc::new(Slots::open(pool).unwrap());
    let tree = HybridTree::create(slots, 0, 1, KeyOrder::Bytewise).unwrap();
    tree.apply(keys.iter().map(|key| entry(key, 1)), |_, _| {}).unwrap();
    Arc::new(tree)
}

#[test]
fn a_miss_counts_only_if_the_leaf_is_as_it_was() {
    let tree = tree(&[b"a", b"c"]);
    let other = Arc::clone(&tree);
    meanwhile(move || other.apply([entry(b"b", 2)], |_, _| {}).unwrap());
    assert_eq!(tree.get(b"b").unwrap().map(|version| version.sequence), Some(2));
}

#[test]
fn a_copy_is_of_one_moment() {
    let tree = tree(&[b"a", b"c"]);
    let other = Arc::clone(&tree);
    meanwhile(move || {
        other.remove([(&b"c"[..], 1)]).unwrap();
        other.apply([entry(b"b", 2)], |_, _| {}).unwrap();
    });
    let mut copy = LeafCopy::default();
    assert!(tree.copy_leaf(Place::First, &mut copy).unwrap());
    assert_eq!(copy.iter().map(|(key, _)| key).collect::<Vec<_>>(), [b"a", b"b"]);
}

/// What is replaced under a reader is not used again while the reader is there.
#[test]
fn a_reader_keeps_what_it_came_by() {
    let keys: Vec<Vec<u8>> = (0..48).map(|number| vec![b'a' + number]).collect();
    let tree = tree(&keys.iter().map(|key| &key[..]).collect::<Vec<_>>());
    let other = Arc::clone(&tree);
    meanwhile(move || {
        // Splits the leaf, and then asks for everything that is free again.
        for sequence in 2..200 {
            let more: Vec<Vec<u8>> = keys.iter().map(|key| [key, &[sequence as u8][..]].concat()).collect();
            other.apply(more.iter().map(|key| entry(key, sequence)), |_, _| {}).unwrap();
            other.remove(more.iter().map(|key| (&key[..], sequence))).unwrap();
            slmdb_sync::epoch::pin().flush();
        }
        assert!(other.slots().retiring() > 0);
    });
    let mut copy = LeafCopy::default();
    assert!(tree.copy_leaf(Place::First, &mut copy).unwrap());
    assert!(copy.iter().all(|(key, version)| key.len() == 1 && version.sequence == 1), "{copy:?}");
}

/// Whoever keeps it for earlier moments is told before a reader can miss it: the reader looks into the tree first.
#[test]
fn what_is_replaced_is_told_while_the_tree_still_has_it() {
    let tree = tree(&[b"a", b"b"]);
    let mut told = Vec::new();
    tree.apply([entry(b"b", 2), entry(b"c", 2)], |entry, old| {
        told.push((entry.key.to_vec(), old.sequence, tree.get(entry.key).unwrap().map(|found| found.sequence)));
    })
    .unwrap();
    assert_eq!(told, [(b"b".to_vec(), 1, Some(1))]);
    assert_eq!(tree.get(b"b").unwrap().map(|found| found.sequence), Some(2));
}

/// A flush changes a tree for a tenth of a second. Who admits writes wants to know its size meanwhile.
#[test]
fn the_size_is_known_while_the_tree_changes() {
    let tree = tree(&[b"a", b"c"]);
    let mut seen = None;
    tree.apply([entry(b"a", 2), entry(b"b", 2)], |_, _| seen = Some(tree.size())).unwrap();
    let (before, after) = (seen.unwrap(), tree.size());
    assert_eq!((before.keys, after.keys), (2, 3));
    let counts = tree.counts();
    assert_eq!((after.leaves, after.bytes), (counts.leaves, counts.leaf_bytes + counts.record_bytes));
    tree.remove([(&b"b"[..], 2)]).unwrap();
    assert_eq!(tree.size().keys, 2);
    tree.cut_through(b"a").unwrap();
    assert_eq!(tree.size().keys, 1);
    tree.begin_again(2).unwrap();
    assert_eq!(tree.size(), Size::default());
}

fn numbered(numbers: std::ops::Range<u32>) -> Vec<Vec<u8>> {
    numbers.map(|number| format!("{number:05}").into_bytes()).collect()
}

fn tree_of(keys: &[Vec<u8>]) -> Arc<HybridTree<Dram>> {
    tree(&keys.iter().map(|key| &key[..]).collect::<Vec<_>>())
}

fn keys_of(copy: &LeafCopy) -> Vec<Vec<u8>> {
    copy.iter().map(|(key, _)| key.to_vec()).collect()
}

#[test]
fn leaves_copied_together_are_those_copied_one_by_one() {
    let keys = numbered(0..600);
    let tree = tree_of(&keys);
    for start in [0, 1, 47, 300, 599] {
        let (mut one_by_one, mut next) = (Vec::new(), Some(keys[start].clone()));
        while let Some(from) = next {
            let mut copy = LeafCopy::default();
            assert!(tree.copy_leaf(Place::At(&from), &mut copy).unwrap());
            next = copy.high().map(<[u8]>::to_vec);
            one_by_one.push(copy);
        }
        for most in 1..6 {
            let mut together = LeafCopy::default();
            assert!(tree.copy_leaves(Place::At(&keys[start]), most, &mut together).unwrap());
            let leaves = &one_by_one[..most.min(one_by_one.len())];
            let expected: Vec<_> = leaves.iter().flat_map(keys_of).collect();
            assert!(keys_of(&together) == expected && expected.contains(&keys[start]));
            assert_eq!((together.low(), together.high()), (leaves[0].low(), leaves[leaves.len() - 1].high()));
        }
    }
}

#[test]
fn a_copy_of_leaves_ends_before_one_that_changes() {
    let keys = numbered(0..200);
    let tree = tree_of(&keys);
    let mut first = LeafCopy::default();
    assert!(tree.copy_leaf(Place::First, &mut first).unwrap());
    let (high, new) = (first.high().unwrap().to_vec(), [first.high().unwrap(), b" new"].concat());
    let (other, key) = (Arc::clone(&tree), new.clone());
    // The first look is at the first leaf.
    meanwhile(move || meanwhile(move || other.apply([entry(&key, 2)], |_, _| {}).unwrap()));
    let mut copy = LeafCopy::default();
    assert!(tree.copy_leaves(Place::First, 4, &mut copy).unwrap());
    assert!(keys_of(&copy) == keys_of(&first) && copy.high() == Some(&high[..]));
    assert!(tree.copy_leaves(Place::At(&high), 4, &mut copy).unwrap());
    assert!(keys_of(&copy).contains(&new));
}

#[test]
fn a_copy_is_in_order_whatever_its_keys_have_in_common() {
    let heads = [&b""[..], b"a", b"the same long beginning of all"];
    for head in heads {
        let ends = [
            &b""[..],
            b"\0",
            b"\0\0",
            b"\0\0\0\0\0\0\0\0",
            b"\0\0\0\0\0\0\0\0\0",
            b"12345678",
            b"123456780",
            b"b",
            b"b\0",
        ];
        let mut keys: Vec<Vec<u8>> = ends.iter().map(|end| [head, end].concat()).collect();
        keys.sort();
        let mut copy = LeafCopy::default();
        assert!(tree_of(&keys).copy_leaf(Place::First, &mut copy).unwrap());
        assert_eq!(keys_of(&copy), keys);
    }
    let unlike =
        [&b""[..], b"\0", b"a", b"b", b"\xff\xff\xff\xff\xff\xff\xff\xff", b"\xff\xff\xff\xff\xff\xff\xff\xff1"];
    let mut copy = LeafCopy::default();
    assert!(tree(&unlike).copy_leaf(Place::First, &mut copy).unwrap());
    assert_eq!(keys_of(&copy), unlike);
}
