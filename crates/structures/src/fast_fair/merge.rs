//! Merging sparse nodes.
//!
//! When a removal leaves less than a quarter of a node's slots in use, the node and a neighbour under the same parent are
//! replaced by one, if all their entries fill no more than three quarters of it. Then the same is tried with the parent,
//! which has a child less, and last the root is dropped while it has a single child.
//!
//! Merging only saves space. Whatever stands in its way (no room for the new node, another thread that changes the tree's
//! shape just then) it is left undone, and the next removal in the node tries again. So nodes may be sparse for long, and
//! leaves may be empty.

use slmdb_env::Result;
use slmdb_pmem::Medium;
use slmdb_sync::epoch::Guard;

use super::build::comfortable;
use super::change::Locked;
use super::fences::Target;
use super::node::Entry;
use super::replace::Replacement;
use super::reserve::Reserve;
use super::tree::{Structure, Tree};

impl<M: Medium> Tree<M> {
    /// Merges the leaf that covers a key, and what is above it, as far as they are sparse.
    pub(super) fn merge_around(&self, structure: &mut Structure, key: &[u8], guard: &Guard) {
        // The removal itself is done. What is wrong here will be met by somebody whose business it is.
        let _ = self.try_merge_around(structure, key, guard);
    }

    fn try_merge_around(&self, structure: &mut Structure, key: &[u8], guard: &Guard) -> Result<()> {
        let mut level = 0;
        while !structure.unfinished && self.merge_at(structure, key, level, guard)? {
            level += 1;
        }
        if level > 0 && !structure.unfinished {
            self.drop_roots(structure, guard)?;
        }
        Ok(())
    }

    /// Merges the node of a level that covers a key with a neighbour. Says whether the same should be tried one level up.
    fn merge_at(&self, structure: &mut Structure, key: &[u8], level: u8, guard: &Guard) -> Result<bool> {
        if self.root()?.level() <= level {
            return Ok(false);
        }
        let (parent, _) = self.lock_covering(Target::At(key), level + 1)?;
        // Inner nodes change only under the lock of the structure, so this stays true without the parent's lock.
        let children: Vec<u64> = parent.entries().map(|entry| entry.pointer).collect();
        drop(parent);
        if children.len() == 1 {
            // Nothing to merge with, unless the parent is merged first.
            return Ok(true);
        }
        let (node, _) = self.descend(Target::At(key), level)?;
        let Some(at) = children.iter().position(|&child| child == node.offset) else { return Ok(false) };
        let pairs = [(at.checked_sub(1), Some(at)), (Some(at), at.checked_add(1))];
        for (left, right) in pairs {
            let (Some(left), Some(right)) = (left, right) else { continue };
            let (Some(&left), Some(&right)) = (children.get(left), children.get(right)) else { continue };
            if left == right {
                return Err(self.damaged(left, "a node is in its parent twice"));
            }
            let (left, right) = (self.lock(self.node(left, level)?)?, self.lock(self.node(right, level)?)?);
            if self.merge(structure, left, right, level, guard)? {
                return Ok(self.is_sparse(children.len() - 1));
            }
        }
        Ok(false)
    }

    fn merge(
        &self,
        structure: &mut Structure,
        left: Locked<'_, M>,
        right: Locked<'_, M>,
        level: u8,
        guard: &Guard,
    ) -> Result<bool> {
        let (used_left, used_right) = (left.used(), right.used());
        let replaced = left.node.forward() != 0 || right.node.forward() != 0;
        let worth_it = self.is_sparse(used_left.min(used_right)) && used_left + used_right <= comfortable(self.slots());
        if replaced || !worth_it {
            return Ok(false);
        }
        let (fences_left, fences_right) = (left.node.fences(&self.pool)?, right.node.fences(&self.pool)?);
        if fences_left.high().as_deref() != fences_right.low() || fences_right.low().is_none() {
            return Err(self.damaged(left.node.offset, "two neighbours in the tree do not border on each other"));
        }
        let (low, high) = (fences_left.low(), fences_right.high());
        let prefixes = (fences_left.shape.prefix, fences_right.shape.prefix);
        let heads_behind = (prefixes.0 == prefixes.1).then_some(prefixes.0.into());
        let entries: Vec<Entry> = left.entries().chain(right.entries()).collect();
        let (sibling, cuts) = (right.node.sibling(), vec![entries.len()]);
        let reserve = Reserve::empty(self);
        let plan = Replacement { level, low, high: high.as_deref(), sibling, entries, heads_behind, cuts };
        self.replace(structure, vec![left, right], plan, reserve, guard)?;
        Ok(true)
    }
}
