//! Opening a table, and looking for a key: ordered probing.
//!
//! A key's slot lies at its home, or behind it where smaller hashes have come before it. So a search goes on from the home while
//! hashes are smaller, and ends at the first that is not, at an empty slot, or at the end of the part.

use std::cmp::Ordering;

use slmdb_env::Result;

use super::identity::Identity;
use super::layout::{UNIT_BYTES, UNIT_CRC_AT, UNIT_SLOTS, home, is_unit};
use super::part_cursor::PartCursor;
use super::record::{Part, TableRecord, read};
use super::slot::{Slot, SlotForm};
use super::{TableBytes, damaged};

/// A table, open. Any number of threads read it at a time.
#[derive(Debug)]
pub struct HashTable<B> {
    pub(super) bytes: B,
    pub(super) record: TableRecord,
    /// For each shard of the range.
    parts: Box<[Option<Part>]>,
}

impl<B: TableBytes> HashTable<B> {
    /// Opens the table of this number and store. Reads its header, and checks it. Slots are not read.
    ///
    /// [`Error::Corruption`](slmdb_env::Error::Corruption) if there is no complete table of this number, or its header is
    /// damaged.
    /// [`Error::Unsupported`](slmdb_env::Error::Unsupported) if it is of another version.
    pub fn open(bytes: B, number: u32, uuid: [u8; 16]) -> Result<HashTable<B>> {
        let (record, parts) = read(&bytes, number, uuid)?;
        Ok(HashTable { bytes, record, parts })
    }

    /// What is known of it.
    pub fn record(&self) -> &TableRecord {
        &self.record
    }

    /// Where it lies.
    pub fn bytes(&self) -> &B {
        &self.bytes
    }

    /// How many slots its part of a shard has. `None`: it says nothing of that shard.
    pub fn entries_of(&self, shard: u16) -> Option<u32> {
        self.part(shard).map(|part| part.entries)
    }

    /// What it takes of plain memory, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        (size_of::<HashTable<B>>() + size_of_val(&*self.parts)) as u64
    }

    #[inline]
    pub(super) fn part(&self, shard: u16) -> Option<&Part> {
        let index = u32::from(shard).checked_sub(self.record.range.start)?;
        self.parts.get(index as usize)?.as_ref()
    }

    /// The slot of a key. `None`: the table has none, or says nothing of the key's shard.
    ///
    /// It reads unit after unit, and checks each: [`Error::Corruption`](slmdb_env::Error::Corruption) where one is damaged.
    #[inline]
    pub fn get(&self, identity: &Identity) -> Result<Option<Slot>> {
        match self.part(identity.shard()) {
            Some(part) if part.homes > 0 => self.probe(part, identity.order()),
            _ => Ok(None),
        }
    }

    #[inline]
    fn probe(&self, part: &Part, order: (u64, u64)) -> Result<Option<Slot>> {
        let first = home(order.0, part.homes);
        let (mut number, mut skipped) = (first / UNIT_SLOTS, (first % UNIT_SLOTS) as usize);
        while number < part.units() {
            let at = part.begin + number * UNIT_BYTES;
            let wrong = || damaged(&self.bytes, at, "the checksum of a unit of a hash table does not match");
            let mut buffer = [0; UNIT_BYTES as usize];
            let unit = self.bytes.lend(at, &mut buffer)?.first_chunk().filter(|unit| is_unit(part.seed, number, unit));
            for slot in unit.ok_or_else(wrong)?[..UNIT_CRC_AT].as_chunks().0.iter().skip(skipped) {
                match SlotForm::of_bytes(slot) {
                    SlotForm::Full(slot) => match slot.order().cmp(&order) {
                        Ordering::Less => {}
                        Ordering::Equal => return Ok(Some(slot)),
                        Ordering::Greater => return Ok(None),
                    },
                    SlotForm::Empty => return Ok(None),
                    SlotForm::Damaged => return Err(wrong()),
                }
            }
            (number, skipped) = (number + 1, 0);
        }
        Ok(None)
    }

    /// The slots of a shard, in the order of their hashes. None if the table says nothing of it.
    pub fn slots(&self, shard: u16) -> PartCursor<'_, B> {
        PartCursor::new(self, self.part(shard).copied())
    }
}
