//! Checking the whole tree, and showing it.
//!
//! The walk goes level by level from the root. What a level should be is known from the one above: which nodes, in which
//! order, with which fences. Every node must be that, be a block in use, be met once, and have its right neighbour as its
//! sibling; every entry must be in order, within the fences and have the right head; every record must be there. At the
//! end, every block in use must have been met: else it is lost.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt::Write;

use slmdb_env::{Error, Result};
use slmdb_pmem::Medium;
use slmdb_sync::epoch::{self, Guard};

use super::node::{Entry, Node};
use super::tree::Tree;

/// A damaged tree may have very many faults; the first few tell the story.
const FAULTS_MAX: usize = 64;

/// A node as its parent describes it.
struct Expected {
    offset: u64,
    low: Option<Vec<u8>>,
    high: Option<Vec<u8>>,
}

struct Verifier<'t, M: Medium> {
    tree: &'t Tree<M>,
    guard: &'t Guard,
    /// Blocks in use that were not met yet.
    blocks: BTreeSet<u64>,
    faults: Vec<Error>,
}

impl<M: Medium> Tree<M> {
    /// Checks everything that can be checked about the tree: order, fences, siblings, heads, records, and that no block is
    /// lost. Empty if all is well. Others may read and change leaves meanwhile; splits and merges wait. Withstands any
    /// bytes; keeps one level of fences in memory.
    pub fn verify(&self) -> Vec<Error> {
        let guard = epoch::pin();
        let mut structure = self.structure();
        if let Err(error) = self.settle(&mut structure, &guard) {
            return vec![error];
        }
        let blocks = self.blocks.used().into_iter().collect();
        let mut verifier = Verifier { tree: self, guard: &guard, blocks, faults: Vec::new() };
        if let Err(error) = verifier.run() {
            verifier.faults.push(error);
        }
        drop(structure);
        verifier.faults.truncate(FAULTS_MAX);
        verifier.faults
    }

    /// The tree as text, for tests and for people: every level from the root down, every node with its fences, and what
    /// it holds. Nodes are numbered in this order, so that the same tree gives the same text wherever it lies.
    pub fn dump(&self) -> Result<String> {
        let guard = epoch::pin();
        let mut structure = self.structure();
        self.settle(&mut structure, &guard)?;
        let root = self.root()?;
        let mut text = format!("height {}, nodes of {} bytes\n", u32::from(root.level()) + 1, self.node_bytes);
        let mut nodes = vec![root];
        let nodes_max = self.blocks.used().len();
        let (mut number, mut entries) = (0, Vec::new());
        loop {
            let level = nodes[0].level();
            let (mut children, mut next_child) = (Vec::new(), number + nodes.len());
            let _ = writeln!(text, "level {level}");
            for node in &nodes {
                let fences = node.fences(&self.pool)?;
                let low = fences.low().map_or("start".to_string(), quoted);
                let high = fences.high().map_or("end".to_string(), |high| quoted(&high));
                let prefix = fences.low().and_then(|low| low.get(..fences.shape.prefix.into())).unwrap_or_default();
                let _ = write!(text, "  n{number} [{low} .. {high}) prefix {}:", quoted(prefix));
                number += 1;
                node.entries(&mut entries);
                for entry in &entries {
                    if level == 0 {
                        let _ = write!(text, " {}", quoted(self.record(entry.pointer, &guard)?.key()));
                    } else {
                        let _ = write!(text, " n{next_child}");
                        next_child += 1;
                        children.push(self.node(entry.pointer, level - 1)?);
                    }
                }
                text.push('\n');
            }
            if children.len() > nodes_max {
                return Err(self.damaged(root.offset, "the tree has more nodes than there are blocks"));
            }
            if level == 0 || children.is_empty() {
                return Ok(text);
            }
            nodes = children;
        }
    }
}

impl<M: Medium> Tree<M> {
    /// Compares keys, or places where nodes begin: `None` is before all keys.
    fn compare_lows(&self, left: Option<&[u8]>, right: Option<&[u8]>) -> Ordering {
        match (left, right) {
            (Some(left), Some(right)) => self.order.compare(left, right),
            (left, right) => left.is_some().cmp(&right.is_some()),
        }
    }
}

