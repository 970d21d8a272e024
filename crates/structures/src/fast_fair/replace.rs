//! Replacing nodes: the one mechanism behind splits, merges, batches and a growing or shrinking root.
//!
//! One node becomes m >= 1 new ones, or two neighbours under one parent become one. The old ones are never changed; new
//! ones are built whole beside them, and one 8-byte store, `forward` of the first old node, puts them in their place. From
//! then on everybody finds them: from the parent through the old node, between them by their siblings. Parent and left
//! neighbour are mended afterwards, and then the old ones are freed, when no reader can be there.
//!
//! 1. The boundaries are chosen, blocks taken, and the intent is written, durably; then the blocks are marked used.
//! 2. The new nodes are built, their locks held, and made durable.
//! 3. *Commit*: `forward`, durably. Only then are the locks released: nobody can put anything into a new node, and have it
//!    acknowledged, that a crash would take back with the node.
//! 4. The parent gets the new pointers (it may have to be replaced itself, which is the same again one level up), or the
//!    root word moves.
//! 5. The left neighbour gets its new sibling.
//! 6. The old blocks are marked free, the intent is cleared, and the blocks are recycled later.
//!
//! Steps 4 to 6 look at what is there before they do anything, so they can be done again: after a crash by
//! [`Tree::open`], or in the same process when the pool was full in step 4. An operation whose replacement is committed is
//! done, whatever becomes of the rest.
//!
//! All this happens under the lock of the tree's structure. Node locks are taken within it, from left to right, a child's
//! before its parent's, and never on two levels at once.

use std::borrow::Cow;
use std::ops::Range;

use slmdb_env::{Error, Result};
use slmdb_order::common_prefix_bytes;
use slmdb_pmem::Medium;
use slmdb_sync::epoch::Guard;

use super::build::NewNode;
use super::change::Locked;
use super::fences::{Shape, head_of};
use super::intent::{Intent, IntentKind, NewBlocks};
use super::node::{Entry, Node};
use super::reserve::Reserve;
use super::tree::{OUT_OF_ORDER, Structure, Tree};

/// What one or two nodes are to be replaced by.
pub(super) struct Replacement<'k> {
    pub level: u8,
    /// The whole fences of the old nodes together; `None`: no bound.
    pub low: Option<&'k [u8]>,
    pub high: Option<&'k [u8]>,
    /// The right neighbour of the last old node.
    pub sibling: u64,
    /// All entries, in order.
    pub entries: Vec<Entry>,
    /// How many bytes of key the heads of `entries` leave out; `None`: the heads mean nothing.
    pub heads_behind: Option<usize>,
    /// Where the new nodes end, see [`cuts`](super::build::cuts).
    pub cuts: Vec<usize>,
}

impl<M: Medium> Tree<M> {
    /// Replaces the old nodes, whose locks are held and which are released. An error means that nothing has happened,
    /// unless it says that the pool is damaged.
    pub(super) fn replace(
        &self,
        structure: &mut Structure,
        olds: Vec<Locked<'_, M>>,
        mut plan: Replacement<'_>,
        mut reserve: Reserve<'_, M>,
        guard: &Guard,
    ) -> Result<()> {
        let boundaries = self.boundaries(&plan, guard)?;
        let (low, high, cuts) = (plan.low, plan.high, std::mem::take(&mut plan.cuts));
        let mut parts = Vec::with_capacity(cuts.len());
        let mut news = Vec::with_capacity(cuts.len());
        let mut start = 0;
        for (index, end) in cuts.into_iter().enumerate() {
            let low = if index == 0 { low } else { Some(&boundaries[index - 1][..]) };
            let high = boundaries.get(index).map(Vec::as_slice).or(high);
            let shape = Shape::new(plan.level, low, high, &self.order);
            self.set_heads(&mut plan, shape.prefix.into(), start..end, guard)?;
            let node = reserve.node()?;
            let fences = if shape.fences_outside() {
                let longest_bytes = [low, high].into_iter().flatten().map(<[u8]>::len).max().unwrap_or(0);
                reserve.fences(self.fence_block_bytes(shape.fence_bytes(), longest_bytes))?
            } else {
                0
            };
            parts.push((shape, low, high, start..end));
            news.push(NewBlocks { node, fences });
            start = end;
        }
        let offsets = olds.iter().map(|old| old.node.offset).collect();
        let intent =
            Intent { kind: IntentKind::Replace, level: plan.level, number: structure.next(), olds: offsets, news };
        let written = self.begin(&intent).and_then(|()| {
            for (index, (shape, low, high, range)) in parts.into_iter().enumerate() {
                let NewBlocks { node: block, fences } = intent.news[index];
                let sibling = intent.news.get(index + 1).map_or(plan.sibling, |next| next.node);
                let (fence_block, lock) = ((fences != 0).then_some(fences), self.session.held());
                let entries = &plan.entries[range];
                NewNode { block, fence_block, shape, low, high, sibling, lock, entries }
                    .write(&self.pool, self.node_bytes)?;
            }
            intent.news.iter().map(|new| self.node(new.node, plan.level)).collect::<Result<Vec<Node<'_>>>>()
        });
        let nodes = match written {
            Ok(nodes) => nodes,
            Err(error) => {
                // The blocks are the intent's: recovery gives them back.
                structure.unfinished = true;
                structure.stock.append(&mut reserve.commit());
                return Err(error);
            }
        };
        let adopted: Vec<_> =
            nodes.into_iter().map(|node| Locked::adopt(node, self.pool.medium(), self.session)).collect();
        // The new nodes are durable before the first of these stores, and it is before anything that follows.
        for old in &olds {
            old.store_durably(&old.node.header.forward, intent.news[0].node);
        }
        structure.stock.append(&mut reserve.commit());
        drop((olds, adopted));

        let finished = self.finish(structure, &intent, guard);
        if plan.level == 0 {
            self.empty_stock(structure);
        }
        match finished {
            Ok(()) => Ok(()),
            Err(error) => {
                // Another thread may go on from here, and takes what was linked already for durable.
                self.pool.fence();
                structure.unfinished = true;
                // Done, though not tidied up: the next change of the tree's shape tries again.
                if matches!(error, Error::Full { .. }) { Ok(()) } else { Err(error) }
            }
        }
    }

