//! Looking up many keys in order.
//!
//! A look-up waits for memory three or four times, one after the other: inner nodes, the leaf, the key record. Many look-ups
//! wait at the same time: all leaves are asked for before the first is searched, all records before the first is compared.
//! And keys in order share most of the way down, so the parent of the last leaf is remembered.

use std::cmp::Ordering;

use slmdb_env::Result;
use slmdb_pmem::Medium;
use slmdb_sync::epoch::Guard;

use super::fences::{Side, Target};
use super::key_record::{KeyRecord, SMALLEST_RECORD_BYTES};
use super::node::{Node, prefetch_range};
use super::tree::Tree;

/// So many keys are looked up side by side: more than the processor can fetch at once, and few enough to stay in its cache.
const SIDE_BY_SIDE: usize = 16;

impl<M: Medium> Tree<M> {
    /// As [`Tree::get`] for many keys, in their order: `found` gets the number of the key, from 0, and its record. Any order of keys
    /// gives right answers; ascending ones are fast. Each answer is of a moment of its own.
    pub fn get_each<'g>(
        &'g self,
        keys: &[&[u8]],
        guard: &'g Guard,
        mut found: impl FnMut(usize, Option<KeyRecord<'g>>) -> Result<()>,
    ) -> Result<()> {
        let mut parent = None;
        let mut places = Vec::with_capacity(SIDE_BY_SIDE);
        for (part, keys) in keys.chunks(SIDE_BY_SIDE).enumerate() {
            places.clear();
            for key in keys {
                parent = self.parent(parent, key)?;
                let from = match &parent {
                    Some(parent) => self.leaf_ahead(parent, key)?.unwrap_or(*parent),
                    None => self.root()?,
                };
                places.push((from, 0));
            }
            // All leaves are waited for at once, and then all records.
            self.pool.note_read();
            for (key, place) in keys.iter().zip(&mut places) {
                let target = Target::At(key);
                *place = match self.descend_from(place.0, &target, 0)? {
                    Some(covering) => covering,
                    None => self.descend(target, 0)?,
                };
                let (leaf, head) = place;
                leaf.search(*head, |record| {
                    if let Ok(record) = self.pool.pointer(record, SMALLEST_RECORD_BYTES) {
                        prefetch_range(record, SMALLEST_RECORD_BYTES as usize);
                    }
                    Ok(Ordering::Greater)
                })?;
            }
            self.pool.note_read();
            for (index, (key, (leaf, head))) in keys.iter().zip(&places).enumerate() {
                found(part * SIDE_BY_SIDE + index, self.find_in(leaf, *head, key, guard, true)?)?;
            }
        }
        Ok(())
    }

    /// The inner node above the leaf of a key: `last` if it is that still. `None`: there is none.
    pub(super) fn parent<'t>(&'t self, last: Option<Node<'t>>, key: &[u8]) -> Result<Option<Node<'t>>> {
        let target = Target::At(key);
        if let Some(node) = last
            && node.forward() == 0
            && matches!(node.side(&self.pool, &target, &self.order)?, Side::Inside(_))
        {
            return Ok(last);
        }
        Ok(self.descend_if_so_high(target, 1)?.map(|(node, _)| node))
    }

    /// Asks for the leaf of a key, if this is its parent. It may have been replaced, or cover the key no more, when it comes.
    pub(super) fn leaf_ahead<'t>(&'t self, parent: &Node<'t>, key: &[u8]) -> Result<Option<Node<'t>>> {
        let target = Target::At(key);
        let Side::Inside(head) = parent.side(&self.pool, &target, &self.order)? else { return Ok(None) };
        let Some(leaf) = self.child(parent, &target, head)? else { return Ok(None) };
        // Nothing of it is looked at here, not even its level: that would wait for it.
        let leaf = Node::at(&self.pool, leaf, self.node_bytes)?;
        leaf.prefetch();
        Ok(Some(leaf))
    }
}
