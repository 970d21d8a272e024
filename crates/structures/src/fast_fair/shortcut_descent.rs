//! Making shortcuts, and finding with them where a descent begins.
//!
//! They are made by whoever had to do without, if that has happened often enough to pay for it. It holds the lock
//! of the tree's structure meanwhile, under which inner nodes don't change; if another has that lock, it does nothing.

use std::cmp::Ordering;

use slmdb_env::Result;
use slmdb_order::common_prefix_bytes;
use slmdb_pmem::Medium;

use super::fences::{Target, head_of};
use super::node::{HOLE, Node, Slot};
use super::shortcuts::Shortcuts;
use super::tree::Tree;

/// Shortcuts lead to so many nodes at most: their array stays in a processor's second cache, and making it takes less
/// than a millisecond.
const SHORTCUTS_MAX: usize = 8192;
/// Trees with a root of a lower level need no shortcuts.
const SHORTEST_WAY: u8 = 2;

impl<M: Medium> Tree<M> {
    /// A node to begin the descent to a target at a level with, if shortcuts lead to one. REQUIRES: pinned.
    #[inline]
    pub(super) fn shortcut(&self, target: &Target<'_>, level: u8) -> Result<Option<Node<'_>>> {
        let (Target::At(key) | Target::Below(key)) = target else { return Ok(None) };
        let shortcuts = self.shortcuts.current.load();
        if shortcuts.version != self.shortcuts.version() {
            if self.order.is_bytewise() && self.shortcuts.count_miss() {
                self.make_shortcuts_unless_busy();
            }
            return Ok(None);
        }
        if shortcuts.level < level {
            return Ok(None);
        }
        let offset = self.shortcut_among(&shortcuts, key);
        offset.map(|offset| self.node_ahead(offset, shortcuts.level)).transpose()
    }

    /// The last node whose low fence is not behind the key.
    #[inline]
    fn shortcut_among(&self, shortcuts: &Shortcuts, key: &[u8]) -> Option<u64> {
        let Shortcuts { level, prefix, heads, nodes, .. } = shortcuts;
        let Some(rest) = key.strip_prefix(&prefix[..]) else {
            return if key < &prefix[..] { nodes.first() } else { nodes.last() }.copied();
        };
        let head = head_of(rest);
        let mut index = heads.partition_point(|&other| other < head);
        if heads.get(index) == Some(&head) {
            let equal = heads[index..].partition_point(|&other| other == head);
            index += nodes[index..index + equal].partition_point(|&node| self.begins_at_or_before(node, *level, key));
        }
        nodes.get(index.saturating_sub(1)).copied()
    }

    /// Whether a node's low fence is not behind the key.
    fn begins_at_or_before(&self, node: u64, level: u8, key: &[u8]) -> bool {
        let fences = self.node(node, level).and_then(|node| node.fences(&self.pool));
        fences.is_ok_and(|fences| fences.low().is_none_or(|low| low <= key))
    }

    /// Makes shortcuts, unless somebody changes the tree's structure just now.
    #[cold]
    fn make_shortcuts_unless_busy(&self) {
        let Some(structure) = self.try_structure() else { return };
        // What is damaged is told by who descends there.
        let made = self.make_shortcuts().unwrap_or_default();
        self.shortcuts.replace(made);
        drop(structure);
    }

    /// REQUIRES: the lock of the tree's structure is held.
    fn make_shortcuts(&self) -> Result<Shortcuts> {
        let version = self.shortcuts.version();
        let root = self.root()?;
        if root.level() < SHORTEST_WAY {
            return Ok(Shortcuts::default());
        }
        let (mut level, mut nodes) = (root.level(), vec![root.offset]);
        while level > 1 {
            let Some(children) = self.children(&nodes, level, SHORTCUTS_MAX)? else { break };
            (level, nodes) = (level - 1, children);
        }
        if nodes.len() < 2 {
            return Ok(Shortcuts::default());
        }
        let fences = |&node: &u64| Ok(self.node(node, level)?.fences(&self.pool)?.low().map(<[u8]>::to_vec));
        let lows = nodes.iter().map(fences).collect::<Result<Vec<_>>>()?;
        // The first node has no low fence, and its keys may begin with anything: whatever is before the second is in it.
        let first = lows[1].as_deref().unwrap_or_default();
        let last = lows[lows.len() - 1].as_deref().unwrap_or_default();
        let prefix = first[..common_prefix_bytes(first, last)].to_vec();
        let mut heads = vec![0];
        for (before, low) in lows.iter().zip(&lows[1..]) {
            let rest = low.as_deref().and_then(|low| low.strip_prefix(&prefix[..]));
            let (Some(rest), Ordering::Less) = (rest, before.as_deref().cmp(&low.as_deref())) else {
                return Ok(Shortcuts::default());
            };
            heads.push(head_of(rest));
        }
        Ok(Shortcuts { version, level, prefix, heads, nodes })
    }

    /// The nodes below those of a level, in order and each once, as far as their parents know them. `None` if there are
    /// more than `most`: then no more than those are looked at.
    pub(super) fn children(&self, nodes: &[u64], level: u8, most: usize) -> Result<Option<Vec<u64>>> {
        let mut children = Vec::new();
        for &node in nodes {
            for entry in self.node(node, level)?.slots.iter().map(Slot::read) {
                if entry.pointer > HOLE && children.last() != Some(&entry.pointer) {
                    children.push(entry.pointer);
                }
            }
            if children.len() > most {
                return Ok(None);
            }
        }
        Ok(Some(children))
    }
}
