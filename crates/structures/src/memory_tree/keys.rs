//! [`Keys`]: what a node is built of; and where many keys are cut into several nodes.

use std::ops::Range;

use slmdb_order::common_prefix_bytes;

use super::node::Node;

/// Keys in ascending order, one behind the other, with a value each (one more in inner nodes), and in leaves sequence numbers.
#[derive(Debug, Default)]
pub(super) struct Keys {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    pub(super) values: Vec<u64>,
    pub(super) numbers: Vec<u64>,
}

impl Keys {
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.values.clear();
        self.numbers.clear();
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    #[inline]
    pub fn key(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[start..self.ends[index]]
    }

    /// A key without its value.
    #[inline]
    pub fn push_key(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    /// A key of a leaf.
    #[inline]
    pub fn push(&mut self, key: &[u8], value: u64, number: u64) {
        self.push_key(key);
        self.values.push(value);
        self.numbers.push(number);
    }

    /// Key `index` of a node, without its value.
    #[inline]
    pub fn push_key_of(&mut self, node: Node<'_>, index: usize) {
        node.append_key(index, &mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    /// Entry `index` of a leaf.
    #[inline]
    pub fn push_of(&mut self, leaf: Node<'_>, index: usize) {
        self.push_key_of(leaf, index);
        self.values.push(leaf.value(index));
        self.numbers.push(leaf.number(index));
    }

    /// About the bytes that a key takes in a node, with its value and number.
    pub fn cost_bytes(&self, index: usize, prefix_bytes: usize) -> usize {
        self.key(index).len() - prefix_bytes + 14
    }

    /// What all keys begin with, in bytes.
    pub fn prefix_bytes(&self, range: Range<usize>) -> usize {
        if range.is_empty() { 0 } else { common_prefix_bytes(self.key(range.start), self.key(range.end - 1)) }
    }
}

/// The shortest key that is above `left` and not above `right`. REQUIRES: `left` is below `right`.
pub(super) fn separator(left: &[u8], right: &[u8]) -> Vec<u8> {
    right[..(common_prefix_bytes(left, right) + 1).min(right.len())].to_vec()
}

/// How nodes are cut.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Most keys of a leaf, or children of an inner node.
    pub count_max: usize,
    /// A node with more bytes has no more than [`Limits::count_min`].
    pub bytes_max: usize,
    pub count_min: usize,
}

/// Where `count` items are cut: the ends of the pieces. What is too much for one node becomes pieces of three quarters, about
/// equal in bytes; or `full` ones, where what comes next comes behind.
pub(super) fn cuts(count: usize, limits: Limits, is_full: bool, cost_bytes: impl Fn(usize) -> usize) -> Vec<usize> {
    let total: usize = (0..count).map(&cost_bytes).sum();
    if count <= limits.count_max && total <= limits.bytes_max {
        return vec![count];
    }
    let (numerator, denominator) = if is_full { (1, 1) } else { (3, 4) };
    let most = |limit: usize| (limit * numerator / denominator).max(1);
    let pieces = count.div_ceil(most(limits.count_max)).max(total.div_ceil(most(limits.bytes_max))).max(2);
    let (bytes_each, count_each) = (total.div_ceil(pieces), count.div_ceil(pieces));
    let (mut ends, mut bytes, mut begin) = (Vec::with_capacity(pieces), 0, 0);
    for item in 0..count {
        let (cost, here) = (cost_bytes(item), item - begin);
        let is_enough = if is_full {
            here == limits.count_max
        } else {
            bytes + cost / 2 > bytes_each || here == limits.count_max || (here == count_each && bytes * 2 > bytes_each)
        };
        if here >= limits.count_min && (is_enough || bytes + cost > limits.bytes_max) {
            ends.push(item);
            (begin, bytes) = (item, 0);
        }
        bytes += cost;
    }
    ends.push(count);
    ends
}
