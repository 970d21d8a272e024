//! Reading in order, in batches: keys, places and sequence numbers are copied out, so nothing is held between two reads.
//!
//! A read takes whole leaves. From one leaf to the next it goes by the parents on its path, as they were when it met them: so
//! leaves border on each other, no key comes twice, and none that stays is missed. Each leaf is as it was at a moment of its own
//! within the read.

use std::ops::Bound;

use slmdb_order::Direction;
use slmdb_sync::epoch::Guard;

use super::node::{Node, head_bytes};
use super::place::Found;
use super::tree::{LEVELS_MAX, MemoryTree};

/// Bytes of a whole head.
const HEAD_BYTES: usize = 4;
/// So many leaves are asked for ahead.
const LEAVES_AHEAD: usize = 2;

/// What was read of a range.
#[derive(Debug, Clone, Default)]
pub struct RangeRead {
    keys: Vec<u8>,
    /// Where each key ends, and what the index has of it.
    entries: Vec<(usize, Found)>,
    next: Option<Bound<Vec<u8>>>,
}

impl RangeRead {
    /// How many keys were read.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none in the rest of the range.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Key `index` of those that were read, in the order of the read (descending, if it went backward), and what the index has of it.
    #[inline]
    pub fn entry(&self, index: usize) -> (&[u8], Found) {
        let start = if index == 0 { 0 } else { self.entries[index - 1].0 };
        let (end, found) = self.entries[index];
        (&self.keys[start..end], found)
    }

    /// All that was read, in the order of the read.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], Found)> + Clone {
        (0..self.len()).map(|index| self.entry(index))
    }

    /// Where each key ends among those of [`RangeRead::swap_keys`], and what the index has of it.
    pub fn ends(&self) -> impl ExactSizeIterator<Item = (usize, Found)> {
        self.entries.iter().copied()
    }

    /// Gives all keys, one behind the other, for a buffer. After that only [`RangeRead::ends`] and [`RangeRead::next`] tell of what was
    /// read.
    pub fn swap_keys(&mut self, buffer: &mut Vec<u8>) {
        std::mem::swap(&mut self.keys, buffer);
    }

    /// The bound from which the next read goes on in the same direction. All that the index had up to there was read. `None`:
    /// nothing is left.
    pub fn next(&self) -> Option<Bound<&[u8]>> {
        self.next.as_ref().map(|next| next.as_ref().map(Vec::as_slice))
    }

    /// What its buffers take, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        (self.keys.capacity() + self.entries.capacity() * size_of::<(usize, Found)>()) as u64
    }

    /// Forgets what was read, and keeps the buffers.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.entries.clear();
        self.next = None;
    }

    #[inline(always)]
    fn push(&mut self, leaf: Node<'_>, index: usize) {
        leaf.append_key(index, &mut self.keys);
        self.entries.push((self.keys.len(), leaf.found(index)));
    }

    /// Copies entries out of a leaf.
    #[inline(always)]
    fn push_all(&mut self, leaf: Node<'_>, from: usize, to: usize) {
        let has_bytes = |(head, tail): &(usize, usize)| leaf.prefix().len() + head + tail > 0;
        let Some((head, tail)) = (from < to).then(|| leaf.fixed_suffix()).flatten().filter(has_bytes) else {
            (from..to).for_each(|index| self.push(leaf, index));
            return;
        };
        // All of one length: no look at what each looks like.
        let (prefix, heads, tails) = (leaf.prefix(), leaf.heads(), leaf.tails());
        let (begin, length) = (self.keys.len(), prefix.len() + head + tail);
        let all = begin + (to - from) * length;
        // Heads are written whole. If one has fewer bytes, what comes behind it is written over the rest.
        self.keys.resize(all + HEAD_BYTES, 0);
        for (index, start) in (from..to).zip((begin..).step_by(length)) {
            let (start, rest) = self.keys[start..].split_at_mut(prefix.len());
            start.copy_from_slice(prefix);
            rest[..HEAD_BYTES].copy_from_slice(&head_bytes(heads[index]));
            rest[head..head + tail].copy_from_slice(&tails[index * tail..][..tail]);
        }
        self.keys.truncate(all);
        let mut end = begin;
        self.entries.extend((from..to).map(|index| {
            end += length;
            (end, leaf.found(index))
        }));
    }
}

