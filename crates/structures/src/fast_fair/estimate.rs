//! How many keys are in a range, about, without reading them all.
//!
//! Up to `COUNTED_MAX` keys are simply read. For more, the tree's own shape tells: on some level few nodes cover the
//! range, so their entries are counted, and each stands for what is below it. How much that is, a sample tells: from
//! evenly spaced entries one path each leads down to a leaf, at random, and the product of the counts on the way is what
//! the subtree would hold if all of it were like that path (Knuth's estimate of a tree's size, which is right on
//! average). A few hundred paths put the mean within some per cent of the truth, whatever the order in which keys came.
//!
//! The work is bounded: `COUNTED_MAX` keys, and `PATHS` paths, and `NODES_MAX` nodes of each level.

use std::ops::Bound;

use slmdb_env::Result;
use slmdb_pmem::Medium;
use slmdb_sync::epoch::Guard;

use super::fences::Target;
use super::node::{Entry, Node};
use super::tree::Tree;
use slmdb_order::Direction;

/// So many keys are counted one by one.
const COUNTED_MAX: usize = 4096;
/// So many nodes of a level are looked at to find the level to begin at.
const NODES_MAX: usize = 256;
/// So many paths are taken down from there.
const PATHS: usize = 512;
/// From each leaf so many records stand for the others.
const RECORDS_OF_LEAF: usize = 4;
/// A node that was replaced leads to its successor in one step, or in few.
const FORWARDS_MAX: usize = 16;

/// A key record that stands for so many keys.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// The offset of the record, for [`Tree::record`] under the guard of the estimate.
    pub record: u64,
    /// How many keys it stands for, itself included.
    pub weight: f64,
}

/// The node of a level that a bound leads to, with the entry of it that the bound is in.
struct Edge<'t> {
    node: Node<'t>,
    entry: Option<u64>,
}

impl<M: Medium> Tree<M> {
    /// Records from a range of keys; their weights add up to about the number of keys in it. If there are no more than a few
    /// thousand, all of them are given, each with the weight 1.
    pub fn sample(&self, range: (Bound<&[u8]>, Bound<&[u8]>), guard: &Guard) -> Result<Vec<Sample>> {
        let mut samples = Vec::new();
        for record in self.range(range.0, Direction::Forward, guard).take(COUNTED_MAX + 1) {
            let record = record?;
            if !self.order.is_up_to(record.key(), range.1) {
                return Ok(samples);
            }
            samples.push(Sample { record: record.offset(), weight: 1.0 });
        }
        if samples.len() <= COUNTED_MAX {
            return Ok(samples);
        }
        // If the tree became a leaf meanwhile, what was counted has to do.
        Ok(self.sample_paths(range, guard)?.unwrap_or(samples))
    }

    /// `None`: the tree is a leaf.
    pub(super) fn sample_paths(
        &self,
        (from, to): (Bound<&[u8]>, Bound<&[u8]>),
        _guard: &Guard,
    ) -> Result<Option<Vec<Sample>>> {
        let target = |bound, at_end| match bound {
            Bound::Included(key) | Bound::Excluded(key) => Target::At(key),
            Bound::Unbounded => at_end,
        };
        let (from, to) = (target(from, Target::First), target(to, Target::Last));
        let mut children = Vec::new();
        let mut level = 0;
        // Nodes are replaced meanwhile, and the root, too: then what was found has to do.
        while let Some(is_whole) = self.children_between(from, to, level + 1, &mut children)? {
            level += 1;
            if is_whole {
                break;
            }
        }
        if level == 0 {
            return Ok(None);
        }
        let paths = children.len().min(PATHS);
        let mut samples = Vec::with_capacity(paths * RECORDS_OF_LEAF);
        let mut entries = Vec::new();
        for path in 0..paths {
            let child = children[path * children.len() / paths];
            let weight = children.len() as f64 / paths as f64;
            self.sample_path(child, level - 1, (path as u64, weight), &mut entries, &mut samples)?;
        }
        Ok(Some(samples))
    }

    /// Goes down from a node to a leaf, choosing as a number says, and samples that.
    fn sample_path(
        &self,
        mut offset: u64,
        level: u8,
        (number, mut weight): (u64, f64),
        entries: &mut Vec<Entry>,
        samples: &mut Vec<Sample>,
    ) -> Result<()> {
        let mut random = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for level in (0..=level).rev() {
            let mut node = self.node(offset, level)?;
            for _ in 0..FORWARDS_MAX {
                match node.forward() {
                    0 => break,
                    forward => node = self.node(forward, level)?,
                }
            }
            node.entries(entries);
            if entries.is_empty() {
                return Ok(());
            }
            if level > 0 {
                weight *= entries.len() as f64;
                random ^= random >> 29;
                random = random.wrapping_mul(0xbf58_476d_1ce4_e5b9);
                offset = entries[(random >> 32) as usize % entries.len()].pointer;
            }
        }
        let taken = entries.len().min(RECORDS_OF_LEAF);
        let weight = weight * entries.len() as f64 / taken as f64;
        let of_leaf = (0..taken).map(|index| entries[index * entries.len() / taken].pointer);
        samples.extend(of_leaf.map(|record| Sample { record, weight }));
        Ok(())
    }

    /// The entries of a level's nodes that cover a range, as far as there are no more than [`NODES_MAX`] of those nodes.
    /// Says whether that is all of them. `None`: the tree does not have that level.
    fn children_between(
        &self,
        from: Target<'_>,
        to: Target<'_>,
        level: u8,
        children: &mut Vec<u64>,
    ) -> Result<Option<bool>> {
        let (Some(first), Some(last)) = (self.edge(from, level)?, self.edge(to, level)?) else { return Ok(None) };
        children.clear();
        let mut node = first.node;
        let mut entries = Vec::new();
        for nodes in 1.. {
            node.entries(&mut entries);
            let position = |edge: &Edge<'_>| {
                let is_it = |entry: &Entry| Some(entry.pointer) == edge.entry;
                if edge.node.offset == node.offset { entries.iter().position(is_it) } else { None }
            };
            let begin = position(&first).unwrap_or(0);
            let end = position(&last).map_or(entries.len(), |end| end + 1).max(begin);
            children.extend(entries[begin..end].iter().map(|entry| entry.pointer));
            if node.offset == last.node.offset || node.sibling() == 0 {
                return Ok(Some(true));
            }
            if nodes == NODES_MAX {
                break;
            }
            node = self.node(node.sibling(), level)?;
        }
        Ok(Some(false))
    }

    /// `None`: the tree does not have that level.
    fn edge(&self, target: Target<'_>, level: u8) -> Result<Option<Edge<'_>>> {
        let Some((node, head)) = self.descend_if_so_high(target, level)? else { return Ok(None) };
        Ok(Some(Edge { node, entry: self.child(&node, &target, head)? }))
    }
}
