//! The approximate number of keys in a range, and of the bytes that they take.
//!
//! Keys come from a sample of the index. Nothing is read from table files, and the
//! work is bounded, however much the store holds.

use std::collections::HashMap;
use std::ops::Bound;

use slmdb_engine::Approximate;
use slmdb_engine::store::estimate::entry_bytes;
use slmdb_env::Result;

use crate::index::key_index::IndexSample;
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
        for IndexSample { key_bytes, location, weight } in self.state.index.keys.sample(range)? {
            let (stored_bytes, mean) = (u64::from(location.place.length), means.get(&location.file).copied());
            let bytes = entry_bytes(key_bytes, stored_bytes, mean, self.store.context.options.block_bytes);
            keys += weight;
            table_bytes += weight * bytes;
        }
        Ok(Approximate { keys: keys.round() as u64, table_bytes: table_bytes as u64, memtable_bytes: 0 })
    }
}
