//! How many keys are in a range, about, without reading them all.
//!
//! Up to `COUNTED_MAX` keys are read. For more the tree's shape tells: on some level few nodes cover the range, and each of their
//! children stands for what is below it. How much that is, paths tell that lead from some of them to leaves, at random: the
//! product of the counts on the way is what the subtree would hold if all of it were like that (Knuth's estimate of a tree's
//! size, which is right on average).

use std::ops::Bound;

use slmdb_order::Direction;
use slmdb_sync::epoch::Guard;

use super::node::Node;
use super::place::{Found, Place};
use super::read::RangeRead;
use super::tree::MemoryTree;

/// So many keys are counted one by one.
const COUNTED_MAX: usize = 4096;
/// With so many children of a level the search for a level ends.
const CHILDREN_MIN: usize = 512;
/// So many paths are taken down from there.
const PATHS: usize = 512;
/// From each leaf so many keys stand for the others.
const KEYS_OF_LEAF: usize = 4;

/// A key that stands for so many.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Where its entry lies.
    pub place: Place,
    /// How long it is, in bytes.
    pub key_bytes: usize,
    /// How many keys it stands for, itself included.
    pub weight: f64,
}

impl MemoryTree {
    /// Keys of a range; their weights add up to about the number of keys in it. If there are no more than a few thousand, all of them
    /// are given, each with the weight 1.
    pub fn sample(&self, range: (Bound<&[u8]>, Bound<&[u8]>), guard: &Guard) -> Vec<Sample> {
        let mut read = RangeRead::default();
        self.read(range.0, Direction::Forward, COUNTED_MAX + 1, guard, &mut read);
        let is_within = |(key, _): &(&[u8], Found)| match range.1 {
            Bound::Included(to) => *key <= to,
            Bound::Excluded(to) => *key < to,
            Bound::Unbounded => true,
        };
        let whole = |(key, found): (&[u8], Found)| Sample { place: found.place, key_bytes: key.len(), weight: 1.0 };
        let counted: Vec<Sample> = read.iter().take_while(is_within).map(whole).collect();
        if counted.len() < read.len() || read.next().is_none() {
            return counted;
        }
        self.sample_paths(range, guard)
    }

    fn sample_paths(&self, range: (Bound<&[u8]>, Bound<&[u8]>), guard: &Guard) -> Vec<Sample> {
        let mut children = vec![self.root(guard)];
        while children.len() < CHILDREN_MIN && children[0].level() > 0 {
            children = children_within(&children, range);
        }
        let paths = children.len().min(PATHS);
        let weight = children.len() as f64 / paths as f64;
        let starts = (0..paths).map(|path| children[path * children.len() / paths]);
        starts.zip(1..).flat_map(|(start, number)| sample_path(start, number, weight)).collect()
    }
}

/// The children of some nodes, next to each other, that a range needs.
fn children_within<'g>(nodes: &[Node<'g>], (from, to): (Bound<&[u8]>, Bound<&[u8]>)) -> Vec<Node<'g>> {
    let index_of = |node: Node<'_>, bound: Bound<&[u8]>, else_index| match bound {
        Bound::Included(key) | Bound::Excluded(key) => node.child_of(key),
        Bound::Unbounded => else_index,
    };
    let mut children = Vec::new();
    for (position, &node) in nodes.iter().enumerate() {
        let last_value = node.values() - 1;
        let begin = if position == 0 { index_of(node, from, 0) } else { 0 };
        let end = if position + 1 == nodes.len() { index_of(node, to, last_value) } else { last_value };
        children.extend((begin..=end).map(|index| node.child(index)));
    }
    children
}

/// Goes down from a node to a leaf, choosing as a number says, and samples that.
fn sample_path(mut node: Node<'_>, number: u64, mut weight: f64) -> impl Iterator<Item = Sample> {
    let mut random = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    while node.level() > 0 {
        weight *= node.values() as f64;
        random ^= random >> 29;
        random = random.wrapping_mul(0xbf58_476d_1ce4_e5b9);
        node = node.child((random >> 32) as usize % node.values());
    }
    let taken = node.keys().min(KEYS_OF_LEAF);
    let weight = weight * node.keys() as f64 / taken as f64;
    (0..taken).map(move |sample| {
        let index = sample * node.keys() / taken;
        Sample { place: node.found(index).place, key_bytes: node.key_bytes(index), weight }
    })
}
