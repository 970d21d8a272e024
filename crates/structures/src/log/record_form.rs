//! [`RecordForm`]: whether records have slots beside their entries.
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

/// Records with their entries alone, or with slots beside.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RecordForm {
    /// Nothing.
    #[default]
    Plain,
    /// A slot for each entry.
    WithSlots,
}

impl RecordForm {
    /// All there are, by their numbers in the arena header.
    pub const ALL: [RecordForm; 2] = [RecordForm::Plain, RecordForm::WithSlots];

    /// The form with this number in the arena header.
    pub(super) fn of_number(number: u32) -> Option<RecordForm> {
        RecordForm::ALL.get(number as usize).copied()
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
        (u128::from(entry_index) << 96 | u128::from(entry_offset as u32) << 64).to_le_bytes()
    }

    pub fn read(bytes: &[u8; SLOT_BYTES as usize]) -> Slot {
        let slot = u128::from_le_bytes(*bytes);
        Slot { word: slot as u64, entry_offset: (slot >> 64) as u32, entry_index: (slot >> 96) as u32 }
    }
}
