//! [`Index`]: where the newest entry of each key lies (paper, sections 2.1 and 2.2).
//!
//! The index is cut by hash into shards, each with a hash table in DRAM. Readers look without a lock. Whoever changes slots holds
//! [`Index::writers`], from the commit that makes entries the store's until all their slots are there.

use std::collections::HashMap;
use std::sync::Arc;

use slmdb_engine::lock_order;
use slmdb_env::Result;
use slmdb_order::EntryKind;
use slmdb_structures::hash::{DramTable, DramWriter, Identity, KeyHasher, Slot, SlotPlace};
use slmdb_sync::scheduled::Mutex;
use slmdb_table::{KeyEntry, Place};

/// Where the newest entry of each key lies.
pub(crate) struct Index {
    hasher: KeyHasher,
    tables: Vec<Arc<DramTable>>,
    pub(crate) writers: Mutex<Writers>,
}

impl Index {
    /// Without keys.
    pub(crate) fn new(secret: &[u8; 16], shards: u32) -> Result<Index> {
        let hasher = KeyHasher::new(secret, shards)?;
        let new_shard = |shard| DramWriter::new(hasher.load_percent(shard as u16), 0);
        let shards: Vec<DramWriter> = (0..shards).map(new_shard).collect();
        let tables = shards.iter().map(|shard| shard.table().clone()).collect();
        let writers = Writers { shards, leads_to: HashMap::new() };
        Ok(Index { hasher, tables, writers: Mutex::ranked(lock_order::INDEXING, writers) })
    }

    /// What stands for a key.
    #[inline]
    pub(crate) fn identity(&self, key: &[u8]) -> Identity {
        self.hasher.identity(key)
    }

    /// The slot of a key. Waits for nobody.
    #[inline]
    pub(crate) fn find(&self, key: &[u8]) -> Option<Slot> {
        self.find_identity(&self.identity(key))
    }

    #[inline]
    pub(crate) fn find_identity(&self, identity: &Identity) -> Option<Slot> {
        self.tables[usize::from(identity.shard())].get(identity)
    }

    /// How many keys it has, those of deletes too.
    pub(crate) fn keys(&self) -> u64 {
        self.tables.iter().map(|table| table.entries()).sum()
    }

    /// What it takes in memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.memory_bytes()).sum()
    }
}

/// Those who change the tables of the shards.
pub(crate) struct Writers {
    shards: Vec<DramWriter>,
    /// How many slots lead to each table file, and for how many of them that is a delete.
    leads_to: HashMap<u32, Leads>,
}

/// How many slots lead to a table file.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Leads {
    /// To puts.
    pub(crate) puts: u64,
    /// To deletes.
    pub(crate) deletes: u64,
}

impl Leads {
    /// To entries.
    pub(crate) fn entries(&self) -> u64 {
        self.puts + self.deletes
    }

    fn count(&mut self, slot: &Slot) -> &mut u64 {
        if slot.is_delete() { &mut self.deletes } else { &mut self.puts }
    }
}

impl Writers {
    /// Puts a slot in.
    pub(crate) fn insert(&mut self, identity: &Identity, slot: Slot) {
        let replaced = self.shards[usize::from(identity.shard())].insert(slot);
        *self.leads_to.entry(slot.place().file).or_default().count(&slot) += 1;
        if let Some(before) = replaced {
            let file = before.place().file;
            let leads = self.leads_to.entry(file).or_default();
            *leads.count(&before) -= 1;
            if leads.entries() == 0 {
                self.leads_to.remove(&file);
            }
        }
    }

    /// How many slots lead to each table file.
    pub(crate) fn leads_to(&self) -> &HashMap<u32, Leads> {
        &self.leads_to
    }

    /// All slots, with the numbers of their shards.
    pub(crate) fn slots(&self) -> impl Iterator<Item = (u16, Slot)> + '_ {
        self.shards.iter().enumerate().flat_map(|(shard, table)| table.slots().map(move |slot| (shard as u16, slot)))
    }
}

/// The slot of an entry of a table file.
pub(crate) fn slot_of(identity: &Identity, file: u32, entry: &KeyEntry<'_>) -> Result<Slot> {
    let Place { offset, length } = entry.place;
    Slot::new(identity, SlotPlace { file, offset, length_bytes: length }, entry.kind == EntryKind::Delete)
}

/// Whether a slot leads to this place.
pub(crate) fn is_at(slot: &Slot, file: u32, place: Place) -> bool {
    slot.place() == SlotPlace { file, offset: place.offset, length_bytes: place.length }
}

/// The place that a slot leads to, in its table file.
pub(crate) fn place_of(slot: &Slot) -> Place {
    let SlotPlace { offset, length_bytes, .. } = slot.place();
    Place { offset, length: length_bytes }
}
