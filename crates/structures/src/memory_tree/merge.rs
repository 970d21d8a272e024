//! Merging: nodes that have become sparse are built together with neighbours under the same parent.

use slmdb_env::Result;

use super::node::{Node, Reference};
use super::place::Found;
use super::tree::Settings;
use super::update::{Child, Decision, Update};

/// How much a node has.
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    count: usize,
    bytes: usize,
}

impl Size {
    fn of(reference: Reference) -> Size {
        // SAFETY: the writer asks this of nodes that he has just made, or that are linked.
        let node = unsafe { reference.node() };
        Size { count: node.values(), bytes: node.bytes() }
    }

    fn with(self, other: Size) -> Size {
        Size { count: self.count + other.count, bytes: self.bytes + other.bytes }
    }

    /// Whether this is no more than one node should have, with room for some more.
    fn fits(self, settings: &Settings, level: u8) -> bool {
        let limits = settings.limits(level);
        self.count * 8 <= limits.count_max * 7 && self.bytes * 8 <= limits.bytes_max * 7
    }

    fn is_sparse(self, settings: &Settings, level: u8) -> bool {
        let limits = settings.limits(level);
        self.count * 4 < limits.count_max && self.bytes * 4 < limits.bytes_max
    }
}

impl<K, D, C> Update<'_, K, D, C>
where
    K: AsRef<[u8]>,
    D: FnMut(usize, Option<Found>) -> Result<Decision>,
    C: FnMut(usize, Option<Found>),
{
    /// Whether a node in the place of a child could be merged with one of that child's neighbours.
    pub(super) fn can_merge(&self, parent: Node<'_>, child: usize, new: Reference) -> bool {
        let neighbours = [child.checked_sub(1), Some(child + 1).filter(|&next| next < parent.values())];
        let fits = |neighbour: usize| {
            Size::of(new).with(Size::of(parent.reference(neighbour))).fits(self.settings, parent.level() - 1)
        };
        neighbours.into_iter().flatten().any(fits)
    }

    /// Builds sparse nodes of a level together with their neighbours.
    pub(super) fn merge_sparse(&mut self, level: u8, children: Vec<Child>) -> Result<Vec<Child>> {
        if !children.iter().any(|child| child.is_sparse) {
            return Ok(children);
        }
        let mut merged: Vec<Child> = Vec::with_capacity(children.len());
        let mut rest = &children[..];
        while let Some(first) = rest.first() {
            let (mut count, mut size, mut is_sparse) = (1, Size::of(first.node), first.is_sparse);
            while let Some(next) = rest.get(count)
                && (is_sparse || next.is_sparse)
                && let both = size.with(Size::of(next.node))
                && both.fits(self.settings, level)
            {
                (count, size) = (count + 1, both);
                is_sparse = both.is_sparse(self.settings, level);
            }
            let (together, others) = rest.split_at(count);
            merged.push(if count == 1 { first.clone() } else { self.together(level, together)? });
            rest = others;
        }
        Ok(merged)
    }

    /// One node that has what these have.
    fn together(&mut self, level: u8, nodes: &[Child]) -> Result<Child> {
        let mut keys = std::mem::take(&mut self.writer.scratch);
        keys.clear();
        for child in nodes {
            // SAFETY: made in this turn, or linked.
            let node = unsafe { child.node.node() };
            if level == 0 {
                (0..node.keys()).for_each(|index| keys.push_of(node, index));
            } else {
                if !keys.values.is_empty() {
                    keys.push_key(&child.separator);
                }
                (0..node.keys()).for_each(|index| keys.push_key_of(node, index));
                keys.values.extend((0..node.values()).map(|index| node.value(index)));
            }
            self.writer.pending.unlink(child.node);
        }
        let separator = nodes[0].separator.clone();
        let child = self.writer.child(self.settings, separator, level, &keys, 0..keys.len(), &keys.values);
        self.writer.scratch = keys;
        child
    }
}
