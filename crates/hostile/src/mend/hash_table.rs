//! The checksums of a hash table (`docs/formats/hash-table.md`).

use crc32c::{crc32c, crc32c_append};

use super::{put, u32_at};

const HEADER_BYTES: usize = 64;
const ROW_BYTES: usize = 16;
const UNIT_BYTES: usize = 256;

/// Mends the parts that can be found, and the header.
pub fn mend(bytes: &mut [u8]) {
    if bytes.len() < HEADER_BYTES {
        return;
    }
    let (first, rows) = (u32_at(bytes, 36) >> 16, u32_at(bytes, 40) as usize & 0xffff);
    let header = (HEADER_BYTES + rows * ROW_BYTES).next_multiple_of(UNIT_BYTES);
    if header > bytes.len() {
        return;
    }
    let mut end = bytes.len().min((u32_at(bytes, 44) as usize).saturating_mul(UNIT_BYTES));
    for row in (0..rows).rev() {
        let at = HEADER_BYTES + row * ROW_BYTES;
        let begin = u32_at(bytes, at) as usize * UNIT_BYTES;
        if begin == 0 || begin > end {
            continue;
        }
        let seed = crc32c_append(crc32c(&bytes[8..12]), &(first as u16).wrapping_add(row as u16).to_le_bytes());
        for (number, unit) in (0_u32..).zip(bytes[begin..end].as_chunks_mut::<UNIT_BYTES>().0) {
            let crc = crc32c_append(seed ^ number, &unit[..UNIT_BYTES - 4]);
            put(unit, UNIT_BYTES - 4, &crc.to_le_bytes());
        }
        let crc = crc32c_append(seed, &bytes[begin..end]);
        put(bytes, at + 12, &crc.to_le_bytes());
        end = begin;
    }
    let crc = crc32c(&bytes[8..header]);
    put(bytes, 4, &crc.to_le_bytes());
}
