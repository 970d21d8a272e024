//! Completing what an intent names: the second half of a replacement, and recovery.
//!
//! Everything here looks first at what is there, so that it may be done any number of times. A crash in recovery is
//! recovered the same way.
//!
//! Recovery goes through the intents from the top level down. The replacement of a leaf that makes its parent overflow
//! leaves two intents, and the parent's comes first: undone, it gives back its blocks, and the leaf's replacement begins
//! it anew; completed, it has already put the leaf's new nodes into the new parents.

use std::sync::Arc;

use slmdb_env::Result;
use slmdb_pmem::Medium;
use slmdb_sync::epoch::Guard;

use super::build::{Fill, NewNode, cuts};
use super::change::Locked;
use super::fences::{Shape, Side, Target};
use super::intent::{Intent, IntentKind, NewBlocks};
use super::node::{Entry, LEVEL_MAX, Node};
use super::replace::Replacement;
use super::tree::{Structure, Tree};

impl<M: Medium> Tree<M> {
    /// Completes or undoes every intent.
    pub(super) fn recover(&self, structure: &mut Structure, guard: &Guard) -> Result<()> {
        for level in (0..=LEVEL_MAX).rev() {
            let Some(intent) = Intent::read(&self.pool, self.intents, level)? else { continue };
            let first_new = intent.news[0].node;
            let committed = match intent.kind {
                IntentKind::Replace => self.node(intent.olds[0], level)?.forward() == first_new,
                IntentKind::GrowRoot | IntentKind::DropRoot => self.pool.load(self.root_word())? == first_new,
            };
            match (intent.kind, committed) {
                (IntentKind::Replace, true) => {
                    for &old in &intent.olds {
                        let old = self.node(old, level)?;
                        if old.forward() != first_new {
                            self.lock(old)?.store_durably(&old.header.forward, first_new);
                        }
                    }
                    self.finish(structure, &intent, guard)?;
                }
                (IntentKind::DropRoot, true) => self.retire(&intent, guard)?,
                (IntentKind::GrowRoot, true) | (IntentKind::DropRoot, false) => {
                    intent.clear(&self.pool, self.intents)?
                }
                (IntentKind::Replace | IntentKind::GrowRoot, false) => self.undo(&intent)?,
            }
        }
        Ok(())
    }

    /// Gives back the new blocks of an intent that was not committed. Nobody has seen them.
    fn undo(&self, intent: &Intent) -> Result<()> {
        let mut free = Vec::new();
        for new in &intent.news {
            self.mark_free(new.node, &mut free)?;
            self.mark_free(new.fences, &mut free)?;
        }
        intent.clear(&self.pool, self.intents)?;
        free.into_iter().for_each(|block| self.blocks.recycle(block));
        Ok(())
    }

    /// Steps 4 to 6 of a committed replacement.
    pub(super) fn finish(&self, structure: &mut Structure, intent: &Intent, guard: &Guard) -> Result<()> {
        self.link(structure, intent, guard)?;
        self.mend_left_neighbour(intent)?;
        self.retire(intent, guard)
    }

    /// Step 4: parents or root word lead to the new nodes and no longer to the old ones.
    fn link(&self, structure: &mut Structure, intent: &Intent, guard: &Guard) -> Result<()> {
        let news = intent.news.iter().map(|new| self.node(new.node, intent.level)).collect::<Result<Vec<_>>>()?;
        let root = self.root()?;
        if root.level() == intent.level {
            if root.offset != intent.olds[0] && root.offset != news[0].offset {
                return Err(self.damaged(self.root_word(), "a node without a parent is not the root"));
            }
            return if news.len() > 1 { self.grow_root(structure, &news) } else { self.store_root(news[0].offset) };
        }
        let low = |new: &Node<'_>| Ok(new.fences(&self.pool)?.low().map(<[u8]>::to_vec));
        let lows = news.iter().map(low).collect::<Result<Vec<_>>>()?;
        let target = |new: usize| Target::at_low(lows[new].as_deref());
        let mut next = 0;
        while next < news.len() {
            let (parent, head) = self.lock_covering(target(next), intent.level + 1)?;
            let fences = parent.node.fences(&self.pool)?;
            let mut entries: Vec<Entry> = parent.entries().collect();
            let position = |entries: &[Entry], pointer| entries.iter().position(|entry| entry.pointer == pointer);
            // The first new node has the low fence of the first old one and takes its slot.
            let swap = if next == 0 { position(&entries, intent.olds[0]) } else { None };
            if let Some(at) = swap {
                entries[at] = Entry { head, pointer: news[0].offset };
            }
            let Some(mut at) = position(&entries, news[next].offset) else {
                return Err(self.damaged(parent.node.offset, "an inner node does not lead to a child that is its own"));
            };
            let mut inserts = Vec::new();
            next += 1;
            while next < news.len() {
                let Side::Inside(head) = fences.side(&target(next), &self.order) else { break };
                at += 1;
                if entries.get(at).is_none_or(|entry| entry.pointer != news[next].offset) {
                    let entry = Entry { head, pointer: news[next].offset };
                    entries.insert(at, entry);
                    inserts.push((at, entry));
                }
                next += 1;
            }
            let remove = intent.olds.get(1).and_then(|&old| position(&entries, old));
            if entries.len() <= self.slots() {
                self.link_in_place(&parent, swap.map(|at| (at, news[0].offset)), &inserts, remove);
                continue;
            }
            // The right end of the level, where ascending keys go: leave full nodes behind.
            let (low, high) = (fences.low(), fences.high());
            let fill = if high.is_none() && at + 1 == entries.len() { Fill::Brim } else { Fill::Even };
            let cuts = cuts(entries.len(), self.slots(), fill);
            let reserve = self.reserve_from_stock(structure, cuts.len());
            let (level, sibling) = (intent.level + 1, parent.node.sibling());
            let heads_behind = Some(fences.shape.prefix.into());
            let plan = Replacement { level, low, high: high.as_deref(), sibling, entries, heads_behind, cuts };
            self.replace(structure, vec![parent], plan, reserve, guard)?;
            if structure.unfinished {
                // One level up a step is left to be done. It comes first, and then this one again.
                return Err(self.full("the inner nodes of the tree"));
            }
        }
        Ok(())
    }

