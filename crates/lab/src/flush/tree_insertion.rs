//! Bringing the entries of a run file into the mutable tree: each key's record is replaced in place.

use slmdb_engine::flush::older_versions::OlderDelete;
use slmdb_env::Result;
use slmdb_structures::EntryKind;
use slmdb_structures::hybrid_tree::{Entry, Version};
use slmdb_sync::epoch;
use slmdb_table::KeyEntry;

use super::{Flush, RunFile};

impl Flush {
    /// Brings the newest entry of each key into the mutable tree. What they replace, and a moment sees, goes into the
    /// map of replaced versions first (INV-12). May be done again.
    pub(super) fn insert(&self, file: &RunFile) -> Result<()> {
        let mut failure = None;
        let entries = file.keys.newest_entries().map_while(|entry| match entry {
            Ok(entry) => Some(Entry { key: entry.key, version: version(file.number, &entry) }),
            Err(error) => {
                failure = Some(error);
                None
            }
        });
        let snapshots = &self.state.level_zero.snapshots;
        self.state.level_zero.mutable().apply(entries, |entry, old| {
            snapshots.note_replaced(entry.key, old, file.older.replaced_at(entry.key, entry.version.sequence));
        })?;
        // Or what was replaced would wait in the pool until this thread replaces as much again.
        epoch::pin().flush();
        failure.map_or(Ok(()), Err)
    }

    /// Keeps the versions of a run file that are not the newest of their keys, and that snapshots see (INV-13). Older
    /// deletes are kept, too: without them a reader would find what is below level 0.
    pub(super) fn note_older(&self, file: &RunFile) -> Result<()> {
        let snapshots = &self.state.level_zero.snapshots;
        file.older.note(&file.keys, |entry, replaced_at| {
            snapshots.note_replaced(entry.key, version(file.number, entry), replaced_at);
        })?;
        for OlderDelete { key, sequence, replaced_at } in file.older.deletes() {
            let (kind, sequence) = (EntryKind::Delete, *sequence);
            let version = Version { sequence, kind, file: file.number, offset: 0, length_bytes: 0 };
            snapshots.note_replaced(key, version, *replaced_at);
        }
        Ok(())
    }
}

/// What the tree says of an entry of a run file.
pub(crate) fn version(file: u32, entry: &KeyEntry<'_>) -> Version {
    let (offset, length_bytes) = (entry.place.offset, entry.place.length);
    Version { sequence: entry.sequence, kind: entry.kind, file, offset, length_bytes }
}
