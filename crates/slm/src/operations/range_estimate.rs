//! The approximate number of keys in a range, and of the bytes that they take.
//!
//! Keys come from a sample of the index ([`slmdb_structures::fast_fair::estimate`]). Nothing is read from table files, and the
//! work is bounded, however much the store holds.

use std::collections::HashMap;
use std::ops::Bound;

use slmdb_engine::Approximate;
use slmdb_engine::store::estimate::entry_bytes;
use slmdb_env::Result;
use slmdb_sync::epoch;

use crate::operations::get::Reader;

impl Reader {
    /// The approximate size of a range below the MemTables.
    /// LOCKS: catalog
    pub(crate) fn approximate(&self, range: (Bound<&[u8]>, Bound<&[u8]>)) -> Result<Approximate> {
        let means: HashMap<u32, f64> = {
            let catalog = self.store.catalog.lock();
            let files = catalog.state().files.iter();
            files.map(|(&number, file)| (number, file.length_bytes as f64 / file.entries.max(1) as f64)).collect()
        };
        let (mut keys, mut table_bytes) = (0.0, 0.0);
        let guard = epoch::pin();
        for sample in self.state.index.tree.sample(range, &guard)? {
            let record = self.state.index.tree.record(sample.record, &guard)?;
            let (stored_bytes, mean) = (u64::from(record.block_length()), means.get(&record.file()).copied());
            let bytes = entry_bytes(record.key().len(), stored_bytes, mean, self.store.context.options.block_bytes);
            keys += sample.weight;
            table_bytes += sample.weight * bytes;
        }
        Ok(Approximate { keys: keys.round() as u64, table_bytes: table_bytes as u64, memtable_bytes: 0 })
    }
}
