//! The checksums of a MemTable's arena (`docs/formats/arena.md`).

use crc32c::{crc32c, crc32c_append};

use super::{put, u32_at};

const HEADER_BYTES: usize = 64;
const RECORD_HEADER_BYTES: usize = 32;
const SLOT_BYTES: usize = 16;
const PERSISTED: u32 = 1;

/// Mends the header, and the records from the first on, one behind the other, of an arena of this generation and store.
pub fn mend(bytes: &mut [u8], generation: u64, uuid: [u8; 16]) {
    if bytes.len() < HEADER_BYTES {
        return;
    }
    let crc = crc32c(&bytes[..60]);
    put(bytes, 60, &crc.to_le_bytes());
    let mut seed = crc32c_append(crc32c(&generation.to_le_bytes()), &uuid);
    let has_slots = u32_at(bytes, 12) == PERSISTED;
    let mut at = HEADER_BYTES;
    if has_slots {
        seed = crc32c_append(seed, b"links");
        at += SLOT_BYTES;
    }
    while at + RECORD_HEADER_BYTES <= bytes.len() {
        let (length, entries) = (u32_at(bytes, at + 8) as usize, u32_at(bytes, at + 12) as usize);
        // Nothing there: the log ends.
        if entries == 0 && length == 0 {
            break;
        }
        let slots = if has_slots { entries * SLOT_BYTES } else { 0 };
        let start = at + RECORD_HEADER_BYTES + slots;
        let Some(payload) = bytes.get(start..start + length) else { break };
        let payload_crc = crc32c(payload);
        put(bytes, at + 4, &payload_crc.to_le_bytes());
        let header_crc = crc32c_append(seed, &bytes[at + 4..at + RECORD_HEADER_BYTES]);
        put(bytes, at, &header_crc.to_le_bytes());
        at = (start + length).next_multiple_of(8);
    }
}
