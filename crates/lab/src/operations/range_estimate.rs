//! The approximate number of keys in a range, and of the bytes that they take.
//!
//! Of level 0 each key is counted, in so many leaves. An entry is taken to be as long as the mean entry of its run file,
//! but no longer than its block with its key. A block that is much larger than usual holds one large value, and counts
//! whole. Of the levels all entries of the range count, those too that newer versions hide.
//!
//! Of the MemTables, a sample of entries is looked up. So an entry that overwrites or deletes a key does not count as one
//! more.

use std::collections::HashMap;
use std::ops::Bound;

use slmdb_engine::Approximate;
use slmdb_env::Result;
use slmdb_pmem::Medium;
use slmdb_structures::EntryKind;
use slmdb_structures::hybrid_tree::{HybridTree, LeafCopy, Place, Version};

use super::get::{Moment, Reader};

/// Approximate bytes of an entry in the key section, beside its key.
const KEY_SECTION_HEAD_BYTES: u64 = 6;
/// A block that is more than this many times as long as the usual block holds one entry.
const LARGE_BLOCKS: u64 = 2;
/// So many leaves of each tree are looked at. What is behind them is taken to be like them.
const LEAVES_MAX: usize = 4096;

/// A range of keys.
type Range<'r> = (Bound<&'r [u8]>, Bound<&'r [u8]>);

impl<M: Medium + Clone> Reader<M> {
    /// See [`slmdb_engine::Engine::approximate`].
    /// LOCKS: catalog
    pub(crate) fn estimate(&self, range: Range<'_>) -> Result<Approximate> {
        // MemTables first: an entry that moves on meanwhile counts twice rather than not at all.
        let (mut keys, memtable_bytes) = self.estimate_memtables(range)?;
        let means = self.mean_entry_bytes();
        let mut table_bytes = 0.0;
        let [mutable, immutable] = self.level_zero.trees();
        let mut failure = None;
        for (tree, newer) in [(mutable, None), (immutable, Some(mutable))] {
            self.visit(tree, range, |key, version, weight| {
                match newer.map_or(Ok(None), |newer| newer.get(key)) {
                    Ok(None) => {}
                    Ok(Some(_)) => return,
                    Err(error) => failure = Some(error),
                }
                keys += if version.kind == EntryKind::Put { weight } else { 0.0 };
                table_bytes += weight * self.entry_bytes(key, version, &means);
            })?;
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
        let of_levels = self.levels.current().approximate(range)?;
        keys += of_levels.entries as f64;
        let table_bytes = table_bytes as u64 + of_levels.bytes;
        Ok(Approximate { keys: keys.max(0.0).round() as u64, table_bytes, memtable_bytes })
    }

    /// Of each run file, the mean bytes of an entry.
    /// LOCKS: catalog
    pub(crate) fn mean_entry_bytes(&self) -> HashMap<u32, f64> {
        let catalog = self.catalog.lock();
        let files = catalog.state().files.iter().filter(|(_, file)| file.level == 0);
        files.map(|(&number, file)| (number, file.length_bytes as f64 / file.entries.max(1) as f64)).collect()
    }

    fn entry_bytes(&self, key: &[u8], version: &Version, means: &HashMap<u32, f64>) -> f64 {
        let block_bytes = u64::from(version.length_bytes);
        if block_bytes > LARGE_BLOCKS * self.context.options.block_bytes as u64 {
            return block_bytes as f64;
        }
        let most_bytes = (block_bytes + key.len() as u64 + KEY_SECTION_HEAD_BYTES) as f64;
        means.get(&version.file).map_or(most_bytes, |mean| mean.min(most_bytes))
    }

    /// Visits the entries of a tree in a range, each with how many it stands for.
    fn visit(
        &self,
        tree: &HybridTree<M>,
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

    /// By how much the MemTables change the number of keys, and the bytes of their entries.
    fn estimate_memtables(&self, range: Range<'_>) -> Result<(f64, u64)> {
        let published = self.writes.publication.published();
        let memtables = &self.writes.view.load().memtables;
        let (mut keys, mut bytes) = (0.0, 0);
        for (number, memtable) in memtables.iter().enumerate() {
            let (entries, each) = memtable.sample(range);
            for entry in entries.iter().filter(|entry| entry.sequence <= published) {
                bytes += each * (entry.key.len() + entry.value.len()) as u64;
                let newest = memtables[..=number].iter().find_map(|memtable| memtable.get(entry.key, published));
                if newest.is_none_or(|newest| newest.sequence != entry.sequence) {
                    continue;
                }
                keys += match (entry.kind, self.is_below_memtables(entry.key)?) {
                    (EntryKind::Put, false) => each as f64,
                    (EntryKind::Delete, true) => -(each as f64),
                    _ => 0.0,
                };
            }
        }
        Ok((keys, bytes))
    }

    /// Whether level 0 or the levels have a value of the key.
    fn is_below_memtables(&self, key: &[u8]) -> Result<bool> {
        match self.level_zero.get(key)? {
            Some(version) => Ok(version.kind == EntryKind::Put),
            None => Ok(self.get_in_levels(key, Moment::Now)?.is_some()),
        }
    }
}
