//! How much of the pool a flush may come to need: bounds that hold whatever the keys are.
//!
//! What is accepted into a MemTable must find room when it is flushed. So the pool holds that much in reserve
//! ([`Pool::set_reserve`]), and this is where the number comes from: [`segment_bytes_max`] for the key segment,
//! [`Tree::node_bytes_max`] for the tree.
//!
//! # Nodes
//!
//! Let h be half the slots of a node. A node that overflows is replaced by nodes that are half full at least (`build` has
//! a test of that), so the next of them overflows after h more insertions. Count for each leaf the entries that it has
//! beyond h. Each put adds one, a split of one leaf into m takes (m - 1) h away, and a merge, which makes one leaf of two,
//! adds less than h. At first there are h of them in each leaf at most. So n puts make no more than
//!
//! ```text
//! leaves + n / h     (and no more than n)
//! ```
//!
//! leaves more than there are. (Ascending keys leave full leaves behind at the right end of a level and a last one with a
//! single entry. That one is as many entries short of h as the full ones are beyond; it counts as one leaf more.) The
//! same holds for each level of inner nodes, where the new nodes of the level below are the puts.
//!
//! Nodes that were replaced are used again only when no reader can be there, which is a few hundred entries later
//! ([`ENTRIES_UNDER_ONE_GUARD`]). Until then they are needed twice. If somebody keeps a reader waiting for longer than
//! that, the bound may be short for a while: then a flush finds the pool full, waits, and goes on.
//!
//! # Fences
//!
//! Fences of keys up to 12 bytes fit into the node. Each fence is a prefix of a key that was there when its node was
//! split, or under a comparator the whole of it, and no two on a level are the same. So keys that are longer than
//! [`LONG_KEY_BYTES`] make fences that are no longer together than they are, twice for each level: low fence of one node,
//! high fence of its neighbour. Or each node has the longest fences there can be; the smaller of both counts.
//!
//! Fences outlive their keys. Those in blocks are seen by their blocks; those in nodes are not, so once there are fences at
//! all, some may be as long as fits into a node.

use std::collections::BTreeMap;

use slmdb_env::Result;
use slmdb_pmem::{Blocks, Extent, ExtentKind, Medium, Pool, UNIT_BYTES};

use super::build::slots_of;
use super::fences::FENCE_BYTES_INLINE;
use super::intent::{INTENTS_BYTES, NEW_NODES_MAX};
use super::key_record::{MAXIMUM_KEY_BYTES, SEGMENT_HEADER_BYTES, key_record_bytes_max, key_records_bytes_max};
use super::part::Header;
use super::tree::Tree;
use crate::{KeyLengths, LONG_KEY_BYTES};

/// After so many entries at most, a writer of many records lets go of its epoch guard: nodes that were replaced
/// are used again only then. [`Tree::node_bytes_max`] counts on it.
pub const ENTRIES_UNDER_ONE_GUARD: usize = 256;
/// For so many times as many entries the replaced nodes are waited for: until every thread has seen the epoch change.
const GUARDS_WAITED_FOR: u64 = 4;
/// Two fences that are no longer than [`LONG_KEY_BYTES`] fit into the smallest block.
const SHORT_FENCES_BYTES: u32 = 64;
const _: () = assert!(2 * LONG_KEY_BYTES <= SHORT_FENCES_BYTES as usize);

/// The keys of the segments in a pool that belong to a file of the store (`is_there` says which do), from their headers. Where a
/// header is damaged, keys are as long as can be.
pub fn key_lengths_in_segments<M: Medium>(pool: &Pool<M>, is_there: impl Fn(u32) -> bool) -> KeyLengths {
    let mut all = KeyLengths::default();
    let counts = |extent: &&Extent| extent.kind == ExtentKind::KeySegment && is_there(extent.owner);
    for extent in pool.extents().iter().filter(counts) {
        let unknown = KeyLengths { longest_bytes: MAXIMUM_KEY_BYTES as u32, long_bytes: extent.length_bytes };
        all.add_all(Header::read(pool, extent).map_or(unknown, |header| header.keys));
    }
    all
}