/// The way from the root to a leaf: inner nodes, and which of their children it takes.
struct Path<'g> {
    steps: [Option<(Node<'g>, usize)>; LEVELS_MAX],
    depth: usize,
    leaf: Node<'g>,
}

impl<'g> Path<'g> {
    fn new(root: Node<'g>, child_of: impl Fn(Node<'g>) -> usize) -> Path<'g> {
        let mut path = Path { steps: [None; LEVELS_MAX], depth: 0, leaf: root };
        path.descend(child_of);
        path
    }

    /// Goes down to a leaf.
    #[inline]
    fn descend(&mut self, child_of: impl Fn(Node<'g>) -> usize) {
        while self.leaf.level() > 0 {
            let (node, index) = (self.leaf, child_of(self.leaf));
            node.reference(index).prefetch();
            self.steps[self.depth] = Some((node, index));
            self.depth += 1;
            self.leaf = node.child(index);
        }
    }

    /// Asks for the leaves that come next under the same parent.
    fn prefetch_next(&self, direction: Direction) {
        let Some((parent, index)) = self.depth.checked_sub(1).and_then(|last| self.steps[last]) else { return };
        for ahead in 1..=LEAVES_AHEAD {
            let next = match direction {
                Direction::Forward => Some(index + ahead).filter(|&next| next < parent.values()),
                Direction::Backward => index.checked_sub(ahead),
            };
            next.into_iter().for_each(|next| parent.reference(next).prefetch());
        }
    }

    /// The node where the way to the next leaf leaves this one, with the child that it takes now and the one that it takes then.
    /// `None`: there is no next one.
    fn turn(&self, direction: Direction) -> Option<(usize, Node<'g>, usize)> {
        (0..self.depth).rev().find_map(|depth| {
            let (node, index) = self.steps[depth]?;
            let next = match direction {
                Direction::Forward => Some(index + 1).filter(|&next| next < node.values())?,
                Direction::Backward => index.checked_sub(1)?,
            };
            Some((depth, node, next))
        })
    }

    /// Goes to the next leaf.
    fn take(&mut self, (depth, node, next): (usize, Node<'g>, usize), direction: Direction) {
        self.steps[depth] = Some((node, next));
        self.depth = depth + 1;
        self.leaf = node.child(next);
        self.descend(|node| match direction {
            Direction::Forward => 0,
            Direction::Backward => node.values() - 1,
        });
    }
}

impl MemoryTree {
    /// Reads keys from a bound on, to larger ones or to smaller ones: whole leaves, until there are at least so many (one leaf, if that
    /// is 0) or no more. What was in `into` before is gone.
    pub fn read(&self, from: Bound<&[u8]>, direction: Direction, at_least: usize, guard: &Guard, into: &mut RangeRead) {
        into.clear();
        let root = self.root(guard);
        let mut path = match (from, direction) {
            (Bound::Unbounded, Direction::Forward) => Path::new(root, |_| 0),
            (Bound::Unbounded, Direction::Backward) => Path::new(root, |node| node.values() - 1),
            // What is below a separator lies before it, and the separator's own key behind it.
            (Bound::Excluded(key), Direction::Backward) => {
                Path::new(root, |node| node.find(key).unwrap_or_else(|below| below))
            }
            (Bound::Included(key) | Bound::Excluded(key), _) => Path::new(root, |node| node.child_of(key)),
        };
        let (mut start, mut end) = slots(path.leaf, from, direction);
        loop {
            let leaf = path.leaf;
            if into.len() + (end - start) < at_least {
                path.prefetch_next(direction);
            }
            match direction {
                Direction::Forward => into.push_all(leaf, start, end),
                Direction::Backward => (start..end).rev().for_each(|index| into.push(leaf, index)),
            }
            let Some(turn) = path.turn(direction) else { return };
            let (_, node, next) = turn;
            if into.len() >= at_least && (at_least > 0 || !into.is_empty()) {
                into.next = Some(match direction {
                    Direction::Forward => Bound::Included(node.key(next - 1)),
                    Direction::Backward => Bound::Excluded(node.key(next)),
                });
                return;
            }
            path.take(turn, direction);
            (start, end) = (0, path.leaf.keys());
        }
    }
}

/// The slots of the first leaf that belong to a range.
fn slots(leaf: Node<'_>, from: Bound<&[u8]>, direction: Direction) -> (usize, usize) {
    let below = |key: &[u8]| leaf.find(key).unwrap_or_else(|below| below);
    let upto = |key: &[u8]| leaf.find(key).map_or_else(|below| below, |equal| equal + 1);
    match (from, direction) {
        (Bound::Unbounded, _) => (0, leaf.keys()),
        (Bound::Included(key), Direction::Forward) => (below(key), leaf.keys()),
        (Bound::Excluded(key), Direction::Forward) => (upto(key), leaf.keys()),
        (Bound::Included(key), Direction::Backward) => (0, upto(key)),
        (Bound::Excluded(key), Direction::Backward) => (0, below(key)),
    }
}
