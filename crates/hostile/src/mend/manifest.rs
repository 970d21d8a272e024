//! The MANIFEST's checksums (`docs/formats/manifest.md`).

use crc32c::{crc32c, crc32c_append};

use super::{put, u32_at};

const HEADER_BYTES: usize = 40;
const HEADER_CRC_AT: usize = 12;
const RECORD_HEADER_BYTES: usize = 24;

/// Mends the header and every record that begins where one may.
pub fn mend(bytes: &mut [u8]) {
    if bytes.len() < HEADER_BYTES {
        return;
    }
    let crc = crc32c_append(crc32c(&bytes[..HEADER_CRC_AT]), &bytes[HEADER_CRC_AT + 4..HEADER_BYTES]);
    put(bytes, HEADER_CRC_AT, &crc.to_le_bytes());
    let seed = crc32c(&bytes[..HEADER_BYTES]);
    let mut at = HEADER_BYTES;
    while at + RECORD_HEADER_BYTES <= bytes.len() {
        let length = u32_at(bytes, at + 8) as usize;
        let end = (at + RECORD_HEADER_BYTES + length).next_multiple_of(8);
        if end > bytes.len() {
            break;
        }
        let number = &bytes[at + 16..at + 24];
        let payload_crc = crc32c_append(crc32c_append(seed, number), &bytes[at + RECORD_HEADER_BYTES..end]);
        put(bytes, at + 4, &payload_crc.to_le_bytes());
        let header_crc = crc32c_append(seed, &bytes[at + 4..at + RECORD_HEADER_BYTES]);
        put(bytes, at, &header_crc.to_le_bytes());
        at = end;
    }
}