/// What the key segment of a table file takes of the pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SegmentSize {
    /// Its extents, in bytes.
    pub extent_bytes: u64,
    /// What of them its headers and records fill.
    pub filled_bytes: u64,
}

impl SegmentSize {
    /// Those of all segments in a pool, by their table files. Where a header is damaged, the extent is taken as full.
    pub fn of_files<M: Medium>(pool: &Pool<M>) -> BTreeMap<u32, SegmentSize> {
        let mut sizes = BTreeMap::new();
        for extent in pool.extents().iter().filter(|extent| extent.kind == ExtentKind::KeySegment) {
            let size: &mut SegmentSize = sizes.entry(extent.owner).or_default();
            let records_bytes = Header::read(pool, extent).map_or(extent.length_bytes, |header| header.length_bytes);
            size.extent_bytes += extent.length_bytes;
            size.filled_bytes += extent.length_bytes.min(SEGMENT_HEADER_BYTES + records_bytes);
        }
        sizes
    }
}

/// What a pool's reserve has to be counted in, for keys of this length: the longest record, and the largest block of
/// fences, fit into so many bytes in a row.
pub fn piece_bytes(longest_key_bytes: u32) -> u64 {
    Blocks::<slmdb_pmem::Dram>::extent_bytes_max(2 * longest_key_bytes.min(MAXIMUM_KEY_BYTES as u32), 1, UNIT_BYTES)
        .max(SEGMENT_HEADER_BYTES + key_record_bytes_max(longest_key_bytes as usize))
        .next_multiple_of(UNIT_BYTES)
}

/// What a key segment of so many records takes of the pool at most, if it lies in pieces of `piece_bytes`: at the end of each, there
/// is less room left than the longest record needs.
pub fn segment_bytes_max(records: u64, key_bytes: u64, longest_key_bytes: u32, piece_bytes: u64) -> u64 {
    let longest = key_record_bytes_max(longest_key_bytes as usize);
    let in_a_piece = piece_bytes.saturating_sub(SEGMENT_HEADER_BYTES + longest - 8).max(8);
    key_records_bytes_max(records, key_bytes).div_ceil(in_a_piece).max(1).saturating_mul(piece_bytes)
}

impl<M: Medium> Tree<M> {
    /// The size of the block for fences of so many bytes, the longer one of which has `longest_bytes`. Never that of a node,
    /// so that the blocks of that size are the nodes, and their number is known; and never the smallest for a long fence, so
    /// that it is known too whether there are any.
    pub(super) fn fence_block_bytes(&self, bytes: usize, longest_bytes: usize) -> u32 {
        let least = if longest_bytes > LONG_KEY_BYTES { 2 * SHORT_FENCES_BYTES } else { SHORT_FENCES_BYTES };
        let block = (bytes as u32).max(least).next_power_of_two();
        if block == self.node_bytes { 2 * block } else { block }
    }

    /// The same for the longest fences that keys of this length can make.
    fn largest_fence_block_bytes(&self, longest_bytes: u32) -> u32 {
        self.fence_block_bytes(2 * longest_bytes as usize, longest_bytes as usize)
    }

    /// How many nodes the tree has, of all levels. No walk.
    pub fn nodes(&self) -> u64 {
        self.blocks.used_count(self.node_bytes)
    }

    /// The blocks that fences may be in: their sizes.
    fn fence_block_sizes(&self, longest_bytes: u32) -> impl Iterator<Item = u32> {
        let largest = self.largest_fence_block_bytes(longest_bytes);
        let node_bytes = self.node_bytes;
        (0..)
            .map(|doublings| SHORT_FENCES_BYTES << doublings)
            .take_while(move |&block| block <= largest)
            .filter(move |&block| block != node_bytes)
    }

    /// How many blocks of a size have fences. (One of some size has the intent slots.)
    fn fence_blocks(&self, block_bytes: u32) -> u64 {
        self.blocks.used_count(block_bytes).saturating_sub(u64::from(block_bytes == INTENTS_BYTES.next_power_of_two()))
    }

