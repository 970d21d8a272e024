//! Blocks taken ahead.
//!
//! A caller of [`Tree::update`] decides about a key once, and deciding has effects of its own; so everything that could
//! fail for want of space comes before. When a leaf may have to be replaced, the blocks for its successors are taken, for
//! fences as long as they could get, and for the inner nodes above that would overflow. What is not needed goes back.
//!
//! (One thing is left out: inner nodes with fences too long for the node. If that makes the pool overflow, the replacement
//! of the leaf stands all the same, and its last steps wait until there is room, see [`replace`](super::replace).)

use slmdb_env::Result;
use slmdb_pmem::Medium;
use slmdb_sync::epoch::Guard;

use super::build::{Fill, cuts};
use super::fences::{FENCE_BYTES_INLINE, Fences, Target};
use super::node::{Entry, HOLE};
use super::tree::{Structure, Tree};

/// Blocks taken from the pool and not used yet. What is left when it is dropped goes back.
pub(super) struct Reserve<'t, M: Medium> {
    tree: &'t Tree<M>,
    nodes: Vec<u64>,
    fences: Vec<u64>,
    /// Bytes of a block of `fences`.
    fence_block_bytes: u32,
    /// For inner nodes above.
    above: Vec<u64>,
    /// Handed out, but not committed yet.
    out: Vec<u64>,
}

impl<'t, M: Medium> Reserve<'t, M> {
    /// With no blocks yet.
    pub fn empty(tree: &'t Tree<M>) -> Reserve<'t, M> {
        let (nodes, fences, above, out) = Default::default();
        Reserve { tree, nodes, fences, fence_block_bytes: 0, above, out }
    }

    /// Takes blocks for so many nodes, and for so many above them.
    fn add_nodes(&mut self, count: usize, above: usize) -> Result<()> {
        for _ in 0..count {
            self.nodes.push(self.take_node()?);
        }
        for _ in 0..above {
            self.above.push(self.take_node()?);
        }
        Ok(())
    }

    /// Takes blocks for fences.
    fn add_fences(&mut self, count: usize, block_bytes: u32) -> Result<()> {
        self.fence_block_bytes = block_bytes;
        for _ in 0..count {
            self.fences.push(self.tree.blocks.take(self.fence_block_bytes)?);
        }
        Ok(())
    }

    fn take_node(&self) -> Result<u64> {
        self.tree.blocks.take(self.tree.node_bytes)
    }

    /// A block for a node: one that was reserved, or else a new one.
    pub fn node(&mut self) -> Result<u64> {
        let block = self.nodes.pop().map_or_else(|| self.take_node(), Ok)?;
        self.out.push(block);
        Ok(block)
    }

    /// A block for fences: of the size they need. What was reserved is of the size they might have needed, and is for when
    /// there is no other.
    pub fn fences(&mut self, block_bytes: u32) -> Result<u64> {
        let taken = if block_bytes == self.fence_block_bytes { None } else { Some(self.tree.blocks.take(block_bytes)) };
        let block = match taken {
            Some(Ok(block)) => block,
            _ if block_bytes > self.fence_block_bytes || self.fences.is_empty() => {
                self.tree.blocks.take(block_bytes)?
            }
            _ => self.fences.remove(0),
        };
        self.out.push(block);
        Ok(block)
    }

    /// The blocks that were handed out belong to the tree now. Gives those for the inner nodes above.
    pub fn commit(&mut self) -> Vec<u64> {
        self.out.clear();
        std::mem::take(&mut self.above)
    }
}

impl<M: Medium> Drop for Reserve<'_, M> {
    fn drop(&mut self) {
        for block in self.nodes.iter().chain(&self.fences).chain(&self.above).chain(&self.out) {
            self.tree.blocks.recycle(*block);
        }
    }
}

impl<M: Medium> Tree<M> {
    /// Takes the blocks for replacing a leaf that has these entries, after so many of `keys` have been inserted into it,
    /// whatever is decided about them.
    pub(super) fn reserve(
        &self,
        fences: &Fences<'_>,
        entries: &[Entry],
        keys: &[(&[u8], u64)],
        inserts: usize,
        guard: &Guard,
    ) -> Result<Reserve<'_, M>> {
        let count = cuts(entries.len() + inserts, self.slots(), Fill::Even).len();
        let mut reserve = Reserve::empty(self);
        reserve.add_nodes(count, self.nodes_above(fences.low(), count)?)?;
        let (bytes, longest_bytes) = self.fence_bytes_max(fences, entries, keys, guard)?;
        if bytes > FENCE_BYTES_INLINE {
            reserve.add_fences(count, self.fence_block_bytes(bytes, longest_bytes))?;
        }
        Ok(reserve)
    }

    /// Takes up to so many blocks out of the structure's stock.
    pub(super) fn reserve_from_stock(&self, structure: &mut Structure, count: usize) -> Reserve<'_, M> {
        let mut reserve = Reserve::empty(self);
        let keep = structure.stock.len().saturating_sub(count);
        reserve.nodes = structure.stock.split_off(keep);
        reserve
    }

    /// Gives back what is left in the stock.
    pub(super) fn empty_stock(&self, structure: &mut Structure) {
        structure.stock.drain(..).for_each(|block| self.blocks.recycle(block));
    }

    /// The longest fences that a node between any of these entries and keys can have: bytes of both as they are stored, and of
    /// the longer one. A boundary parts two keys: if their heads differ it ends within them at the latest; else it is at
    /// most a byte longer than the shorter of them. Under a comparator it is one of them.
    fn fence_bytes_max(
        &self,
        fences: &Fences<'_>,
        entries: &[Entry],
        keys: &[(&[u8], u64)],
        guard: &Guard,
    ) -> Result<(usize, usize)> {
        let (low, high) = (fences.low().map_or(0, <[u8]>::len), fences.high().map_or(0, |high| high.len()));
        if !self.order.is_bytewise() {
            let mut boundary = keys.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
            for entry in entries {
                boundary = boundary.max(self.record(entry.pointer, guard)?.key().len());
            }
            let (low, high) = (low.max(boundary), high.max(boundary));
            return Ok((low + high, low.max(high)));
        }
        let prefix = usize::from(fences.shape.prefix);
        let mut boundary = prefix + 8;
        for pair in entries.windows(2).filter(|pair| pair[0].head == pair[1].head) {
            boundary = boundary.max(self.record(pair[0].pointer, guard)?.key().len() + 1);
        }
        let mut previous = None;
        for &(key, head) in keys {
            if previous == Some(head) || entries.binary_search_by_key(&head, |entry| entry.head).is_ok() {
                boundary = boundary.max(key.len() + 1);
            }
            previous = Some(head);
        }
        let (low, high) = (low.max(boundary), high.max(boundary));
        Ok((low + high - prefix, low.max(high)))
    }

    /// How many inner nodes have to be built when the leaf that begins at `low` becomes so many leaves.
    fn nodes_above(&self, low: Option<&[u8]>, mut parts: usize) -> Result<usize> {
        let (top, mut level, mut count) = (self.root()?.level(), 0, 0);
        while parts > 1 {
            if level == top {
                return Ok(count + 1);
            }
            level += 1;
            // Inner nodes are changed under the structure's lock only.
            let (node, _) = self.descend(Target::at_low(low), level)?;
            let used = node.slots.iter().filter(|slot| slot.read().pointer > HOLE).count();
            parts = cuts(used + parts - 1, self.slots(), Fill::Even).len();
            if parts > 1 {
                count += parts;
            }
        }
        Ok(count)
    }
}
