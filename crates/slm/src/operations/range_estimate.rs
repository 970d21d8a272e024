//! The approximate number of keys in a range, and of the bytes that they take.
//!
//! Keys come from a sample of the index ([`slmdb_structures::fast_fair::estimate`]). An entry is taken to be as long
//! as the mean entry of its table file, but no longer than its block with its key. A block that is much larger than
//! usual holds one large value, and counts whole.
//!
//! Of the MemTables, a sample of entries is looked up in the index. So an entry that overwrites or deletes a key does
//! not count as one more.
//!
//! Nothing is read from table files, and the work is bounded, however much the store holds.

use std::collections::HashMap;
use std::ops::Bound;

use slmdb_engine::Approximate;
use slmdb_env::Result;
use slmdb_pmem::Medium;
use slmdb_structures::EntryKind;
use slmdb_sync::epoch;

use crate::operations::get::Reader;

/// Approximate bytes of an entry in the key section, beside its key.
const KEY_SECTION_HEAD_BYTES: u64 = 6;
/// A block that is more than this many times as long as the usual block holds one entry.
const LARGE_BLOCKS: u64 = 2;

impl<M: Medium + Clone> Reader<M> {
    /// See [`slmdb_engine::Engine::approximate`].
    /// LOCKS: catalog
    pub(crate) fn estimate(&self, range: (Bound<&[u8]>, Bound<&[u8]>)) -> Result<Approximate> {
        // MemTables first: an entry that moves from them to the index meanwhile counts twice rather than not at all.
        let (mut keys, memtable_bytes) = self.estimate_memtables(range)?;
        let entry_bytes: HashMap<u32, f64> = {
            let catalog = self.catalog.lock();
            let files = catalog.state().files.iter();
            files.map(|(&number, file)| (number, file.length_bytes as f64 / file.entries.max(1) as f64)).collect()
        };
        let large_bytes = LARGE_BLOCKS * self.context.options.block_bytes as u64;
        let mut table_bytes = 0.0;
        let guard = epoch::pin();
        for sample in self.index.tree.sample(range, &guard)? {
            let record = self.index.tree.record(sample.record, &guard)?;
            let block_bytes = u64::from(record.block_length());
            let mean_bytes = entry_bytes.get(&record.file()).copied().unwrap_or(block_bytes as f64);
            let most_bytes = block_bytes + record.key().len() as u64 + KEY_SECTION_HEAD_BYTES;
            let bytes = if block_bytes > large_bytes { block_bytes as f64 } else { mean_bytes.min(most_bytes as f64) };
            keys += sample.weight;
            table_bytes += sample.weight * bytes;
        }
        Ok(Approximate { keys: keys.max(0.0).round() as u64, table_bytes: table_bytes as u64, memtable_bytes })
    }

    /// By how much the MemTables change the number of keys in the index, and the bytes of their entries.
    fn estimate_memtables(&self, range: (Bound<&[u8]>, Bound<&[u8]>)) -> Result<(f64, u64)> {
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
                let guard = epoch::pin();
                let is_indexed = self.index.tree.get(entry.key, &guard)?.is_some();
                keys += match (entry.kind, is_indexed) {
                    (EntryKind::Put, false) => each as f64,
                    (EntryKind::Delete, true) => -(each as f64),
                    _ => 0.0,
                };
            }
        }
        Ok((keys, bytes))
    }
}