    /// Durable before the intent is cleared: that begins with a fence, and giving up on the way ends with one. (Old nodes lie
    /// under one parent, so there is no other to be changed, for which the pool could be full; but damage may be met.)
    fn link_in_place(
        &self,
        parent: &Locked<'_, M>,
        swap: Option<(usize, u64)>,
        inserts: &[(usize, Entry)],
        remove: Option<usize>,
    ) {
        if let Some(swap) = swap {
            parent.swap_flushed(std::iter::once(swap));
        }
        for &(at, entry) in inserts {
            parent.insert_flushed(parent.used(), at, entry);
        }
        if let Some(at) = remove {
            parent.remove_flushed(parent.used(), at);
        }
    }

    pub(super) fn store_root(&self, node: u64) -> Result<()> {
        self.pool.store(self.root_word(), node)?;
        self.pool.persist(self.root_word(), 8);
        Ok(())
    }

    /// Puts a new root above the nodes that have replaced the old one.
    fn grow_root(&self, structure: &mut Structure, children: &[Node<'_>]) -> Result<()> {
        let level = children[0].level() + 1;
        if level > LEVEL_MAX {
            return Err(self.damaged(self.root_word(), "the tree is higher than it can be"));
        }
        let mut reserve = self.reserve_from_stock(structure, 1);
        let block = reserve.node()?;
        let entries = children
            .iter()
            .map(|child| {
                let head = self.head_behind(0, child.fences(&self.pool)?.low()).unwrap_or(0);
                Ok(Entry { head, pointer: child.offset })
            })
            .collect::<Result<Vec<_>>>()?;
        let news = vec![NewBlocks { node: block, fences: 0 }];
        let intent = Intent { kind: IntentKind::GrowRoot, level, number: structure.next(), olds: Vec::new(), news };
        // From here on the block is the intent's, whatever happens.
        reserve.commit();
        self.begin(&intent)?;
        let (shape, lock) = (Shape::new(level, None, None, &self.order), 0);
        let root =
            NewNode { block, fence_block: None, shape, low: None, high: None, sibling: 0, lock, entries: &entries };
        root.write(&self.pool, self.node_bytes)?;
        self.pool.fence();
        self.store_root(block)?;
        intent.clear(&self.pool, self.intents)
    }

    /// While the root is an inner node with one child, that becomes the root.
    pub(super) fn drop_roots(&self, structure: &mut Structure, guard: &Guard) -> Result<()> {
        loop {
            let root = self.root()?;
            if root.level() == 0 {
                return Ok(());
            }
            let locked = self.lock(root)?;
            let (used, child) = (locked.used(), locked.entry(0).pointer);
            drop(locked);
            if used != 1 {
                return Ok(());
            }
            self.node(child, root.level() - 1)?;
            let (level, number) = (root.level(), structure.next());
            let news = vec![NewBlocks { node: child, fences: 0 }];
            let intent = Intent { kind: IntentKind::DropRoot, level, number, olds: vec![root.offset], news };
            intent.write(&self.pool, self.intents)?;
            self.store_root(child)?;
            self.retire(&intent, guard)?;
        }
    }

    /// Step 5: the node to the left of the new ones, if there is one, gets the first of them as its sibling. Durable before the
    /// intent is cleared, which begins with a fence.
    fn mend_left_neighbour(&self, intent: &Intent) -> Result<()> {
        let new = self.node(intent.news[0].node, intent.level)?;
        let fences = new.fences(&self.pool)?;
        let Some(low) = fences.low() else { return Ok(()) };
        let (left, _) = self.descend(Target::Below(low), intent.level)?;
        let sibling = left.sibling();
        if sibling == new.offset {
            return Ok(());
        }
        if sibling != intent.olds[0] {
            return Err(self.damaged(left.offset, "the sibling of a node is not its right neighbour"));
        }
        let word = &left.header.sibling;
        self.pool.medium().store(word, new.offset);
        self.pool.flush(left.offset, super::node::HEADER_BYTES as u64);
        Ok(())
    }

    /// Step 6: the old nodes are freed, and nothing is left to be done.
    pub(super) fn retire(&self, intent: &Intent, guard: &Guard) -> Result<()> {
        if intent.level > 0 {
            self.shortcuts.outdate();
        }
        let mut free = Vec::new();
        for &old in &intent.olds {
            let fences = self.node(old, intent.level)?.fence_block();
            self.mark_free(old, &mut free)?;
            self.mark_free(fences.unwrap_or(0), &mut free)?;
        }
        intent.clear(&self.pool, self.intents)?;
        // Weak: what is deferred must neither keep a closed pool mapped nor touch one that has been opened again.
        let blocks = Arc::downgrade(&self.blocks);
        guard.defer(move || {
            if let Some(blocks) = blocks.upgrade() {
                free.into_iter().for_each(|block| blocks.recycle(block));
            }
        });
        Ok(())
    }

    /// Marks a block free and notes that it is to be recycled. One that is free already (that far an earlier attempt had
    /// come) is on the free list since the pool was opened.
    fn mark_free(&self, block: u64, free: &mut Vec<u64>) -> Result<()> {
        if block != 0 && self.blocks.is_used(block)? {
            self.blocks.mark_free(block)?;
            free.push(block);
        }
        Ok(())
    }
}
