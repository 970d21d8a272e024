//! The checksums of an image of the index (`docs/formats/index-image.md`).

use crc32c::{crc32c, crc32c_append};

use super::{pool, put};

const FOOTER_BYTES: usize = 64;
const CRC_AT: usize = 12;
const LENGTH_AT: usize = 16;

/// Mends the pool in an image, with its seals, and the footer, which gets the pool's length as it is. What the image is
/// bound to stays.
pub fn mend(bytes: &mut [u8]) {
    let Some(length) = bytes.len().checked_sub(FOOTER_BYTES) else { return };
    let (pool, footer) = bytes.split_at_mut(length);
    pool::mend(pool);
    put(footer, LENGTH_AT, &(length as u64).to_le_bytes());
    let crc = crc32c_append(crc32c(&footer[..CRC_AT]), &footer[LENGTH_AT..]);
    put(footer, CRC_AT, &crc.to_le_bytes());
}
