//! Building a node nobody knows of yet, and planning how entries are spread over several.

use slmdb_env::Result;
use slmdb_pmem::{Medium, Pool};

use super::fences::{FENCE_BYTES_INLINE, Shape};
use super::node::{Entry, HEADER_BYTES, SLOT_BYTES};

/// A node to be built.
pub(super) struct NewNode<'k> {
    /// Its block.
    pub block: u64,
    /// The block for its fences, if they are too long for the node.
    pub fence_block: Option<u64>,
    /// Level and fences.
    pub shape: Shape,
    /// The whole low fence; `None`: no bound.
    pub low: Option<&'k [u8]>,
    /// The whole high fence; `None`: no bound.
    pub high: Option<&'k [u8]>,
    /// The right neighbour.
    pub sibling: u64,
    /// The lock word.
    pub lock: u64,
    /// The entries, with heads that follow the prefix of `shape`; 0 if whole keys are compared.
    pub entries: &'k [Entry],
}

impl NewNode<'_> {
    /// Writes it. Flushed, not fenced.
    pub fn write<M: Medium>(&self, pool: &Pool<M>, node_bytes: u32) -> Result<()> {
        let mut fences = Vec::with_capacity(FENCE_BYTES_INLINE.max(self.shape.fence_bytes()));
        fences.extend_from_slice(self.low.unwrap_or_default());
        fences.extend_from_slice(self.high.map_or(&[], |high| &high[usize::from(self.shape.prefix)..]));
        if let Some(block) = self.fence_block {
            // SAFETY: the caller has just taken this block; nothing refers to it yet.
            unsafe { pool.write(block, &fences)? };
            pool.flush(block, fences.len() as u64);
            fences.clear();
            fences.extend_from_slice(&block.to_ne_bytes());
        }
        fences.resize(FENCE_BYTES_INLINE, 0);
        let mut image = Vec::with_capacity(node_bytes as usize);
        for word in [self.lock, 0, 0, self.sibling, self.shape.word()] {
            image.extend_from_slice(&word.to_ne_bytes());
        }
        image.extend_from_slice(&fences);
        debug_assert_eq!(image.len(), HEADER_BYTES);
        for entry in self.entries {
            image.extend_from_slice(&entry.head.to_ne_bytes());
            image.extend_from_slice(&entry.pointer.to_ne_bytes());
        }
        assert!(image.len() <= node_bytes as usize, "more entries than a node has slots");
        image.resize(node_bytes as usize, 0);
        // SAFETY: as above.
        unsafe { pool.write(self.block, &image)? };
        pool.flush(self.block, u64::from(node_bytes));
        Ok(())
    }
}

/// How many slots a node of this size has.
pub(super) const fn slots_of(node_bytes: u32) -> usize {
    (node_bytes as usize - HEADER_BYTES) / SLOT_BYTES
}

/// How entries are spread over new nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fill {
    /// As few nodes as there can be, all full but the last: at the right end of a level, where keys arrive in order.
    Brim,
    /// Evenly, with room to grow: three quarters full, or two halves of one node and an entry.
    Even,
}

/// Where the nodes end: one past the last entry of each. Never empty; the first may be 0, for a node without entries.
pub(super) fn cuts(entries: usize, slots: usize, fill: Fill) -> Vec<usize> {
    if entries <= slots {
        return vec![entries];
    }
    match fill {
        Fill::Brim => (1..=entries.div_ceil(slots)).map(|part| (part * slots).min(entries)).collect(),
        Fill::Even => {
            let parts = entries.div_ceil(comfortable(slots));
            (1..=parts).map(|part| part * entries / parts).collect()
        }
    }
}

/// The number of entries up to which a node is filled where keys arrive in no order.
pub(super) const fn comfortable(slots: usize) -> usize {
    slots * 3 / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_spread_evenly_or_to_the_brim() {
        assert_eq!(cuts(0, 28, Fill::Even), [0]);
        assert_eq!(cuts(28, 28, Fill::Even), [28]);
        assert_eq!(cuts(29, 28, Fill::Even), [14, 29]);
        assert_eq!(cuts(29, 28, Fill::Brim), [28, 29]);
        assert_eq!(cuts(100, 28, Fill::Even), [20, 40, 60, 80, 100]);
        assert_eq!(cuts(84, 28, Fill::Brim), [28, 56, 84]);
        for slots in [256, 512, 1024, 2048, 4096].map(slots_of) {
            for entries in 0..8 * comfortable(slots) {
                for fill in [Fill::Even, Fill::Brim] {
                    let cuts = cuts(entries, slots, fill);
                    assert!(cuts.len() <= 8 && cuts.last() == Some(&entries));
                    let starts = std::iter::once(&0).chain(&cuts);
                    assert!(
                        starts.zip(&cuts).all(|(start, end)| end - start <= slots && (end > start || entries == 0))
                    );
                }
                let cuts = cuts(entries, slots, Fill::Even);
                let starts = std::iter::once(&0).chain(&cuts);
                let least = starts.zip(&cuts).map(|(start, end)| end - start).min();
                assert!(cuts.len() == 1 || least >= Some(slots / 2), "half full at least: `space_bounds` counts on it");
            }
        }
    }
}
