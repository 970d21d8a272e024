//! Chains that somebody has made up, with every check right: an opening comes to its end, and takes no leaf that is not the tree's.

use std::sync::Arc;

use slmdb_env::{ErrorKind, Result};
use slmdb_order::KeyOrder;
use slmdb_pmem::{Dram, Slots};

use super::super::layout::{FIRST_OFFSET, VALID_BITS, link};
use super::super::leaf::{Leaf, slots_of};
use super::super::read::{LeafCopy, Place};
use super::super::tree::{HybridTree, root_of};
use super::pauses::{entry, tree};

type Tree = HybridTree<Dram>;

fn keys(count: u32) -> Vec<Vec<u8>> {
    (0..count).map(|number| format!("key {number:04}").into_bytes()).collect()
}

/// The leaves of a tree in the order of its directory.
fn leaves(tree: &Tree) -> Vec<u64> {
    let state = tree.published.load_full();
    let (mut all, mut at) = (Vec::new(), state.directory.first());
    while let Some(position) = at {
        all.push(state.directory.leaf(position));
        at = state.directory.next(position);
    }
    all
}

/// Lets a word lead to a leaf.
fn forge(tree: &Tree, place: u64, target: u64) {
    tree.pool.store(place, link(place, target)).unwrap();
}

fn first_place(tree: &Tree) -> u64 {
    root_of(&tree.pool, tree.number) + FIRST_OFFSET
}

fn open_again(tree: &Tree, number: u32) -> Result<Tree> {
    let slots = Arc::new(Slots::open(Arc::clone(&tree.pool))?);
    HybridTree::open(slots, number, KeyOrder::Bytewise, |_| true)
}

/// (Trap 11.)
#[test]
fn a_chain_that_goes_round_is_refused() {
    let keys = keys(200);
    let tree = tree(&keys.iter().map(|key| &key[..]).collect::<Vec<_>>());
    let leaves = leaves(&tree);
    assert!(leaves.len() > 3);
    assert_eq!(open_again(&tree, 0).unwrap().counts().keys, 200);
    for (from, to) in [(leaves.len() - 1, 0), (1, 1), (2, 1)] {
        let leaf = Leaf::at(&tree.pool, leaves[from], 0, 1).unwrap();
        let before = leaf.next(&tree.pool).unwrap();
        forge(&tree, leaf.next_place(), leaves[to]);
        assert_eq!(open_again(&tree, 0).unwrap_err().kind(), ErrorKind::Corruption, "from {from} to {to}");
        forge(&tree, leaf.next_place(), before);
    }
    assert_eq!(open_again(&tree, 0).unwrap().counts().keys, 200);
}

/// Leaves are copied together. One that is damaged kept back those before it.
#[test]
fn a_damaged_leaf_keeps_back_none_before_it() {
    let keys = keys(300);
    let tree = tree(&keys.iter().map(|key| &key[..]).collect::<Vec<_>>());
    let leaves = leaves(&tree);
    assert!(leaves.len() > 4);
    let mut sound = LeafCopy::default();
    assert!(tree.copy_leaves(Place::First, 2, &mut sound).unwrap());
    let third = sound.high().unwrap().to_vec();
    let leaf = Leaf::at(&tree.pool, leaves[2], 0, 1).unwrap();
    let record = leaf.record(slots_of(leaf.commit() & VALID_BITS).next().unwrap());
    tree.pool.store(record, tree.pool.load(record).unwrap() ^ 1).unwrap();
    let mut copy = LeafCopy::default();
    assert!(tree.copy_leaves(Place::First, 4, &mut copy).unwrap());
    assert!(copy.iter().eq(sound.iter()) && copy.high() == Some(&third[..]));
    assert_eq!(tree.copy_leaves(Place::At(&third), 4, &mut copy).unwrap_err().kind(), ErrorKind::Corruption);
}

/// A leaf says which tree it is of, and of which epoch (trap 11).
#[test]
fn leaves_of_another_tree_or_an_earlier_epoch_are_refused() {
    let tree = tree(&[b"a", b"b"]);
    let other = HybridTree::create(Arc::clone(tree.slots()), 1, 1, KeyOrder::Bytewise).unwrap();
    other.apply([entry(b"c", 1)], |_, _| {}).unwrap();
    let (own, foreign) = (leaves(&tree)[0], leaves(&other)[0]);
    forge(&tree, first_place(&tree), foreign);
    assert_eq!(open_again(&tree, 0).unwrap_err().kind(), ErrorKind::Corruption);
    forge(&tree, first_place(&tree), own);
    assert_eq!(open_again(&tree, 0).unwrap().counts().keys, 2);
    // What the epoch before has left. No slot was used again.
    tree.begin_again(2).unwrap();
    forge(&tree, first_place(&tree), own);
    assert_eq!(open_again(&tree, 0).unwrap_err().kind(), ErrorKind::Corruption);
}
