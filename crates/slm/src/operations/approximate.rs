//! How much is in a range, about: keys, and the bytes they take.
//!
//! Keys come from a sample of the index ([`slmdb_structures::fast_fair::estimate`]); what an entry takes of its table file
//! is the mean of that file, but never more than what it takes by itself or than its block, and all of a block that is larger than
//! blocks usually are: that is one large value. Then MemTables: of a sample of their entries each is looked up, so that what overwrites or deletes is
//! not counted as more keys. Nothing is read from table files, and the work is bounded, however much there is.

use std::collections::HashMap;
use std::ops::Bound;

use slmdb_engine::Approximate;
use slmdb_env::Result;
use slmdb_pmem::Medium;
use slmdb_structures::EntryKind;
use slmdb_sync::epoch;

use crate::operations::get::Reader;

/// What the key section has of an entry beside its key, in bytes, about.
const KEY_SECTION_HEAD_BYTES: u64 = 6;
/// A block that is so many times as large as blocks are meant to be holds one entry.
const LARGE_BLOCKS: u64 = 2;

impl<M: Medium + Clone> Reader<M> {
    /// See [`slmdb_engine::Engine::approximate`].
    pub(crate) fn approximate(&self, range: (Bound<&[u8]>, Bound<&[u8]>)) -> Result<Approximate> {
        // MemTables first: what moves from them to the index meanwhile is counted twice rather than not at all.
        let (mut keys, memtable_bytes) = self.approximate_in_memtables(range)?;
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

    /// By how much MemTables change the number of keys that the index has, and the bytes of their entries.
    fn approximate_in_memtables(&self, range: (Bound<&[u8]>, Bound<&[u8]>)) -> Result<(f64, u64)> {
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
