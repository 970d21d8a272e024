//! The approximate number of keys in a range, and of the bytes that they take.
//!
//! Of the MemTables, a sample of entries is looked up below them. So an entry that overwrites or deletes a key does not count as
//! one more.

use std::ops::Bound;

use slmdb_env::Result;
use slmdb_structures::EntryKind;

use super::shared::Shared;
use super::tier::{Moment, Tier};
use crate::Approximate;

/// Approximate bytes of an entry in the key section, beside its key.
const KEY_SECTION_HEAD_BYTES: u64 = 6;
/// A block that is more than this many times as long as the usual block holds one entry.
const LARGE_BLOCKS: u64 = 2;

/// About how long an entry is in its table file, in bytes. It is taken to be as long as the mean entry of the file, but no longer than
/// its block with its key. A block that is much larger than usual holds one large value, and counts whole.
pub fn entry_bytes(key_bytes: usize, stored_bytes: u64, mean_bytes: Option<f64>, usual_block_bytes: usize) -> f64 {
    if stored_bytes > LARGE_BLOCKS * usual_block_bytes as u64 {
        return stored_bytes as f64;
    }
    let most_bytes = (stored_bytes + key_bytes as u64 + KEY_SECTION_HEAD_BYTES) as f64;
    mean_bytes.map_or(most_bytes, |mean_bytes| mean_bytes.min(most_bytes))
}

impl<T: Tier> Shared<T> {
    /// See [`crate::Engine::approximate`].
    /// LOCKS: those of [`Tier::approximate`]
    pub(super) fn approximate(&self, range: (Bound<&[u8]>, Bound<&[u8]>)) -> Result<Approximate> {
        // MemTables first: an entry that moves on meanwhile counts twice rather than not at all.
        let (keys_more, memtable_bytes) = self.approximate_memtables(range)?;
        let below = self.tier.approximate(range)?;
        let keys = (below.keys as f64 + keys_more).max(0.0).round() as u64;
        Ok(Approximate { keys, memtable_bytes, ..below })
    }

    /// By how much the MemTables change the number of keys, and the bytes of their entries.
    fn approximate_memtables(&self, range: (Bound<&[u8]>, Bound<&[u8]>)) -> Result<(f64, u64)> {
        let published = self.parts.writes.publication.published();
        let memtables = &self.parts.writes.view.load().memtables;
        let (mut keys, mut bytes) = (0.0, 0);
        for (number, memtable) in memtables.iter().enumerate() {
            let (entries, each) = memtable.sample(range);
            for entry in entries.iter().filter(|entry| entry.sequence <= published) {
                bytes += each * (entry.key.len() + entry.value.len()) as u64;
                let newest = memtables[..=number].iter().find_map(|memtable| memtable.get(entry.key, published));
                if newest.is_none_or(|newest| newest.sequence != entry.sequence) {
                    continue;
                }
                keys += match (entry.kind, self.tier.contains_key(entry.key, Moment::Now)?) {
                    (EntryKind::Put, false) => each as f64,
                    (EntryKind::Delete, true) => -(each as f64),
                    _ => 0.0,
                };
            }
        }
        Ok((keys, bytes))
    }
}
