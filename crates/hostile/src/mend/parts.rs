//! The checksums of files that consist of parts: table files (`docs/formats/table.md`) and index checkpoints
//! (`docs/formats/index-checkpoint.md`).

use crc32c::{crc32c, crc32c_append};

use super::{array_at, place, put, u32_at, u64_at};

const FOOTER_BYTES: usize = 80;
const TRAILER_BYTES: usize = 9;
const LZ4: u8 = 1;
/// More than any part that is compressed.
const UNPACKED_BYTES_MAX: usize = 16 << 20;

const BLOCK: u8 = 1;
const KEYS: u8 = 2;
const PROPERTIES: u8 = 3;
const CHECKPOINT_KEYS: u8 = 4;
const CHECKPOINT_SUMMARY: u8 = 5;
const ENTRY: u8 = 6;
const INDEX_CHUNK: u8 = 7;
const INDEX_TOP: u8 = 8;
/// The bit of the footer's optional parts for an index in place of a key section.
const HAS_INDEX: u32 = 1;
/// The byte and the checksum at the end of an entry by itself, and the bit by which it is told from a block.
const ENTRY_END_BYTES: usize = 5;
const IS_ENTRY: u8 = 1 << 7;

/// Mends a table file of this number and store. With `lengths` the footer also gets the file's length as it is.
pub fn mend_table(bytes: &mut [u8], number: u32, uuid: [u8; 16], lengths: bool) {
    let Some(footer) = mend_footer(bytes, 56, lengths) else { return };
    let field = |at: usize| place(u64_at(bytes, footer + at));
    let (mut chunk, properties, properties_bytes) = (field(24), field(40), field(48));
    let seed = crc32c_append(crc32c(&uuid), &number.to_le_bytes());
    let Some(content) = mend_known(bytes, seed, PROPERTIES, properties, properties_bytes) else { return };
    if u32_at(bytes, footer + 20) & HAS_INDEX != 0 {
        let top_bytes = u32_at(&content, content.len().saturating_sub(4)) as usize;
        return mend_index(bytes, seed, properties.saturating_sub(top_bytes), top_bytes);
    }
    let chunks = (u32_at(&content, 84) as usize).min(content.len() / 4);
    for index in 0..chunks {
        let length = u32_at(&content, content.len() - 4 * (chunks - index)) as usize;
        if let Some(keys) = mend_known(bytes, seed, KEYS, chunk, length) {
            let mut block = u32_at(&keys, 12) as usize;
            for length in blocks_of_chunk(&keys) {
                if !mend_entry(bytes, seed, block, length) {
                    mend_known(bytes, seed, BLOCK, block, length);
                }
                block = block.saturating_add(length);
            }
        }
        chunk = chunk.saturating_add(length);
    }
}

/// Mends the top of an index, the chunks it tells of, and the blocks that these tell of.
fn mend_index(bytes: &mut [u8], seed: u32, top: usize, top_bytes: usize) {
    let Some(top) = mend_known(bytes, seed, INDEX_TOP, top, top_bytes) else { return };
    for (chunk, length) in places_of_rows(&top) {
        let Some(rows) = mend_known(bytes, seed, INDEX_CHUNK, chunk, length) else { continue };
        for (block, length) in places_of_rows(&rows) {
            if !mend_entry(bytes, seed, block, length) {
                mend_known(bytes, seed, BLOCK, block, length);
            }
        }
    }
}

/// Offset and length of what the rows of an index chunk or the top are about, as far as they ascend.
fn places_of_rows(content: &[u8]) -> Vec<(usize, usize)> {
    let rows = (u32_at(content, 0) as usize).min(content.len() / 12);
    let mut start = u32_at(content, 4) as usize;
    let mut places = Vec::new();
    for row in 0..rows {
        let end = u32_at(content, 24 + 12 * row) as usize;
        let Some(length) = end.checked_sub(start) else { break };
        places.push((start, length));
        start = end;
    }
    places
}

/// Mends a part of a table file.
fn mend_known(bytes: &mut [u8], seed: u32, kind: u8, at: usize, length: usize) -> Option<Vec<u8>> {
    let known = u32::try_from(at).ok()?;
    mend_part(bytes, seed, kind, known, at, length)
}

