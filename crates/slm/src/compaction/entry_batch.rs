//! The next entries of a merge, taken together so that one call asks the index for all of them: it waits for memory
//! once, not once per entry.

use std::ops::Range;

use slmdb_engine::files::table_cache::Tables;
use slmdb_engine::read::merge::{Merge, TableKeys};
use slmdb_env::Error;
use slmdb_table::{EntryKind, KeyEntry, Place};

/// Maximum entries, and bytes of keys at which no more are added, in a batch.
const ENTRIES: usize = 128;
const KEY_BYTES: usize = 64 << 10;

/// A batch of entries, with copies of their keys.
#[derive(Debug, Default)]
pub(crate) struct EntryBatch {
    keys: Vec<u8>,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    input: usize,
    key: Range<usize>,
    sequence: u64,
    kind: EntryKind,
    place: Place,
}

impl EntryBatch {
    /// Replaces the batch by the next entries. `false`: there are none. An error comes with the position of its input.
    pub(crate) fn fill(&mut self, merge: &mut Merge<TableKeys<&Tables>>) -> Result<bool, (usize, Error)> {
        self.keys.clear();
        self.entries.clear();
        while self.entries.len() < ENTRIES && self.keys.len() < KEY_BYTES {
            let Some((input, keys)) = merge.first() else { break };
            let Some(KeyEntry { key, sequence, kind, place }) = keys.entry() else { break };
            let start = self.keys.len();
            self.keys.extend_from_slice(key);
            self.entries.push(Entry { input, key: start..self.keys.len(), sequence, kind, place });
            merge.advance()?;
        }
        Ok(!self.entries.is_empty())
    }

    /// Each entry, with the position of its input.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (usize, KeyEntry<'_>)> {
        self.entries.iter().map(|entry| {
            let Entry { input, sequence, kind, place, .. } = *entry;
            (input, KeyEntry { key: &self.keys[entry.key.clone()], sequence, kind, place })
        })
    }
}