    /// The low fences of all new nodes but the first: in a leaf the shortest key that parts two entries (under a comparator
    /// there is only the right one's own), in an inner node the low fence of the child.
    fn boundaries(&self, plan: &Replacement<'_>, guard: &Guard) -> Result<Vec<Vec<u8>>> {
        let inner_cuts = &plan.cuts[..plan.cuts.len() - 1];
        let boundary = |&cut: &usize| {
            let out_of_order = || self.damaged(plan.entries[cut].pointer, OUT_OF_ORDER);
            let right = self.key_of(plan.level, plan.entries[cut].pointer, guard)?.ok_or_else(out_of_order)?;
            if plan.level > 0 {
                return Ok(right.into_owned());
            }
            let left = self.key_of(plan.level, plan.entries[cut - 1].pointer, guard)?.ok_or_else(out_of_order)?;
            let is_bytewise = self.order.is_bytewise();
            let length = if is_bytewise { common_prefix_bytes(&left, &right) + 1 } else { right.len() };
            let boundary = right.get(..length).filter(|_| self.order.compare(&left, &right).is_lt());
            boundary.map(<[u8]>::to_vec).ok_or_else(out_of_order)
        };
        inner_cuts.iter().map(boundary).collect()
    }

    /// Computes the heads of some entries anew, unless they are right already.
    fn set_heads(&self, plan: &mut Replacement<'_>, prefix: usize, range: Range<usize>, guard: &Guard) -> Result<()> {
        if plan.heads_behind == Some(prefix) {
            return Ok(());
        }
        for entry in &mut plan.entries[range] {
            let key = self.key_of(plan.level, entry.pointer, guard)?;
            entry.head = self
                .head_behind(prefix, key.as_deref())
                .ok_or_else(|| self.damaged(entry.pointer, "a key is not within its node's fences"))?;
        }
        Ok(())
    }

    /// The head of a whole key, or of the low fence of the first child, behind a prefix; `None`: it is no longer than that.
    pub(super) fn head_behind(&self, prefix: usize, key: Option<&[u8]>) -> Option<u64> {
        if self.order.is_bytewise() { key.unwrap_or_default().get(prefix..).map(head_of) } else { Some(0) }
    }

    /// The whole key that an entry of a level stands for; `None` for a child that begins where the tree does.
    pub(super) fn key_of<'g>(&'g self, level: u8, pointer: u64, guard: &'g Guard) -> Result<Option<Cow<'g, [u8]>>> {
        if level == 0 {
            return Ok(Some(Cow::Borrowed(self.record(pointer, guard)?.key())));
        }
        Ok(self.node(pointer, level - 1)?.fences(&self.pool)?.low().map(|low| Cow::Owned(low.to_vec())))
    }

    /// Step 1: intent and marks.
    pub(super) fn begin(&self, intent: &Intent) -> Result<()> {
        intent.write(&self.pool, self.intents)?;
        for new in &intent.news {
            self.blocks.mark_used(new.node)?;
            if new.fences != 0 {
                self.blocks.mark_used(new.fences)?;
            }
        }
        Ok(())
    }
}
