//! Writing a table: slots for shard after shard, each shard's in the order of their hashes.
//!
//! A part's slots are gathered first, because their homes follow from how many there are. The table is made in memory and
//! written at once. It takes so much memory as it is long, and 24 bytes for each slot of its largest part.

use std::ops::Range;

use slmdb_env::{Error, Result};
use slmdb_pmem::{Claim, Extent, ExtentKind, Medium, Pool};

use super::identity::SHARDS_MAX;
use super::layout::{
    FIRST_WORD_BYTES, UNIT_BYTES, UNIT_CRC_AT, UNIT_SLOTS, header_bytes, home, homes_for, part_seed, slot_at, unit_crc,
};
use super::record::{Row, TableRecord, encode};
use super::slot::{SLOT_BYTES, Slot};

/// What a table is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableOptions {
    /// Its number, which no other table of the store ever has.
    pub number: u32,
    /// The store's UUID.
    pub uuid: [u8; 16],
    /// Whatever its maker calls its level.
    pub level: u8,
    /// Whatever its maker counts epochs by.
    pub epoch: u32,
    /// How many shards the store has.
    pub shards: u32,
    /// The shards that it may have parts of.
    pub range: Range<u32>,
}

/// Makes a table in memory.
#[derive(Debug)]
pub struct TableBuilder {
    record: TableRecord,
    rows: Vec<Row>,
    /// The header, of zeros, and the parts that are whole.
    bytes: Vec<u8>,
    /// The shard whose part is being gathered, and its load factor.
    open: Option<(u16, u32)>,
    slots: Vec<Slot>,
}

impl TableBuilder {
    /// A table with no part yet. [`Error::Invalid`] if the shards are none that a store can have.
    pub fn new(options: TableOptions) -> Result<TableBuilder> {
        let TableOptions { number, uuid, level, epoch, shards, range } = options;
        if !shards.is_power_of_two() || shards > SHARDS_MAX || range.is_empty() || range.end > shards {
            return Err(Error::invalid(format!("a hash table of the shards {range:?} of {shards}")));
        }
        let rows = vec![Row::ABSENT; range.len()];
        let bytes = vec![0; header_bytes(rows.len() as u64) as usize];
        let record = TableRecord { number, uuid, level, epoch, shards, range, entries: 0, length_bytes: 0 };
        Ok(TableBuilder { record, rows, bytes, open: None, slots: Vec::new() })
    }

    /// Begins the part of a shard, which may stay empty. It will be so full, in percent. A table says nothing of shards that
    /// were never begun. [`Error::Invalid`] if the shard does not come behind the one before.
    pub fn begin_part(&mut self, shard: u16, load_percent: u32) -> Result<()> {
        let is_behind = self.open.is_none_or(|(before, _)| before < shard);
        if !is_behind || !self.record.range.contains(&u32::from(shard)) {
            return Err(Error::invalid(format!("shard {shard} comes out of turn in a hash table")));
        }
        self.end_part()?;
        self.open = Some((shard, load_percent));
        Ok(())
    }

    /// Adds a slot to the part. [`Error::Invalid`] if no part was begun, or if the slot's identity does not come behind the last
    /// one's.
    pub fn add(&mut self, slot: Slot) -> Result<()> {
        let is_behind = self.slots.last().is_none_or(|last| last.order() < slot.order());
        if self.open.is_none() || !is_behind {
            return Err(Error::invalid("the slots of a hash table are out of order"));
        }
        self.slots.push(slot);
        Ok(())
    }

    /// How long the parts are that are whole, with the header, in bytes.
    pub fn length_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// How many slots were added.
    pub fn entries(&self) -> u64 {
        self.record.entries + self.slots.len() as u64
    }

    fn end_part(&mut self) -> Result<()> {
        let Some((shard, load_percent)) = self.open else { return Ok(()) };
        let full = || Error::invalid("a hash table has no room for so many slots");
        let begin = self.bytes.len();
        let homes = homes_for(self.slots.len() as u64, load_percent);
        let unit_bytes = UNIT_BYTES as usize;
        self.bytes.resize(begin + homes.div_ceil(UNIT_SLOTS) as usize * unit_bytes, 0);
        let mut next = 0;
        for slot in &self.slots {
            let position = home(slot.order().0, homes).max(next);
            next = position + 1;
            let at = begin + slot_at(position) as usize;
            if at >= self.bytes.len() {
                self.bytes.resize(self.bytes.len() + unit_bytes, 0);
            }
            self.bytes[at..at + SLOT_BYTES].copy_from_slice(&slot.bytes());
        }
        let seed = part_seed(self.record.number, shard);
        for (number, unit) in (0..).zip(self.bytes[begin..].as_chunks_mut().0) {
            let crc = unit_crc(seed, number, unit);
            unit[UNIT_CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        }
        self.rows[usize::from(shard) - self.record.range.start as usize] = Row {
            begin: u32::try_from(begin as u64 / UNIT_BYTES).map_err(|_| full())?,
            homes: u32::try_from(homes).map_err(|_| full())?,
            entries: self.slots.len() as u32,
            crc: slmdb_checksum::crc32c_append(seed, &self.bytes[begin..]),
        };
        self.record.entries += self.slots.len() as u64;
        self.slots.clear();
        Ok(())
    }

    /// Ends the last part, and the table. [`Error::Invalid`] if it has more slots than a table has room for.
    pub fn finish(mut self) -> Result<FinishedTable> {
        self.end_part()?;
        self.record.length_bytes = self.bytes.len() as u64;
        let header_end = header_bytes(self.rows.len() as u64) as usize;
        let first_word = encode(&self.record, &self.rows, &mut self.bytes[..header_end]);
        self.bytes[..FIRST_WORD_BYTES].copy_from_slice(&first_word.to_le_bytes());
        Ok(FinishedTable { record: self.record, bytes: self.bytes })
    }
}

/// A table in memory, which is to be written.
#[derive(Debug)]
pub struct FinishedTable {
    record: TableRecord,
    bytes: Vec<u8>,
}

impl FinishedTable {
    /// What is known of it.
    pub fn record(&self) -> &TableRecord {
        &self.record
    }

    /// All of it, for a file. It counts once the file is durable and something durable names it.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Writes it into an extent of its own, whose owner is its number. On return it is durable and complete. After an error
    /// nothing is left behind. [`Error::Full`] if the pool has no run of units that is so long.
    pub fn write_to_pool<M: Medium>(&self, pool: &Pool<M>, claim: Claim) -> Result<Extent> {
        let TableRecord { number, length_bytes, .. } = self.record;
        let extent = pool.allocate_part(ExtentKind::HashTable, length_bytes, length_bytes, number, claim)?;
        // The first error tells more than one of giving the extent back.
        self.write(pool, extent.offset).inspect_err(|_| drop(pool.free_extent(extent.offset)))?;
        Ok(extent)
    }

    fn write<M: Medium>(&self, pool: &Pool<M>, offset: u64) -> Result<()> {
        let (first_word, rest) = self.bytes.split_first_chunk().unwrap_or((&[0; FIRST_WORD_BYTES], &[]));
        // SAFETY: the extent is new, nobody knows of it, and both ranges lie in it.
        unsafe {
            pool.write_durably(offset, &[0; FIRST_WORD_BYTES])?;
            pool.write_durably(offset + FIRST_WORD_BYTES as u64, rest)?;
        }
        pool.fence();
        pool.store(offset, u64::from_le_bytes(*first_word))?;
        pool.persist(offset, FIRST_WORD_BYTES as u64);
        Ok(())
    }
}
