//! What a flush writes for snapshots: versions that are not the newest of their key. [`crate::read::snapshots`] has
//! the rules and why they suffice (INV-13).
//!
//! The newest version of each key is always written. An older put is written if a snapshot's moment lies between its
//! own number and that of the next newer version. An older delete is not: it is told to the engine, for whose index it
//! may mean something. If no snapshot's moment lies within a MemTable, only newest versions are written.

use std::collections::HashMap;

use slmdb_env::{Error, Result};
use slmdb_structures::EntryKind;
use slmdb_structures::memtable::MemTableEntry;
use slmdb_table::{KeyEntry, KeySection};

use crate::write::memtables::Immutable;

/// The versions of one MemTable that snapshots see beside the newest.
#[derive(Debug, Default)]
pub struct OlderVersions {
    /// Moments of snapshots that lie within the MemTable, ascending.
    moments: Vec<u64>,
    /// When each older version that was written was replaced, in the order of writing.
    replaced_at: Vec<u64>,
    /// Older deletes that a snapshot sees.
    deletes: Vec<OlderDelete>,
    /// For each key whose versions differ for a snapshot: its oldest version in the MemTable, where that is not the
    /// newest. It is what replaced the version before the MemTable.
    oldest: HashMap<Vec<u8>, u64>,
}

/// A delete that is not the newest version of its key, and that a snapshot sees.
#[derive(Debug)]
pub struct OlderDelete {
    /// The key.
    pub key: Vec<u8>,
    /// Its number.
    pub sequence: u64,
    /// The number of the version that replaced it.
    pub replaced_at: u64,
}

impl OlderVersions {
    /// Writes the entries of a MemTable that belong into its table file, in its order: the newest version of each key,
    /// and what snapshots at these moments see otherwise. Older deletes only if `writes_deletes`; else they are noted.
    pub fn write(
        immutable: &Immutable,
        moments: Vec<u64>,
        writes_deletes: bool,
        mut write: impl FnMut(&MemTableEntry<'_>) -> Result<()>,
    ) -> Result<OlderVersions> {
        let mut older = OlderVersions { moments, ..OlderVersions::default() };
        if older.moments.is_empty() {
            immutable.newest_entries(write)?;
            return Ok(older);
        }
        immutable.all_entries(|entry, newer| match newer {
            Some(newer) if older.is_seen(entry.sequence, newer) => {
                older.oldest.insert(entry.key.to_vec(), entry.sequence);
                if entry.kind == EntryKind::Put || writes_deletes {
                    older.replaced_at.push(newer);
                    return write(&entry);
                }
                let (sequence, replaced_at) = (entry.sequence, newer);
                older.deletes.push(OlderDelete { key: entry.key.to_vec(), sequence, replaced_at });
                Ok(())
            }
            Some(_) => {
                // A newer version was seen, so this older one is what replaced the version before the MemTable.
                if let Some(oldest) = older.oldest.get_mut(entry.key) {
                    *oldest = entry.sequence;
                }
                Ok(())
            }
            None => write(&entry),
        })?;
        Ok(older)
    }

    /// Whether a snapshot sees the version from `sequence` until `replaced_at`.
    fn is_seen(&self, sequence: u64, replaced_at: u64) -> bool {
        let after = self.moments.partition_point(|&moment| moment < sequence);
        self.moments.get(after).is_some_and(|&moment| moment < replaced_at)
    }

    /// Tells `note` of each older version that was written, and when it was replaced. `keys` is the key section of the
    /// table file, which is durable.
    pub fn note(&self, keys: &KeySection, mut note: impl FnMut(&KeyEntry<'_>, u64)) -> Result<()> {
        let mut replaced_at = self.replaced_at.iter();
        if self.replaced_at.is_empty() {
            return Ok(());
        }
        for entry in keys.older_entries() {
            let Some(&replaced_at) = replaced_at.next() else { break };
            note(&entry?, replaced_at);
        }
        match replaced_at.next() {
            None => Ok(()),
            Some(_) => {
                Err(Error::invalid("a table file with fewer versions than were written, which is a bug in slmdb"))
            }
        }
    }

    /// The older deletes that snapshots see.
    pub fn deletes(&self) -> &[OlderDelete] {
        &self.deletes
    }

    /// When a record of the index is replaced, if the MemTable's version `newest` of `key` takes its place.
    pub fn replaced_at(&self, key: &[u8], newest: u64) -> u64 {
        if self.oldest.is_empty() { newest } else { self.oldest.get(key).copied().unwrap_or(newest) }
    }
}