/// Mends an entry by itself, if this is one.
fn mend_entry(bytes: &mut [u8], seed: u32, at: usize, length: usize) -> bool {
    let stored = at.checked_add(length).and_then(|end| bytes.get(at..end));
    let Some((stored, known)) = stored.zip(u32::try_from(at).ok()) else { return false };
    if length < ENTRY_END_BYTES || stored[length - ENTRY_END_BYTES] & IS_ENTRY == 0 {
        return false;
    }
    let crc = crc32c_append(crc32c_append(seed, &[ENTRY]), &known.to_le_bytes());
    let crc = crc32c_append(crc, &stored[..length - 4]);
    put(bytes, at + length - 4, &crc.to_le_bytes());
    true
}

/// Mends an index checkpoint of this number and store. With `lengths` the footer also gets the file's length as it is.
pub fn mend_checkpoint(bytes: &mut [u8], number: u32, uuid: [u8; 16], lengths: bool) {
    let Some(footer) = mend_footer(bytes, 40, lengths) else { return };
    let (summary, summary_bytes) = (place(u64_at(bytes, footer + 24)), place(u64_at(bytes, footer + 32)));
    let seed = crc32c_append(crc32c(&uuid), &number.to_le_bytes());
    let content = mend_part(bytes, seed, CHECKPOINT_SUMMARY, u32::MAX, summary, summary_bytes);
    let Some(content) = content else { return };
    let chunks = (u32_at(&content, 32) as usize).min(content.len() / 4);
    let mut at: usize = 0;
    for index in 0..chunks {
        let length = u32_at(&content, content.len() - 4 * (chunks - index)) as usize;
        mend_part(bytes, seed, CHECKPOINT_KEYS, index as u32, at, length);
        at = at.saturating_add(length);
    }
}

/// Mends the footer, and gives its place.
fn mend_footer(bytes: &mut [u8], length_at: usize, lengths: bool) -> Option<usize> {
    let footer = bytes.len().checked_sub(FOOTER_BYTES)?;
    if lengths {
        let length = bytes.len() as u64;
        put(bytes, footer + length_at, &length.to_le_bytes());
    }
    let crc = crc32c_append(crc32c(&bytes[footer..footer + 68]), &bytes[footer + 72..]);
    put(bytes, footer + 68, &crc.to_le_bytes());
    Some(footer)
}

/// Mends a part and gives its content, unpacked. `None` if it is not within the file, or can't be unpacked.
fn mend_part(bytes: &mut [u8], seed: u32, kind: u8, known: u32, at: usize, length: usize) -> Option<Vec<u8>> {
    let stored = bytes.get(at..at.checked_add(length)?)?;
    let content = stored.len().checked_sub(TRAILER_BYTES)?;
    let crc = crc32c_append(crc32c_append(seed, &[kind]), &known.to_le_bytes());
    let crc = crc32c_append(crc, &stored[..length - 4]);
    let unpacked = match stored[content] {
        0 => Some(stored[..content].to_vec()),
        LZ4 => {
            let unpacked_bytes = u32::from_le_bytes(array_at(stored, content + 1)?) as usize;
            let fits = unpacked_bytes <= UNPACKED_BYTES_MAX;
            fits.then(|| lz4_flex::block::decompress(&stored[..content], unpacked_bytes).ok()).flatten()
        }
        _ => None,
    };
    put(bytes, at + length - 4, &crc.to_le_bytes());
    unpacked
}

/// The lengths of the blocks that a key chunk tells of, as far as it can be understood.
fn blocks_of_chunk(content: &[u8]) -> Vec<usize> {
    let mut rest = content.get(24..).unwrap_or_default();
    let mut lengths = Vec::new();
    while let Some((length, entries)) = varint(&mut rest).zip(varint(&mut rest)) {
        lengths.push(place(length));
        for _ in 0..entries {
            let Some(key) = varint(&mut rest) else { return lengths };
            let Some(behind) = varint(&mut rest).and_then(|_| rest.get(place(key / 2)..)) else { return lengths };
            rest = behind;
        }
    }
    lengths
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, behind) = rest.split_first()?;
        *rest = behind;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}
