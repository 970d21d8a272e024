//! The approximate size of a range, by where its bounds lie in key sections.

use std::ops::Bound;

use slmdb_engine::Approximate;
use slmdb_engine::read::merge::Source;
use slmdb_env::Result;
use slmdb_manifest::FileRecord;

use super::file_keys::file_keys;
use super::get::Reader;

/// What a table file has before a key: entries, and bytes.
type Before = (u64, u64);

impl Reader {
    /// The approximate size of a range below the MemTables. Of a file that a bound cuts, some chunks of its key section are read.
    /// LOCKS: indexing; catalog; file numbers
    pub(crate) fn approximate(&self, range: (Bound<&[u8]>, Bound<&[u8]>)) -> Result<Approximate> {
        let leads_to = self.state.index.writers.lock().leads_to().clone();
        let files: Vec<(u32, FileRecord)> =
            self.store.catalog.lock().state().files.iter().map(|(&number, file)| (number, file.clone())).collect();
        let (mut keys, mut table_bytes) = (0.0, 0);
        for (number, file) in files {
            let (entries, bytes) = match self.in_range(number, &file, range) {
                Err(_) if self.is_gone(number) => continue,
                found => found?,
            };
            let puts = leads_to.get(&number).map_or(0, |leads| leads.puts);
            keys += puts as f64 * entries as f64 / file.entries.max(1) as f64;
            table_bytes += bytes;
        }
        Ok(Approximate { keys: keys.round() as u64, table_bytes, memtable_bytes: 0 })
    }

    /// What a table file has in a range.
    fn in_range(&self, number: u32, file: &FileRecord, (from, to): (Bound<&[u8]>, Bound<&[u8]>)) -> Result<Before> {
        let from = match from {
            Bound::Unbounded => (0, 0),
            Bound::Included(key) => self.before(number, file, key, false)?,
            Bound::Excluded(key) => self.before(number, file, key, true)?,
        };
        let to = match to {
            Bound::Unbounded => (file.entries, file.length_bytes),
            Bound::Included(key) => self.before(number, file, key, true)?,
            Bound::Excluded(key) => self.before(number, file, key, false)?,
        };
        Ok((to.0.saturating_sub(from.0), to.1.saturating_sub(from.1)))
    }

    /// What a table file has before a key, or up to it.
    fn before(&self, number: u32, file: &FileRecord, key: &[u8], is_up_to: bool) -> Result<Before> {
        let order = &self.store.context.options.comparator;
        let is_behind = |entry: &[u8]| {
            let compared = order.compare(entry, key);
            compared.is_gt() || (compared.is_eq() && !is_up_to)
        };
        if is_behind(&file.smallest_key) {
            return Ok((0, 0));
        }
        let mut keys = file_keys(self, number, Some(key))?;
        while keys.advance()? {
            if let (Some(entry), Some(ordinal)) = (keys.entry(), keys.ordinal())
                && is_behind(entry.key)
            {
                return Ok((ordinal, u64::from(entry.place.offset)));
            }
        }
        Ok((file.entries, file.length_bytes))
    }
}
