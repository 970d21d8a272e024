//! Where the lowest level's links are: rebuilt after a crash, or persisted as in the paper.
//!
//! With [`LinkPolicy::Persisted`] every record carries a **slot** for each of its entries, between its header and its
//! payload, and a slot in front of the first record begins the chain. A slot is [`SLOT_BYTES`] bytes, little endian, at a
//! multiple of 8:
//!
//! | offset | bytes | field | meaning |
//! |---|---|---|---|
//! | 0 | 8 | link | offset of the next entry's slot, 0 at the end; bit 0: maybe not persisted yet |
//! | 8 | 4 | entry offset | where in the arena the entry begins; 0 in the front's slot |
//! | 12 | 4 | entry index | which entry of its record it is, from 0 |
//!
//! No CRC covers a slot, because links change when the record is long written. So a reader that comes from a crash believes
//! nothing of a slot before it has compared it with the record.

use super::arena_header::ARENA_HEADER_BYTES;
use super::record::{MAXIMUM_BATCH_BYTES, RECORD_ALIGNMENT_BYTES, RECORD_HEADER_BYTES};

/// Bytes of a slot.
pub const SLOT_BYTES: u64 = 16;

/// Where the chain begins.
pub(super) const FRONT_SLOT: u64 = ARENA_HEADER_BYTES;

/// In a link: its writer may not have persisted it yet.
pub(super) const NOT_PERSISTED: u64 = 1;

const _: () = assert!(SLOT_BYTES % RECORD_ALIGNMENT_BYTES == 0 && FRONT_SLOT % 8 == 0);

/// What becomes of the links of the skiplist's lowest level.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum LinkPolicy {
    /// They live in DRAM and are rebuilt from the records after a crash. A write waits for the medium once.
    #[default]
    Rebuilt,
    /// They are persisted, in the paper's way (section 3.1, Algorithm 1), and followed after a crash. A write waits
    /// for the medium twice: for the record with its own link, and for the link that leads to it.
    Persisted,
}

impl LinkPolicy {
    /// All there are.
    pub const ALL: [LinkPolicy; 2] = [LinkPolicy::Rebuilt, LinkPolicy::Persisted];

    /// The number in the arena header.
    pub(super) fn number(self) -> u32 {
        match self {
            LinkPolicy::Rebuilt => 0,
            LinkPolicy::Persisted => 1,
        }
    }

    /// Undoes [`LinkPolicy::number`].
    pub(super) fn of_number(number: u32) -> Option<LinkPolicy> {
        LinkPolicy::ALL.into_iter().find(|policy| policy.number() == number)
    }

    /// Where the first record of an arena starts, in bytes.
    pub const fn first_record_offset(self) -> u64 {
        ARENA_HEADER_BYTES + self.slots_bytes(1)
    }

    /// Bytes of arena that a record with a payload of this length and so many entries takes, header and padding included.
    /// Meaningful up to [`MAXIMUM_BATCH_BYTES`].
    pub const fn space_for(self, payload_bytes: u64, entry_count: u32) -> u64 {
        payload_bytes.saturating_add(self.payload_start(entry_count)).saturating_add(RECORD_ALIGNMENT_BYTES - 1)
            / RECORD_ALIGNMENT_BYTES
            * RECORD_ALIGNMENT_BYTES
    }

    /// The least bytes of an arena that has room for such a record.
    pub const fn arena_bytes_for(self, payload_bytes: u64, entry_count: u32) -> u64 {
        self.space_for(payload_bytes, entry_count).saturating_add(self.first_record_offset())
    }

    /// From a record's start to its payload, in bytes.
    pub(super) const fn payload_start(self, entry_count: u32) -> u64 {
        RECORD_HEADER_BYTES + self.slots_bytes(entry_count)
    }

    const fn slots_bytes(self, entry_count: u32) -> u64 {
        match self {
            LinkPolicy::Rebuilt => 0,
            LinkPolicy::Persisted => entry_count as u64 * SLOT_BYTES,
        }
    }
}

/// Where the slot of an entry is, given where its record starts.
pub(super) const fn slot_of(record_offset: u64, entry_index: u64) -> u64 {
    record_offset + RECORD_HEADER_BYTES + entry_index * SLOT_BYTES
}

/// A slot that leads nowhere yet.
pub(super) fn new_slot(entry_offset: u64, entry_index: u32) -> [u8; SLOT_BYTES as usize] {
    let mut bytes = [0; SLOT_BYTES as usize];
    bytes[8..12].copy_from_slice(&(entry_offset as u32).to_le_bytes());
    bytes[12..].copy_from_slice(&entry_index.to_le_bytes());
    bytes
}

/// A slot as it stands there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    /// Of the next slot; 0 at the end.
    pub next: u64,
    pub entry_offset: u32,
    pub entry_index: u32,
}

impl Slot {
    pub fn read(bytes: &[u8; SLOT_BYTES as usize]) -> Slot {
        let [link_low, link_high, entry_offset, entry_index] = [0, 4, 8, 12].map(|at| {
            let mut part = [0; 4];
            part.copy_from_slice(&bytes[at..at + 4]);
            u32::from_le_bytes(part)
        });
        let link = u64::from(link_low) | u64::from(link_high) << 32;
        Slot { next: link & !NOT_PERSISTED, entry_offset, entry_index }
    }
}

/// The largest record that can be asked for still has a length.
const _: () = assert!(LinkPolicy::Persisted.space_for(MAXIMUM_BATCH_BYTES, u32::MAX) < 1 << 40);
