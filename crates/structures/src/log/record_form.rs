//! [`RecordForm`]: what records have beside their entries.
//!
//! An index over a log may keep words of its own in the arena. Its records then have a **slot** for each entry, between
//! header and payload, and one slot stands in front of the first record. A slot is [`SLOT_BYTES`] bytes, little endian, at
//! a multiple of 8:
//!
//! | offset | bytes | field | meaning |
//! |---|---|---|---|
//! | 0 | 8 | word | the index's own; 0 when the record is written |
//! | 8 | 4 | entry offset | where in the arena the entry begins; 0 in the front's slot |
//! | 12 | 4 | entry index | which entry of its record it is, from 0 |
//!
//! No CRC covers a slot, because its word changes when the record is long written. So a reader that comes from a crash
//! believes nothing of a slot before it has compared it with the record.

use super::arena_header::ARENA_HEADER_BYTES;

/// Bytes of a slot.
pub const SLOT_BYTES: u64 = 16;

/// Where the slot in front of the first record is.
pub(crate) const FRONT_SLOT: u64 = ARENA_HEADER_BYTES;

const _: () = assert!(FRONT_SLOT.is_multiple_of(8));

/// What records have beside their entries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RecordForm {
    /// Nothing.
    #[default]
    Plain,
    /// A slot for each entry.
    WithSlots,
}

impl RecordForm {
    /// All there are.
    pub const ALL: [RecordForm; 2] = [RecordForm::Plain, RecordForm::WithSlots];

    /// The number in the arena header.
    pub(super) fn number(self) -> u32 {
        match self {
            RecordForm::Plain => 0,
            RecordForm::WithSlots => 1,
        }
    }

    /// Undoes [`RecordForm::number`].
    pub(super) fn of_number(number: u32) -> Option<RecordForm> {
        RecordForm::ALL.into_iter().find(|form| form.number() == number)
    }
}

/// A slot as it stands there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    pub word: u64,
    pub entry_offset: u32,
    pub entry_index: u32,
}

impl Slot {
    /// The bytes of a slot whose word is 0.
    pub(super) fn encode(entry_offset: u64, entry_index: u32) -> [u8; SLOT_BYTES as usize] {
        let mut bytes = [0; SLOT_BYTES as usize];
        bytes[8..12].copy_from_slice(&(entry_offset as u32).to_le_bytes());
        bytes[12..].copy_from_slice(&entry_index.to_le_bytes());
        bytes
    }

    pub fn read(bytes: &[u8; SLOT_BYTES as usize]) -> Slot {
        let [word_low, word_high, entry_offset, entry_index] = [0, 4, 8, 12].map(|at| {
            let mut part = [0; 4];
            part.copy_from_slice(&bytes[at..at + 4]);
            u32::from_le_bytes(part)
        });
        Slot { word: u64::from(word_low) | u64::from(word_high) << 32, entry_offset, entry_index }
    }
}
