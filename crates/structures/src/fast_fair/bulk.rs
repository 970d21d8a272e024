//! Bulk load: an empty tree is filled at once, from records in key order.
//!
//! When an index is rebuilt from files there are no readers yet, and the keys come sorted. So nothing is inserted: leaves
//! are built one behind the other, filled comfortably, then the inner levels above them, from the bottom up, and one store
//! of the root word puts all of it in the place of the empty root.
//!
//! The key space may be loaded in *parts* that border on each other, each by a thread of its own. What a part gets must
//! ascend; the bound between two parts is the fence between their leaves.
//!
//! Blocks are marked used when everything is built, shortly before the root word is stored. A crash before that store leaves
//! the tree empty, but on a persistent medium some blocks marked: a tree is loaded there in a pool that is made anew if the
//! load is cut short. The old root is named by an intent, so a crash after the store leaves nothing behind.

use slmdb_env::{Error, Result};
use slmdb_order::common_prefix_bytes;
use slmdb_pmem::Medium;
use slmdb_sync::epoch;

use super::build::NewNode;
use super::fences::{Shape, head_of};
use super::intent::{Intent, IntentKind, NewBlocks};
use super::node::{Entry, LEVEL_MAX};
use super::tree::{OUT_OF_ORDER, Tree};
use super::update::check_key;

/// A node that was built: its block, and where it begins.
struct Built {
    block: u64,
    low: Option<Box<[u8]>>,
}

/// Loads one part of the key space, see [`Tree::bulk_load`]. Dropped unfinished, it gives its blocks back.
pub struct BulkPart<'t, M: Medium> {
    tree: &'t Tree<M>,
    /// Where the leaf under way begins, and where the part ends.
    low: Option<Vec<u8>>,
    high: Option<Vec<u8>>,
    /// The block of the leaf under way, and of the leaf behind the part's last one.
    block: u64,
    block_behind: u64,
    /// The keys of the leaf under way, one behind the other; where each ends; and their records.
    key_bytes: Vec<u8>,
    key_ends: Vec<usize>,
    records: Vec<u64>,
    leaves: Vec<Built>,
    /// Taken and not marked yet.
    blocks: Blocks<'t, M>,
}

/// Blocks that are taken and not marked used; dropped, they go back.
struct Blocks<'t, M: Medium> {
    tree: &'t Tree<M>,
    taken: Vec<u64>,
}

impl<M: Medium> Blocks<'_, M> {
    fn take(&mut self, bytes: u32) -> Result<u64> {
        let block = self.tree.blocks.take(bytes)?;
        self.taken.push(block);
        Ok(block)
    }
}

impl<M: Medium> Drop for Blocks<'_, M> {
    fn drop(&mut self) {
        self.taken.drain(..).for_each(|block| self.tree.blocks.recycle(block));
    }
}

/// So many entries a node gets: room for some more before it is split.
const fn filled(slots: usize) -> usize {
    slots - slots / 8
}