impl<M: Medium> Verifier<'_, M> {
    fn run(&mut self) -> Result<()> {
        let tree = self.tree;
        self.meet(tree.intents, "the intent slots of the tree are not a block in use");
        let root = tree.root()?;
        let mut level = root.level();
        let mut nodes = vec![Expected { offset: root.offset, low: None, high: None }];
        loop {
            let mut below = Vec::new();
            for (index, expected) in nodes.iter().enumerate() {
                let sibling = nodes.get(index + 1).map_or(0, |next| next.offset);
                if let Err(error) = self.node(expected, level, sibling, &mut below) {
                    self.faults.push(error);
                }
                if self.faults.len() >= FAULTS_MAX {
                    return Ok(());
                }
            }
            if level == 0 {
                break;
            }
            level -= 1;
            nodes = below;
        }
        // In a tree with faults, blocks that were not met say nothing.
        if self.faults.is_empty() {
            for &block in self.blocks.iter().take(FAULTS_MAX) {
                self.faults.push(tree.damaged(block, "a block is in use and no part of the tree"));
            }
        }
        Ok(())
    }

    fn fault(&mut self, offset: u64, what: &str) {
        self.faults.push(self.tree.damaged(offset, what));
    }

    /// Notes that a block belongs to the tree. `false` if it can't, or does already.
    fn meet(&mut self, block: u64, what: &str) -> bool {
        let met = self.blocks.remove(&block);
        if !met {
            self.fault(block, what);
        }
        met
    }

    fn node(&mut self, expected: &Expected, level: u8, sibling: u64, below: &mut Vec<Expected>) -> Result<()> {
        let (tree, offset) = (self.tree, expected.offset);
        let node = tree.node(offset, level)?;
        if !self.meet(offset, "a node is not a block in use, or is in the tree twice") {
            return Ok(());
        }
        if tree.blocks.block_size(offset)? != tree.node_bytes {
            self.fault(offset, "a node is in a block of another size");
        }
        if let Some(block) = node.fence_block() {
            self.meet(block, "the fences of a node are not in a block in use, or belong to two nodes");
        }
        let fences = node.fences(&tree.pool)?;
        if fences.low() != expected.low.as_deref() || fences.high() != expected.high {
            self.fault(offset, "a node has other fences than its parent says");
        }
        if fences.shape.has_whole_keys() == tree.order.is_bytewise() {
            self.fault(offset, "a node is not made for the order of the tree");
        }
        if node.forward() != 0 {
            self.fault(offset, "a node was replaced and is still in the tree");
        }
        if node.sibling() != sibling {
            self.fault(offset, "the sibling of a node is not its right neighbour");
        }
        let mut entries = Vec::new();
        node.entries(&mut entries);
        let keys =
            entries.iter().map(|entry| tree.key_of(level, entry.pointer, self.guard)).collect::<Result<Vec<_>>>()?;
        for (index, (entry, key)) in entries.iter().zip(&keys).enumerate() {
            let (key, last) = (key.as_deref(), index.checked_sub(1).map(|last| keys[last].as_deref()));
            let after_last = last.is_none_or(|last| tree.compare_lows(last, key).is_lt());
            let inside = tree.compare_lows(expected.low.as_deref(), key).is_le()
                && expected.high.as_deref().is_none_or(|high| tree.compare_lows(key, Some(high)).is_lt());
            if !after_last || !inside {
                self.fault(entry.pointer, "a key is out of order, or beyond the fences of its node");
            } else if tree.head_behind(fences.shape.prefix.into(), key) != Some(entry.head) {
                self.fault(entry.pointer, "the head of a key is not its own");
            }
        }
        self.free_slots(&node, &entries);
        if level > 0 {
            if keys.first().is_none_or(|first| first.as_deref() != expected.low.as_deref()) {
                self.fault(offset, "the first child of an inner node does not begin where the node does");
            }
            for (index, entry) in entries.iter().enumerate() {
                let owned = |key: &Option<Cow<'_, [u8]>>| key.as_ref().map(|key| key.to_vec());
                let high = keys.get(index + 1).map_or_else(|| expected.high.clone(), owned);
                below.push(Expected { offset: entry.pointer, low: owned(&keys[index]), high });
            }
        }
        Ok(())
    }

    /// Behind the first free slot all are free. (Unless somebody has changed the node since its entries were read.)
    fn free_slots(&mut self, node: &Node<'_>, entries: &[Entry]) {
        let mut pointers = node.slots.iter().map(|slot| slot.read().pointer).skip_while(|&pointer| pointer != 0);
        if pointers.any(|pointer| pointer != 0) {
            let mut again = Vec::new();
            node.entries(&mut again);
            if again == entries {
                self.fault(node.offset, "a node has entries behind its last one");
            }
        }
    }
}

/// A key as text: printable, and cut short if it is long.
fn quoted(key: &[u8]) -> String {
    match key.get(..24) {
        Some(start) if key.len() > 32 => format!("\"{}...\"({} bytes)", start.escape_ascii(), key.len()),
        _ => format!("\"{}\"", key.escape_ascii()),
    }
}
