//! The bytes of a table, and where a slot has its home. `docs/formats/hash-table.md` has the tables.

use super::identity::SHARDS_MAX;
use super::slot::SLOT_BYTES;

pub(super) const MAGIC: u32 = u32::from_le_bytes(*b"HASH");
pub(super) const VERSION: u32 = 1;

/// The word that completes a table: its magic, and the checksum of the rest of its header.
pub(super) const FIRST_WORD_BYTES: usize = 8;
/// Bytes of the header before the rows.
pub(super) const HEADER_BYTES: usize = 64;
/// A row of the header: what it says of a part.
pub(super) const ROW_BYTES: usize = 16;
/// Parts consist of units of this length: what persistent memory writes at once (section 1.1 of the paper).
pub(super) const UNIT_BYTES: u64 = 256;
/// A unit has so many slots, then zeros, and at its end a checksum of all that.
pub(super) const UNIT_SLOTS: u64 = 10;
pub(super) const UNIT_CRC_AT: usize = UNIT_BYTES as usize - 4;

/// Tables are no fuller and no emptier than this, in percent of their homes.
const LOAD_PERCENT: (u32, u32) = (10, 95);

const _: () = {
    assert!(FIRST_WORD_BYTES == 8 && MAGIC == u32::from_le_bytes([b'H', b'A', b'S', b'H']));
    assert!(SLOT_BYTES == 24 && HEADER_BYTES == 64 && ROW_BYTES == 16 && UNIT_BYTES == 256);
    assert!(UNIT_SLOTS as usize * SLOT_BYTES <= UNIT_CRC_AT && UNIT_CRC_AT == 252);
    // The numbers of all shards, and one more, have room in 16 bits.
    assert!(SHARDS_MAX == 16_384);
};

/// How long the header is with so many rows, in bytes.
pub(super) fn header_bytes(rows: u64) -> u64 {
    (HEADER_BYTES as u64 + rows * ROW_BYTES as u64).next_multiple_of(UNIT_BYTES)
}

/// So many slots have so many homes at this load factor, and none have none.
pub(super) fn homes_for(entries: u64, load_percent: u32) -> u64 {
    (entries * 100).div_ceil(u64::from(load_percent.clamp(LOAD_PERCENT.0, LOAD_PERCENT.1)))
}

/// So many homes take so many slots at this load factor.
pub(super) fn entries_for(homes: u64, load_percent: u32) -> u64 {
    homes * u64::from(load_percent.clamp(LOAD_PERCENT.0, LOAD_PERCENT.1)) / 100
}

/// About how long a table of so many parts with so many slots in all will be, in bytes: for deciding whether there is space.
/// (What lies behind the last home of a part follows from the hashes. Here it is taken for a unit.)
pub fn table_bytes(entries: u64, parts: u64, load_percent: u32) -> u64 {
    header_bytes(parts) + (homes_for(entries, load_percent) / UNIT_SLOTS + 2 * parts) * UNIT_BYTES
}

/// Where a hash would lie if no other were there. REQUIRES: there is a home.
#[inline]
pub(super) fn home(hash: u64, homes: u64) -> u64 {
    ((u128::from(hash) * u128::from(homes)) >> 64) as u64
}

/// Where a position lies in its part, in bytes.
#[inline]
pub(super) fn slot_at(position: u64) -> u64 {
    position / UNIT_SLOTS * UNIT_BYTES + position % UNIT_SLOTS * SLOT_BYTES as u64
}

/// The checksum of a unit: the unit of this number of the part with this seed.
#[inline]
pub(super) fn unit_crc(part_seed: u32, number: u64, unit: &[u8; UNIT_BYTES as usize]) -> u32 {
    slmdb_checksum::crc32c_append(part_seed ^ number as u32, &unit[..UNIT_CRC_AT])
}

/// Whether a unit is the one that was written.
#[inline]
pub(super) fn is_unit(part_seed: u32, number: u64, unit: &[u8; UNIT_BYTES as usize]) -> bool {
    unit_crc(part_seed, number, unit).to_le_bytes() == unit[UNIT_CRC_AT..]
}

/// What the CRCs of a part and of its units begin with, so that no other part's bytes match it.
pub(super) fn part_seed(number: u32, shard: u16) -> u32 {
    slmdb_checksum::crc32c_append(slmdb_checksum::crc32c(&number.to_le_bytes()), &shard.to_le_bytes())
}

/// What completes a table whose header has this checksum.
pub(super) fn first_word(header_crc: u32) -> u64 {
    u64::from(header_crc) << 32 | u64::from(MAGIC)
}
