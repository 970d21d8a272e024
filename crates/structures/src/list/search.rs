//! Searching a list.
//!
//! Each level narrows the search to sixteen nodes, by heads. A whole key is looked at only where heads are equal. What the
//! search found is then shown to be right: the node before it lies before what was looked for, and its own does not, by
//! nodes and entries whose checks match. So a damaged head gives an error, and never hides a key.

use std::cmp::Ordering;

use slmdb_env::Result;
use slmdb_pmem::Medium;

use super::entry::{Entry, MAXIMUM_SEQUENCE};
use super::layout::{FANOUT, head_behind};
use super::open::List;
use crate::EntryKind;

/// A version of a key that was found. Its checksums were right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found<'l> {
    /// A put or a delete.
    pub kind: EntryKind,
    /// Its sequence number.
    pub sequence: u64,
    /// The value, where it lies in the pool; empty for a delete.
    pub value: &'l [u8],
}

/// A place in the order: before all versions of `key` that are not above `sequence`.
struct Target<'k> {
    head: u64,
    key: &'k [u8],
    sequence: u64,
}

/// Where a target is among the entries of a list.
pub(super) struct Landing<'l> {
    /// So many entries come before it.
    pub index: u64,
    /// The entry of that index, if its head is the target's.
    entry: Option<Entry<'l>>,
}

impl<M: Medium> List<M> {
    /// The newest version of a key up to this sequence number.
    ///
    /// [`Error::Corruption`](slmdb_env::Error::Corruption) if what leads there, or the entry, is damaged. (Only a damaged filter
    /// could hide a key, and that is checked at the opening.)
    pub fn get(&self, key: &[u8], sequence_max: u64) -> Result<Option<Found<'_>>> {
        if !self.may_have(key)? {
            return Ok(None);
        }
        match self.land(key, sequence_max)?.entry {
            Some(Entry { front, key: found, .. }) if found == key => {
                let value = front.value(&self.pool)?;
                Ok(Some(Found { kind: front.kind, sequence: front.sequence, value }))
            }
            _ => Ok(None),
        }
    }

    /// Whether the filter knows of the key.
    #[inline]
    pub(super) fn may_have(&self, key: &[u8]) -> Result<bool> {
        let filter = &self.bytes()?[self.shape.filter as usize..self.shape.filter_end as usize];
        if !filter.is_empty() {
            self.pool.note_read();
        }
        Ok(filter.is_empty() || slmdb_filter::may_have(filter, self.header.probes, slmdb_filter::hash_of(key)))
    }

    /// How many entries have a key before `key`: exact.
    pub fn rank(&self, key: &[u8]) -> Result<u64> {
        Ok(self.land(key, MAXIMUM_SEQUENCE)?.index)
    }

    /// Where the versions of `key` begin that are not above `sequence`.
    pub(super) fn land(&self, key: &[u8], sequence: u64) -> Result<Landing<'_>> {
        let prefix = self.prefix();
        if !key.starts_with(prefix) {
            let index = if key < prefix { 0 } else { self.record.entries };
            return Ok(Landing { index, entry: None });
        }
        let target = Target { head: head_behind(&self.order, prefix.len(), key), key, sequence };
        let bytes = self.bytes()?;
        const BLOCK: u64 = FANOUT as u64;
        let mut block = 0;
        for (level, &place) in self.shape.levels().iter().enumerate().rev() {
            let heads = self.heads(bytes, place, block * BLOCK, (block + 1) * BLOCK);
            let step = BLOCK.pow(level as u32 + 1);
            let before = self.before(bytes, heads, block * BLOCK, step, &target)?;
            // The first head is before the target, as the level above has said; or the target is before all.
            block = block * BLOCK + before.saturating_sub(1);
        }
        self.pool.note_read();
        let nodes = self.nodes(bytes, block * BLOCK, (block + 1) * BLOCK);
        let index = block * BLOCK + self.before(bytes, nodes, block * BLOCK, 1, &target)?;
        self.prove(bytes, index, &target)
    }

    /// How many nodes of a block come before the target. The block begins with node `from` of its level, which has every
    /// `step`-th node of the list.
    #[inline]
    fn before<const BYTES: usize>(
        &self,
        bytes: &[u8],
        block: &[[u8; BYTES]],
        from: u64,
        step: u64,
        target: &Target<'_>,
    ) -> Result<u64> {
        let (mut less, mut not_greater) = (0, 0);
        for node in block {
            let head = node.first_chunk().map_or(0, |head| u64::from_le_bytes(*head));
            less += u64::from(head < target.head);
            not_greater += u64::from(head <= target.head);
        }
        // Those of the same head, by halves.
        let (mut low, mut high) = (less, not_greater);
        while low < high {
            let middle = low.midpoint(high);
            let entry = self.entry(&self.node(bytes, (from + middle) * step)?)?;
            if self.is_before(&entry, target) { low = middle + 1 } else { high = middle }
        }
        Ok(low)
    }

    fn is_before(&self, entry: &Entry<'_>, target: &Target<'_>) -> bool {
        self.order.compare(entry.key, target.key).then(target.sequence.cmp(&entry.front.sequence)).is_lt()
    }

    /// That the target lies behind the entry before this index, and not behind the one of this index.
    fn prove(&self, bytes: &[u8], index: u64, target: &Target<'_>) -> Result<Landing<'_>> {
        let fault = || self.damaged_node(index, "the nodes of a list are out of order");
        let side = |index: u64| -> Result<(bool, Option<Entry<'_>>)> {
            let node = self.node(bytes, index)?;
            Ok(match node.head.cmp(&target.head) {
                Ordering::Less => (true, None),
                Ordering::Greater => (false, None),
                Ordering::Equal => {
                    let entry = self.checked_entry(&node)?;
                    (self.is_before(&entry, target), Some(entry))
                }
            })
        };
        if index > 0 && !side(index - 1)?.0 {
            return Err(fault());
        }
        if index == self.record.entries {
            return Ok(Landing { index, entry: None });
        }
        match side(index)? {
            (false, entry) => Ok(Landing { index, entry }),
            (true, _) => Err(fault()),
        }
    }
}
