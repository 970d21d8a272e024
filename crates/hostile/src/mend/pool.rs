//! The checksums of the pool (`docs/formats/pool.md`), and of what the index has in it (`docs/formats/index.md`; of hybrid
//! trees see [`hybrid`], of lists [`list`]).

use crc32c::{crc32c, crc32c_append};

use super::extents::{ENTRY_BYTES, ROOT_AREA, UNIT_BYTES, extents};
use super::list::{LIST, SEGMENT};
use super::{arena, array_at, hash_table, hybrid, list, put, u64_at};

/// The state word's place.
pub const STATE_AT: usize = 64;
const LENGTH_AT: usize = 72;
const BOOT_ID_AT: usize = 80;

const OPEN: u64 = 1;

const HEADER: u8 = 1;
const MAP: u8 = 2;
const ARENA: u8 = 3;
const KEY_SEGMENT: u8 = 4;
const HASH_TABLE: u8 = 10;

const SEGMENT_HEADER_BYTES: usize = 64;
const INTENT_BYTES: usize = 256;
const INTENT_MARK: u32 = 0x494e_544e;
/// Levels that a tree may have: so many intent slots.
const INTENTS: usize = 32;

/// A word that checks itself.
pub fn checked_word(offset: usize, value: u64) -> u64 {
    let value = value & ((1 << 40) - 1);
    let crc = crc32c_append(crc32c(&(offset as u64).to_le_bytes()), &value.to_le_bytes());
    u64::from(crc & 0xff_ffff) << 40 | value
}

/// Turns a pool that was closed clean into one that was left open in this boot.
pub fn leave_open(bytes: &mut [u8], boot_id: [u8; 16]) {
    let open_count = u64_at(bytes, STATE_AT) & u64::from(u32::MAX);
    put(bytes, STATE_AT, &checked_word(STATE_AT, OPEN << 32 | open_count).to_le_bytes());
    put(bytes, BOOT_ID_AT, &boot_id);
}

/// Mends everything: what lies in extents first, then their seals, then the header.
pub fn mend(bytes: &mut [u8]) {
    if bytes.len() < 2 * UNIT_BYTES {
        return;
    }
    mend_root(bytes);
    for at in [STATE_AT, LENGTH_AT] {
        let word = checked_word(at, u64_at(bytes, at));
        put(bytes, at, &word.to_le_bytes());
    }
    let crc = crc32c(&bytes[..60]);
    put(bytes, 60, &crc.to_le_bytes());
    // Those of the first region; small pools have no other. The maps come last: they have the seals of all others.
    let extents = extents(bytes);
    for &(unit, kind, end) in &extents {
        let content = unit * UNIT_BYTES;
        match kind {
            ARENA if bytes[content..].starts_with(b"SLMARENA") => {
                let (generation, uuid) = (u64_at(bytes, content + 16), array_at(bytes, content + 24));
                arena::mend(&mut bytes[content..end], generation, uuid.unwrap_or_default());
            }
            HASH_TABLE => hash_table::mend(&mut bytes[content..end]),
            KEY_SEGMENT if bytes[content..].starts_with(b"slmdbKEY") => mend_segment(&mut bytes[content..end]),
            _ => {}
        }
    }
    hybrid::mend(bytes, &extents);
    list::mend(bytes, &extents);
    // In a pool that is open seals mean nothing.
    if u64_at(bytes, STATE_AT) >> 32 & 0xff == OPEN {
        return;
    }
    for is_map in [false, true] {
        for &(unit, kind, end) in extents.iter().filter(|&&(_, kind, _)| (kind == MAP) == is_map) {
            seal(bytes, unit, kind, end);
        }
    }
}

fn seal(bytes: &mut [u8], unit: usize, kind: u8, end: usize) {
    let entry_at = UNIT_BYTES + ENTRY_BYTES * unit;
    let with_zeros = |crc: u32, from: usize, zeros_at: usize, zeros: usize| {
        crc32c_append(crc32c_append(crc, &bytes[from..zeros_at]), &[0; 16][..zeros])
    };
    let start = unit * UNIT_BYTES;
    let (crc, rest) = match kind {
        HEADER if unit == 0 => {
            let crc = with_zeros(0, 0, STATE_AT, 8);
            (with_zeros(crc, STATE_AT + 8, BOOT_ID_AT, 16), BOOT_ID_AT + 16)
        }
        MAP if unit == 1 => (with_zeros(0, start, entry_at + 8, 8), entry_at + 16),
        _ => (0, start),
    };
    // What checks itself has the seal of no bytes.
    let content = if matches!(kind, LIST | SEGMENT | HASH_TABLE) { 0 } else { crc32c_append(crc, &bytes[rest..end]) };
    let check = crc32c(&(unit as u64).to_le_bytes());
    let check = crc32c_append(crc32c_append(check, &bytes[entry_at..entry_at + 8]), &content.to_le_bytes());
    put(bytes, entry_at + 8, &(u64::from(check) << 32 | u64::from(content)).to_le_bytes());
}

/// The tree's root, and its intents that are not empty.
fn mend_root(bytes: &mut [u8]) {
    if !bytes[ROOT_AREA..].starts_with(b"FASTFAIR") {
        return;
    }
    let crc = u64::from(crc32c(&bytes[ROOT_AREA..ROOT_AREA + 32]));
    put(bytes, ROOT_AREA + 32, &crc.to_le_bytes());
    let slots = usize::try_from(u64_at(bytes, ROOT_AREA + 16)).unwrap_or(usize::MAX);
    for at in (0..INTENTS).map(|level| slots.saturating_add(level * INTENT_BYTES)) {
        if let Some(intent) = at.checked_add(168).and_then(|end| bytes.get(at + 8..end))
            && u64_at(bytes, at) != 0
        {
            let state = u64::from(INTENT_MARK) << 32 | u64::from(crc32c(intent));
            put(bytes, at, &state.to_le_bytes());
        }
    }
}

/// A part of a key segment: its records, with the replaced files as 0, and its header.
fn mend_segment(bytes: &mut [u8]) {
    let records = usize::try_from(u64_at(bytes, 24)).unwrap_or(usize::MAX);
    let end = SEGMENT_HEADER_BYTES.saturating_add(records);
    let (mut at, mut crc) = (SEGMENT_HEADER_BYTES, 0);
    while end <= bytes.len() && at + 20 <= end {
        let key = usize::from(u16::from_le_bytes([bytes[at + 16], bytes[at + 17]]));
        let lower = u32::from(u16::from_le_bytes([bytes[at + 18], bytes[at + 19]]));
        let block = u32::from(bytes[at] >> 2) << 16 | lower;
        let length = (20 + key).next_multiple_of(8) + if block == (1 << 22) - 1 { 8 } else { 0 };
        let Some(record) = bytes.get(at..at + length) else { break };
        crc = crc32c_append(crc32c_append(crc32c_append(crc, &record[..12]), &[0; 4]), &record[16..]);
        at += length;
    }
    put(bytes, 48, &crc.to_le_bytes());
    let header = crc32c(&bytes[..52]);
    put(bytes, 52, &header.to_le_bytes());
}
