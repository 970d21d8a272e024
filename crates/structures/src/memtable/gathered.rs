//! [`Gathered`]: the entries of a log, before a list is made of them.

use super::range_deletes::DeletedRange;
use super::sort::{Sortable, Sorter, shared_length};
use crate::log::LoggedEntry;

/// Every entry of a log that counts, in the order of the sequence numbers.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// Where each entry begins in the arena; 0 for one that gives no key a version.
    pub offsets: Vec<u32>,
    /// Where the slot of each entry is; empty where there are none.
    slots: Vec<u32>,
    /// Of the first entry; 0 while there is none.
    pub first_sequence: u64,
    /// The common beginning of all keys; `None` while there is no key.
    shared: Option<Vec<u8>>,
    /// The ranges that are deleted.
    pub deleted: Vec<DeletedRange>,
}

impl Gathered {
    #[inline]
    pub fn add(&mut self, logged: &LoggedEntry<'_>) {
        if self.offsets.is_empty() {
            self.first_sequence = logged.sequence;
        }
        let has_version = logged.entry.kind.of_key().is_some();
        self.offsets.push(if has_version { logged.offset as u32 } else { 0 });
        self.slots.extend(logged.slot.map(|slot| slot as u32));
        if has_version {
            self.share(logged.entry.key);
        } else if let Some(range) = logged.entry.deleted_range() {
            self.deleted.push(DeletedRange::new(range, logged.sequence.saturating_sub(1)));
        }
    }

    /// Cuts what all keys begin with down to what this one does.
    #[inline]
    fn share(&mut self, key: &[u8]) {
        let shared = self.shared.get_or_insert_with(|| key.to_vec());
        if !key.starts_with(shared) {
            shared.truncate(shared_length(key, shared));
        }
    }

    /// The common beginning of all keys.
    pub fn shared_prefix(&self) -> &[u8] {
        self.shared.as_deref().unwrap_or_default()
    }

    /// Number of entries, also of those that give no key a version.
    pub fn len(&self) -> u64 {
        self.offsets.len() as u64
    }

    /// Where the slot of an entry is; 0 where there are none.
    pub fn slot(&self, index: u32) -> u64 {
        self.slots.get(index as usize).copied().unwrap_or(0).into()
    }

    /// All entries that give a key a version, in the list's order, by sorting.
    pub fn sorted(&self, sorter: &Sorter<'_>) -> Vec<Sortable> {
        let entries = self.offsets.iter().zip(0..).filter(|&(&offset, _)| offset != 0);
        let mut entries: Vec<Sortable> = entries.map(|(&offset, index)| sorter.sortable(index, offset)).collect();
        sorter.sort(&mut entries);
        entries
    }
}
