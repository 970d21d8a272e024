//! The checksums of an image of the index (`docs/formats/memory-index.md`, `docs/formats/index-image.md`).

use crc32c::{crc32c, crc32c_append};
use slmdb_manifest::StoreState;

use super::{pool, put};

const FOOTER_BYTES: usize = 64;
const CRC_AT: usize = 12;
const LENGTH_AT: usize = 16;
const PAGE_BYTES: usize = 64 << 10;

/// The seed of the pages' checksums: of what binds the image to its store and its table files.
pub fn seed(state: &StoreState) -> u32 {
    let mut files_crc = 0;
    for (number, file) in &state.files {
        files_crc = crc32c_append(files_crc, &number.to_le_bytes());
        for word in [file.length_bytes, file.entries, file.live_keys, file.lowest_sequence, file.highest_sequence] {
            files_crc = crc32c_append(files_crc, &word.to_le_bytes());
        }
    }
    let live_keys: u64 = state.files.values().map(|file| file.live_keys).sum();
    let mut binding = [0; 32];
    put(&mut binding, 0, &state.flushed_through.to_le_bytes());
    put(&mut binding, 8, &live_keys.to_le_bytes());
    put(&mut binding, 16, &(state.files.len() as u32).to_le_bytes());
    put(&mut binding, 20, &state.next_file_number.to_le_bytes());
    put(&mut binding, 24, &files_crc.to_le_bytes());
    crc32c_append(crc32c(&state.uuid), &binding)
}

/// Mends the pages of an image of the index in plain memory.
pub fn mend(bytes: &mut [u8], seed: u32) {
    for page in bytes.chunks_exact_mut(PAGE_BYTES) {
        let crc = crc32c_append(seed, &page[4..]);
        put(page, 0, &crc.to_le_bytes());
    }
}

/// Mends the pool in an image, with its seals, and the footer, which gets the pool's length as it is. What the image is
/// bound to stays.
pub fn mend_pool(bytes: &mut [u8]) {
    let Some(length) = bytes.len().checked_sub(FOOTER_BYTES) else { return };
    let (pool, footer) = bytes.split_at_mut(length);
    pool::mend(pool);
    put(footer, LENGTH_AT, &(length as u64).to_le_bytes());
    let crc = crc32c_append(crc32c(&footer[..CRC_AT]), &footer[LENGTH_AT..]);
    put(footer, CRC_AT, &crc.to_le_bytes());
}