impl<M: Medium> Tree<M> {
    /// Begins to load this tree, which must be empty and which nobody else uses before [`Tree::finish_bulk_load`]. The key
    /// space is cut at `bounds`, which ascend strictly in the tree's order; under a comparator they should be keys. Gives a
    /// part for what is below the first bound, one for what is from there to the second, and so on.
    pub fn bulk_load(&self, bounds: &[Vec<u8>]) -> Result<Vec<BulkPart<'_, M>>> {
        if self.root()?.level() != 0 || self.count()? != 0 {
            return Err(Error::invalid("only an empty tree can be loaded"));
        }
        if !bounds.windows(2).all(|pair| self.order.compare(&pair[0], &pair[1]).is_lt()) {
            return Err(Error::invalid("the bounds between the parts of a bulk load do not ascend"));
        }
        let mut parts = Vec::with_capacity(bounds.len() + 1);
        for number in 0..=bounds.len() {
            let low = number.checked_sub(1).map(|before| bounds[before].clone());
            let high = bounds.get(number).cloned();
            let mut blocks = Blocks { tree: self, taken: Vec::new() };
            let block = blocks.take(self.node_bytes)?;
            let (key_bytes, key_ends, records, leaves) = Default::default();
            let block_behind = 0;
            parts.push(BulkPart {
                tree: self,
                low,
                high,
                block,
                block_behind,
                key_bytes,
                key_ends,
                records,
                leaves,
                blocks,
            });
        }
        for number in 1..parts.len() {
            parts[number - 1].block_behind = parts[number].block;
        }
        Ok(parts)
    }

    /// Makes what was loaded the tree: all parts, in their order. By then each record that was named must be in the pool,
    /// durable, and be that of a put of its key. An error means that the tree is empty still.
    pub fn finish_bulk_load(&self, parts: Vec<BulkPart<'_, M>>) -> Result<()> {
        let mut nodes = Vec::new();
        let mut blocks = Blocks { tree: self, taken: Vec::new() };
        for mut part in parts {
            part.end()?;
            nodes.append(&mut part.leaves);
            blocks.taken.append(&mut part.blocks.taken);
        }
        let mut level = 0;
        while nodes.len() > 1 {
            level += 1;
            if level > LEVEL_MAX {
                return Err(Error::invalid("more keys than a tree can have"));
            }
            nodes = self.build_level(level, &nodes, &mut blocks)?;
        }
        let Some(root) = nodes.first() else { return Err(Error::invalid("a bulk load without parts")) };

        let guard = epoch::pin();
        let mut structure = self.structure();
        self.settle(&mut structure, &guard)?;
        let old = self.root()?.offset;
        for block in std::mem::take(&mut blocks.taken) {
            self.blocks.mark_used(block)?;
        }
        let news = vec![NewBlocks { node: root.block, fences: 0 }];
        let intent = Intent { kind: IntentKind::DropRoot, level: 0, number: structure.next(), olds: vec![old], news };
        // Its fence makes nodes and marks durable, too.
        intent.write(&self.pool, self.intents)?;
        self.store_root(root.block)?;
        self.retire(&intent, &guard)
    }

    /// Builds the level above some nodes.
    fn build_level(&self, level: u8, below: &[Built], blocks: &mut Blocks<'_, M>) -> Result<Vec<Built>> {
        let count = below.len().div_ceil(filled(self.slots()));
        let begins = |number: usize| number * below.len() / count;
        let mut nodes = Vec::with_capacity(count);
        let mut block = blocks.take(self.node_bytes)?;
        for number in 0..count {
            let children = &below[begins(number)..begins(number + 1)];
            let low = children[0].low.as_deref();
            let high = below.get(begins(number + 1)).and_then(|next| next.low.as_deref());
            let sibling = if number + 1 < count { blocks.take(self.node_bytes)? } else { 0 };
            let lows = children.iter().map(|child| (child.low.as_deref().unwrap_or_default(), child.block));
            self.build_node(level, block, (low, high), sibling, lows, blocks)?;
            nodes.push(Built { block, low: low.map(Box::from) });
            block = sibling;
        }
        Ok(nodes)
    }

    /// Builds a node from whole keys, or low fences of children, and pointers.
    fn build_node<'k>(
        &self,
        level: u8,
        block: u64,
        (low, high): (Option<&[u8]>, Option<&[u8]>),
        sibling: u64,
        entries: impl Iterator<Item = (&'k [u8], u64)>,
        blocks: &mut Blocks<'_, M>,
    ) -> Result<()> {
        let shape = Shape::new(level, low, high, &self.order);
        let prefix = usize::from(shape.prefix);
        let bytewise = self.order.is_bytewise();
        let out_of_order = || Error::invalid(OUT_OF_ORDER);
        let mut built = Vec::with_capacity(self.slots());
        for (key, pointer) in entries {
            let head = if bytewise { head_of(key.get(prefix..).ok_or_else(out_of_order)?) } else { 0 };
            built.push(Entry { head, pointer });
        }
        let fence_block = if shape.fences_outside() {
            let longest_bytes = [low, high].into_iter().flatten().map(<[u8]>::len).max().unwrap_or(0);
            Some(blocks.take(self.fence_block_bytes(shape.fence_bytes(), longest_bytes))?)
        } else {
            None
        };
        NewNode { block, fence_block, shape, low, high, sibling, lock: 0, entries: &built }
            .write(&self.pool, self.node_bytes)
    }
}

impl<M: Medium> BulkPart<'_, M> {
    /// Adds a key, larger than all before it and within the bounds of the part, and where its record will be.
    pub fn add(&mut self, key: &[u8], record: u64) -> Result<()> {
        check_key(key)?;
        let order = &self.tree.order;
        let ascends = match self.last_key() {
            Some(last) => order.compare(last, key).is_lt(),
            None => self.low.as_deref().is_none_or(|low| order.compare(low, key).is_le()),
        };
        if !ascends {
            return Err(Error::invalid("the keys of a bulk load do not ascend"));
        }
        if self.records.len() == filled(self.tree.slots()) {
            let last = self.last_key().unwrap_or_default();
            // The shortest key that parts the two; under a comparator only a whole key does.
            let length = if order.is_bytewise() { common_prefix_bytes(last, key) + 1 } else { key.len() };
            let next = self.blocks.take(self.tree.node_bytes)?;
            self.cut(Some(&key[..length]), next)?;
        }
        self.key_bytes.extend_from_slice(key);
        self.key_ends.push(self.key_bytes.len());
        self.records.push(record);
        Ok(())
    }

    /// The last key of the leaf under way.
    fn last_key(&self) -> Option<&[u8]> {
        let end = *self.key_ends.last()?;
        let start = self.key_ends.len().checked_sub(2).map_or(0, |before| self.key_ends[before]);
        Some(&self.key_bytes[start..end])
    }

    /// Builds the leaf under way, and begins the next one at `high`.
    fn cut(&mut self, high: Option<&[u8]>, next: u64) -> Result<()> {
        let (tree, block, mut start) = (self.tree, self.block, 0);
        let keys = self.key_ends.iter().map(|&end| &self.key_bytes[std::mem::replace(&mut start, end)..end]);
        let entries = keys.zip(self.records.iter().copied());
        tree.build_node(0, block, (self.low.as_deref(), high), next, entries, &mut self.blocks)?;
        self.leaves.push(Built { block, low: self.low.take().map(Vec::into_boxed_slice) });
        self.low = high.map(<[u8]>::to_vec);
        self.block = next;
        self.key_bytes.clear();
        self.key_ends.clear();
        self.records.clear();
        Ok(())
    }

    /// Builds the last leaf.
    fn end(&mut self) -> Result<()> {
        let high = self.high.take();
        if let (Some(last), Some(high)) = (self.last_key(), &high)
            && self.tree.order.compare(last, high).is_ge()
        {
            return Err(Error::invalid("a key of a bulk load is beyond its part"));
        }
        self.cut(high.as_deref(), self.block_behind)
    }
}

impl<M: Medium> std::fmt::Debug for BulkPart<'_, M> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("BulkPart").field("leaves", &self.leaves.len()).finish_non_exhaustive()
    }
}
