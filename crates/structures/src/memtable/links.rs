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

/// Bytes of a slot.
pub const SLOT_BYTES: u64 = 16;

/// Where the chain begins.
pub(super) const FRONT_SLOT: u64 = ARENA_HEADER_BYTES;

/// In a link: its writer may not have persisted it yet.
pub(super) const NOT_PERSISTED: u64 = 1;

const _: () = assert!(FRONT_SLOT.is_multiple_of(8));

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
