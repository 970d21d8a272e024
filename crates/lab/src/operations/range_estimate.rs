//! The approximate number of keys in a range, and of the bytes that they take.
//!
//! Of level 0 each key is counted, in so many leaves. Of the levels all entries of the range count, those too that newer
//! versions hide.

use std::collections::HashMap;
use std::ops::Bound;

use slmdb_engine::Approximate;
use slmdb_engine::store::estimate::entry_bytes;
use slmdb_env::Result;
use slmdb_pmem::AnyMedium;
use slmdb_structures::EntryKind;
use slmdb_structures::hybrid_tree::{HybridTree, LeafCopy, Place, Version};

use super::get::Reader;

/// So many leaves of each tree are looked at. What is behind them is taken to be like them.
const LEAVES_MAX: usize = 4096;

/// A range of keys.
type Range<'r> = (Bound<&'r [u8]>, Bound<&'r [u8]>);

impl Reader {
    /// The approximate size of a range below the MemTables.
    /// LOCKS: catalog
    pub(crate) fn approximate(&self, range: Range<'_>) -> Result<Approximate> {
        let (means, block_bytes) = (self.mean_entry_bytes(), self.store.context.options.block_bytes);
        let (mut keys, mut table_bytes) = (0.0, 0.0);
        let [mutable, immutable] = self.state.level_zero.trees();
        let mut failure = None;
        for (tree, newer) in [(mutable, None), (immutable, Some(mutable))] {
            self.visit(tree, range, |key, version, weight| {
                match newer.map_or(Ok(None), |newer| newer.get(key)) {
                    Ok(None) => {}
                    Ok(Some(_)) => return,
                    Err(error) => failure = Some(error),
                }
                keys += if version.kind == EntryKind::Put { weight } else { 0.0 };
                let (stored_bytes, mean) = (u64::from(version.length_bytes), means.get(&version.file).copied());
                table_bytes += weight * entry_bytes(key.len(), stored_bytes, mean, block_bytes);
            })?;
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
        let of_levels = self.state.levels.current().approximate(range)?;
        keys += of_levels.entries as f64;
        let table_bytes = table_bytes as u64 + of_levels.bytes;
        Ok(Approximate { keys: keys.round() as u64, table_bytes, memtable_bytes: 0 })
    }

    /// Of each run file, the mean bytes of an entry.
    /// LOCKS: catalog
    pub(crate) fn mean_entry_bytes(&self) -> HashMap<u32, f64> {
        let catalog = self.store.catalog.lock();
        let files = catalog.state().files.iter().filter(|(_, file)| file.level == 0);
        files.map(|(&number, file)| (number, file.length_bytes as f64 / file.entries.max(1) as f64)).collect()
    }

    /// Visits the entries of a tree in a range, each with how many it stands for.
    fn visit(
        &self,
        tree: &HybridTree<AnyMedium>,
        (from, to): Range<'_>,
        mut visit: impl FnMut(&[u8], &Version, f64),
    ) -> Result<()> {
        let (order, mut copy, mut next) = (tree.order(), LeafCopy::default(), None::<Vec<u8>>);
        if let Bound::Included(key) | Bound::Excluded(key) = from {
            next = Some(key.to_vec());
        }
        for _ in 0..LEAVES_MAX {
            if !tree.copy_leaf(next.as_deref().map_or(Place::First, Place::At), &mut copy)? {
                return Ok(());
            }
            for (key, version) in copy.iter() {
                if order.is_from(key, from) && order.is_up_to(key, to) {
                    visit(key, &version, 1.0);
                }
            }
            match copy.high() {
                Some(high) if order.is_up_to(high, to) => next = Some(high.to_vec()),
                _ => return Ok(()),
            }
        }
        let counts = tree.counts();
        let visited = LEAVES_MAX as f64;
        let more = (counts.leaves as f64 - visited).max(0.0) / visited;
        for (key, version) in copy.iter() {
            // A last leaf stands for those behind it, about half of which are taken to be in the range.
            visit(key, &version, more * visited / 2.0);
        }
        Ok(())
    }
}