    /// The longest key that matters: of those given, or one that is gone and has left a fence, in a block or in a node.
    fn longest_bytes(&self, keys: KeyLengths) -> u32 {
        let left = self
            .fence_block_sizes(MAXIMUM_KEY_BYTES as u32)
            .filter(|&block| self.fence_blocks(block) > 0)
            .max()
            .map_or(0, |block| if block == SHORT_FENCES_BYTES { LONG_KEY_BYTES as u32 } else { block });
        let left_in_nodes = if self.nodes() > 1 { FENCE_BYTES_INLINE as u32 } else { 0 };
        keys.longest_bytes.max(left).max(left_in_nodes).min(MAXIMUM_KEY_BYTES as u32)
    }

    /// In which pieces the pool's reserve has to be counted ([`Pool::set_reserve`]) if these are the keys to come, and those
    /// that are in key segments ([`key_lengths_in_segments`]).
    pub fn piece_bytes(&self, keys: KeyLengths) -> u64 {
        piece_bytes(self.longest_bytes(keys))
    }

    /// What the tree may newly need of the pool when so many entries, puts and deletes, are put into it as it is, in pieces
    /// of [`Tree::piece_bytes`]. `keys` are those to come and those in key segments.
    pub fn node_bytes_max(&self, entries: u64, keys: KeyLengths) -> Result<u64> {
        if entries == 0 {
            return Ok(0);
        }
        let piece_bytes = self.piece_bytes(keys);
        let half = (slots_of(self.node_bytes) / 2) as u64;
        // It grows by a level, at most, for so many puts.
        let levels = u64::from(self.height()?) + u64::from(entries.ilog(half)) + 1;
        let amortised = (self.nodes() + entries.div_ceil(half) + levels) * half / (half - 1) + levels;
        let new = amortised.min(entries.saturating_mul(levels) + levels);
        // A delete may make one leaf of two.
        let waited_for = entries.min(GUARDS_WAITED_FOR * ENTRIES_UNDER_ONE_GUARD as u64) * (levels + 1);
        let ahead = NEW_NODES_MAX as u64 * (levels + 1);
        let nodes = new + waited_for + ahead;
        let missing = nodes.saturating_sub(self.blocks.free_count(self.node_bytes));
        let fences = self.fence_bytes_needed(nodes, levels, keys, piece_bytes);
        Ok(Blocks::<M>::extent_bytes_max(self.node_bytes, missing, piece_bytes).saturating_add(fences))
    }

    /// What fences of so many nodes may need of the pool.
    fn fence_bytes_needed(&self, nodes: u64, levels: u64, keys: KeyLengths, piece_bytes: u64) -> u64 {
        let longest_bytes = self.longest_bytes(keys);
        if 2 * longest_bytes as usize <= FENCE_BYTES_INLINE {
            return 0;
        }
        let extent_bytes = |block: u32, count: u64| Blocks::<M>::extent_bytes_max(block, count, piece_bytes);
        let largest = self.largest_fence_block_bytes(longest_bytes);
        let each_the_longest = extent_bytes(largest, nodes);
        if longest_bytes as usize <= LONG_KEY_BYTES {
            return each_the_longest;
        }
        let left: u64 =
            self.fence_block_sizes(longest_bytes).map(|size| self.fence_blocks(size) * u64::from(size)).sum();
        // Low and high on each level; a block is up to four times as large as what it holds, and half an extent may be lost.
        // A short fence beside a long one is no longer. And the same again for each time that nodes are waited for.
        let copies = 2 * levels * 2 * (1 + GUARDS_WAITED_FOR);
        let long = (keys.long_bytes.saturating_add(left)).saturating_mul(4 * 2 * copies);
        // Each size has an extent that is not full, and so many blocks are taken ahead.
        let begun: u64 = self.fence_block_sizes(longest_bytes).map(|size| extent_bytes(size, 1)).sum();
        let ahead = extent_bytes(largest, NEW_NODES_MAX as u64);
        let mixed = extent_bytes(SHORT_FENCES_BYTES, nodes).saturating_add(long).saturating_add(begun + ahead);
        each_the_longest.min(mixed.next_multiple_of(piece_bytes))
    }
}
