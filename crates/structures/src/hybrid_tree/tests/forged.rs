//! Chains that somebody has made up, with every check right: an opening comes to its end, and takes no leaf that is not the tree's.

use std::sync::Arc;

use slmdb_env::{ErrorKind, Result};
use slmdb_order::KeyOrder;
use slmdb_pmem::{Dram, Slots};

use super::super::layout::{FIRST_OFFSET, link};
use super::super::leaf::Leaf;
use super::super::{HybridTree, root_of};
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
