//! The entries of a MemTable, or of a part of it, as its flush writes them: in key order, and the versions of a key newest
//! first. A range that was deleted is a delete of each key in it that has an older version.

use slmdb_env::Result;
use slmdb_structures::EntryKind;
use slmdb_structures::memtable::MemTableEntry;

use crate::write::memtables::Immutable;

impl Immutable {
    /// Whether a flush of it writes nothing.
    pub fn is_empty(&self) -> bool {
        let is_whole = self.is_whole();
        let has_entries = if is_whole {
            self.memtable.entries() > 0
        } else {
            self.memtable.all_entries().any(|entry| self.has(entry.sequence))
        };
        !has_entries && self.deletes.is_empty()
    }

    /// About how many entries it has.
    pub fn entries(&self) -> u64 {
        let of_memtable = if self.is_whole() { self.memtable.entries() } else { 0 };
        of_memtable + self.deletes.len() as u64
    }

    /// Whether it is a MemTable of which nothing was flushed.
    fn is_whole(&self) -> bool {
        self.flushed_through == 0 && !self.is_part()
    }

    fn has(&self, sequence: u64) -> bool {
        self.flushed_through < sequence && sequence <= self.last_sequence
    }

    /// Shows the newest version of each key.
    pub fn newest_entries(&self, mut write: impl FnMut(&MemTableEntry<'_>) -> Result<()>) -> Result<()> {
        if self.is_whole() && self.memtable.range_deletes() == 0 {
            return self.memtable.newest_entries().try_for_each(|entry| write(&entry));
        }
        self.all_entries(|entry, newer| if newer.is_none() { write(&entry) } else { Ok(()) })
    }

    /// Shows all versions, each with the number of the next newer version of its key.
    pub fn all_entries(&self, mut show: impl FnMut(MemTableEntry<'_>, Option<u64>) -> Result<()>) -> Result<()> {
        let entries = self.memtable.all_entries().filter(|entry| self.has(entry.sequence));
        let Some(ranges) = self.memtable.deleted_ranges() else {
            let mut last: Option<MemTableEntry<'_>> = None;
            for entry in entries {
                show(entry, last.filter(|last| last.key == entry.key).map(|last| last.sequence))?;
                last = Some(entry);
            }
            return Ok(());
        };
        let mut entries = entries.peekable();
        let mut deletes = self.deletes.iter().peekable();
        let mut versions: Vec<MemTableEntry<'_>> = Vec::new();
        loop {
            let key = match (entries.peek(), deletes.peek()) {
                (None, None) => return Ok(()),
                (Some(entry), None) => entry.key,
                (None, Some((key, _))) => *key,
                (Some(entry), Some((key, _))) => {
                    if ranges.order().compare(entry.key, key).is_le() {
                        entry.key
                    } else {
                        *key
                    }
                }
            };
            while let Some(entry) = entries.next_if(|entry| entry.key == key) {
                let hidden_from = ranges.next_over(key, entry.sequence).filter(|&from| from <= self.last_sequence);
                let newer = versions.last().map_or(u64::MAX, |newer| newer.sequence);
                if let Some(from) = hidden_from.filter(|&from| entry.kind == EntryKind::Put && from < newer) {
                    versions.push(delete(key, from));
                }
                versions.push(entry);
            }
            if let Some((_, sequence)) = deletes.next_if(|(other, _)| *other == key) {
                let place = versions.partition_point(|version| version.sequence > sequence);
                if versions.get(place).is_none_or(|version| version.sequence != sequence) {
                    versions.insert(place, delete(key, sequence));
                }
            }
            let mut newer = None;
            for version in versions.drain(..) {
                show(version, newer)?;
                newer = Some(version.sequence);
            }
        }
    }
}

fn delete(key: &[u8], sequence: u64) -> MemTableEntry<'_> {
    MemTableEntry { key, sequence, kind: EntryKind::Delete, value: &[] }
}
