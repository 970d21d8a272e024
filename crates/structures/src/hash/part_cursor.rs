//! Reading a part from its beginning to its end: for merges, for making a table in DRAM again, and for `verify`.
//!
//! A part has one right form: each slot lies at its home, or right behind the one before it if that is farther. So a cursor
//! finds any slot that lies wrong when it comes there, and any other damage at the end of the part, by the checksum. Slots
//! that were read to the end without an error are those that were written.

use std::ops::Range;

use slmdb_env::{Error, Result};

use super::layout::{UNIT_BYTES, UNIT_SLOTS, home, slot_at};
use super::record::Part;
use super::search::HashTable;
use super::slot::{Slot, SlotForm};
use super::{TableBytes, damaged};

/// So much is read at a time, in bytes: whole units.
const READ_BYTES: u64 = 192 * UNIT_BYTES;

/// The slots of a part, in the order of their hashes. An iterator that ends after an error.
#[derive(Debug)]
pub struct PartCursor<'t, B> {
    table: &'t HashTable<B>,
    part: Part,
    /// How much of the part was read, in bytes.
    read_bytes: u64,
    crc: u32,
    buffer: Vec<u8>,
    /// The positions whose slots are in the buffer.
    in_buffer: Range<u64>,
    /// The number of the next slot's position in the part.
    position: u64,
    last: Option<(u64, (u64, u64))>,
    entries: u32,
    has_ended: bool,
}

impl<'t, B: TableBytes> PartCursor<'t, B> {
    pub(super) fn new(table: &'t HashTable<B>, part: Option<Part>) -> PartCursor<'t, B> {
        let has_ended = part.is_none();
        let part = part.unwrap_or(Part { begin: 0, length_bytes: 0, homes: 0, entries: 0, crc: 0, seed: 0 });
        let (buffer, last) = (Vec::new(), None);
        PartCursor {
            table,
            part,
            read_bytes: 0,
            crc: part.seed,
            buffer,
            in_buffer: 0..0,
            position: 0,
            last,
            entries: 0,
            has_ended,
        }
    }

    /// How many slots the part has in all, as its header says.
    pub fn entries(&self) -> u32 {
        self.part.entries
    }

    fn wrong(&self, what: &str) -> Error {
        damaged(&self.table.bytes, self.part.begin + slot_at(self.position), what)
    }

    fn step(&mut self) -> Result<Option<Slot>> {
        loop {
            let position = self.position;
            if position == self.in_buffer.end {
                if self.read_bytes == self.part.length_bytes {
                    return self.end();
                }
                self.fill()?;
                continue;
            }
            let at = slot_at(position - self.in_buffer.start) as usize;
            let form = self.buffer[at..].first_chunk().map_or(SlotForm::Damaged, SlotForm::of_bytes);
            self.position = position + 1;
            match form {
                SlotForm::Empty => {}
                SlotForm::Full(slot) if self.is_right(&slot, position) => {
                    self.last = Some((position, slot.order()));
                    self.entries = self.entries.saturating_add(1);
                    return Ok(Some(slot));
                }
                _ => {
                    self.position = position;
                    return Err(self.wrong("a slot of a hash table is damaged, or lies where it should not"));
                }
            }
        }
    }

    /// Whether a slot may lie at this position, behind the last one.
    fn is_right(&self, slot: &Slot, position: u64) -> bool {
        let order = slot.order();
        let (is_behind, next) = match self.last {
            Some((last, before)) => (before < order, last + 1),
            None => (true, 0),
        };
        is_behind && self.part.homes > 0 && position == home(order.0, self.part.homes).max(next)
    }

    fn fill(&mut self) -> Result<()> {
        let wanted = (self.part.length_bytes - self.read_bytes).min(READ_BYTES) as usize;
        self.buffer.resize(wanted, 0);
        self.table.bytes.copy(self.part.begin + self.read_bytes, &mut self.buffer)?;
        self.crc = slmdb_checksum::crc32c_append(self.crc, &self.buffer);
        self.read_bytes += wanted as u64;
        self.in_buffer = self.position..self.read_bytes / UNIT_BYTES * UNIT_SLOTS;
        Ok(())
    }

    fn end(&mut self) -> Result<Option<Slot>> {
        if self.crc != self.part.crc || self.entries != self.part.entries {
            self.position = 0;
            return Err(self.wrong("the checksum of a part of a hash table does not match"));
        }
        Ok(None)
    }
}

impl<B: TableBytes> Iterator for PartCursor<'_, B> {
    type Item = Result<Slot>;

    fn next(&mut self) -> Option<Result<Slot>> {
        if self.has_ended {
            return None;
        }
        let next = self.step().transpose();
        self.has_ended = !matches!(next, Some(Ok(_)));
        next
    }
}
