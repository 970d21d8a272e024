//! Comparing keys by 8 bytes that a node keeps beside its tower.
//!
//! Heads belong to the order by bytes. Under a comparator of the user's all heads are 0, which makes every comparison one of
//! whole keys.

use std::cmp::Ordering;

use slmdb_order::KeyOrder;
use slmdb_pmem::Reads;

use super::node::{Node, key_of};

/// A place in the order: before all versions of `key` that are not above `sequence`.
pub(super) struct Target<'a> {
    pub head: u64,
    pub key: &'a [u8],
    pub sequence: u64,
}

/// The first 8 bytes, zero-padded, as a number: `head_of(a) < head_of(b)` implies `a < b`.
#[inline]
pub(crate) fn head_of(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(head) => u64::from_be_bytes(*head),
        None => {
            let mut head = [0; 8];
            head[..bytes.len()].copy_from_slice(bytes);
            u64::from_be_bytes(head)
        }
    }
}

/// Which 8 bytes of a key are its head.
#[derive(Debug)]
pub(super) struct Heads {
    /// What most keys begin with; may be empty, and is where keys are not ordered by bytes.
    prefix: Box<[u8]>,
    order: KeyOrder,
    /// Of the arena, where the keys are.
    pub reads: Reads,
}

impl Heads {
    /// Heads for keys in this order, most of which are expected to begin with this.
    pub fn new(order: &KeyOrder, expected_prefix: &[u8]) -> Heads {
        let prefix = if order.is_bytewise() { expected_prefix } else { &[] };
        Heads { prefix: prefix.into(), order: order.clone(), reads: Reads::default() }
    }

    /// The order of keys.
    #[inline]
    pub fn order(&self) -> &KeyOrder {
        &self.order
    }

    /// What most keys begin with.
    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// Heads never contradict the order of keys: what sorts before the keys with the prefix gets the smallest head, what
    /// sorts behind them the largest.
    #[inline]
    pub fn head_of(&self, key: &[u8]) -> u64 {
        if !self.order.is_bytewise() {
            return 0;
        }
        // Comparing nothing at the address of nothing takes 50 ns on some processors: a masked load that faults, unseen.
        if self.prefix.is_empty() {
            return head_of(key);
        }
        match key.strip_prefix(&*self.prefix) {
            Some(rest) => head_of(rest),
            None if *key < *self.prefix => 0,
            None => u64::MAX,
        }
    }

    #[inline]
    pub fn target<'a>(&self, key: &'a [u8], sequence: u64) -> Target<'a> {
        Target { head: self.head_of(key), key, sequence }
    }

    /// Whether `node`, one of the list's but not its front, comes before the target. Null stands for the end: it does
    /// not.
    #[inline]
    pub fn is_before(&self, node: *const Node, target: &Target<'_>) -> bool {
        if node.is_null() {
            return false;
        }
        // SAFETY: nodes live as long as their list.
        let head = unsafe { (*node).head };
        head < target.head || (head == target.head && self.is_before_by_the_rest(node, target))
    }

    /// [`Heads::is_before`] for equal heads.
    #[inline(never)]
    fn is_before_by_the_rest(&self, node: *const Node, target: &Target<'_>) -> bool {
        // SAFETY: nodes live as long as their list.
        let (length_bytes, sequence) = unsafe { (usize::from((*node).key_length), (*node).sequence) };
        let compared = self.prefix.len() + 8;
        let order: Ordering = if target.head == 0 || target.head == u64::MAX {
            // One of the two may be without the prefix, or keys have no heads.
            self.reads.note();
            // SAFETY: as above.
            self.order.compare(unsafe { key_of(node) }, target.key)
        } else if length_bytes <= compared || target.key.len() <= compared {
            // The shorter key, padded with zeros, equals the longer one as far as that goes: it is a prefix of it.
            length_bytes.cmp(&target.key.len())
        } else {
            self.reads.note();
            // SAFETY: as above.
            let key = unsafe { key_of(node) };
            key[compared..].cmp(&target.key[compared..])
        };
        order.then(target.sequence.cmp(&sequence)).is_lt()
    }
}
