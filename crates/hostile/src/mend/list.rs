//! The checksums of lists in a pool, and of the entries that they name (`docs/formats/list.md`).
//!
//! With these mended, nodes may name any entry: of another key, of another list, in the middle of another entry.

use crc32c::{crc32c, crc32c_append};

use super::extents::UNIT_BYTES;
use super::{place, put, u32_at, u64_at};

/// The kind of a list's extent.
pub const LIST: u8 = 8;
/// The kind of a segment's extent.
pub const SEGMENT: u8 = 9;

const FANOUT: usize = 16;
const NODE_BYTES: usize = 16;
const HEADER_BYTES: usize = 84;
const ENTRY_HEADER_BYTES: usize = 22;
const PLACE_BITS: u32 = 43;

/// Where the parts of a list are, from its beginning.
struct Parts {
    filter: usize,
    nodes: usize,
    end: usize,
}

/// Mends the lists of a pool, which has these extents (unit, kind, end).
pub fn mend(bytes: &mut [u8], extents: &[(usize, u8, usize)]) {
    let end_of_segment = |at: usize| {
        let has = |&&(unit, kind, end): &&(usize, u8, usize)| kind == SEGMENT && (unit * UNIT_BYTES..end).contains(&at);
        extents.iter().find(has).map(|&(_, _, end)| end)
    };
    for &(unit, _, end) in extents.iter().filter(|(_, kind, _)| *kind == LIST) {
        mend_list(bytes, unit * UNIT_BYTES, end, &end_of_segment);
    }
}

fn mend_list(bytes: &mut [u8], list: usize, extent_end: usize, end_of_segment: &impl Fn(usize) -> Option<usize>) {
    let Some(Parts { filter, nodes, end }) = parts(bytes, list).filter(|parts| parts.end <= extent_end - list) else {
        return;
    };
    // What an extent has that is no list yet begins with a zero, and stays none.
    if u32_at(bytes, list) == 0 {
        return;
    }
    for (index, node) in (list + nodes..list + end).step_by(NODE_BYTES).enumerate() {
        let entry = place((u64_at(bytes, node + 8) & ((1 << PLACE_BITS) - 1)) << 3);
        if let Some(segment_end) = end_of_segment(entry) {
            mend_entry(bytes, entry, segment_end);
        }
        let word = (entry / 8) as u64 | u64::from(u32_at(bytes, entry) & 0x3ff) << PLACE_BITS;
        let crc = crc32c_append(crc32c(&bytes[list + 8..list + 12]), &(index as u32).to_le_bytes());
        let crc = crc32c_append(crc32c_append(crc, &bytes[node..node + 8]), &word.to_le_bytes());
        put(bytes, node + 8, &(word | u64::from(crc) << (PLACE_BITS + 10)).to_le_bytes());
    }
    for (at, from, to) in [(76, filter, nodes), (80, nodes, end)] {
        let crc = crc32c(&bytes[list + from..list + to]);
        put(bytes, list + at, &crc.to_le_bytes());
    }
    let crc = crc32c(&bytes[list + 8..list + filter]) ^ mark(bytes, list);
    put(bytes, list + 4, &crc.to_le_bytes());
}

fn mend_entry(bytes: &mut [u8], entry: usize, segment_end: usize) {
    let key_bytes = (u32_at(bytes, entry + 20) & 0xffff) as usize;
    let value = entry + ENTRY_HEADER_BYTES + key_bytes;
    let end = value.saturating_add(u32_at(bytes, entry + 16) as usize);
    if end <= segment_end {
        let crc = crc32c(&bytes[value..end]);
        put(bytes, entry + 4, &crc.to_le_bytes());
        let crc = crc32c(&bytes[entry + 4..value]) ^ mark(bytes, entry);
        put(bytes, entry, &crc.to_le_bytes());
    }
}

/// Where a list's parts are, by its header. `None`: they would be longer than the pool.
fn parts(bytes: &[u8], list: usize) -> Option<Parts> {
    let field = |at: usize| u32_at(bytes, list + at) as usize;
    let keys = (field(64) & 0xffff) + (field(64) >> 16);
    let table = (HEADER_BYTES + keys).next_multiple_of(8);
    let filter = (table + field(56) * 16).next_multiple_of(64);
    let mut at = filter + field(60) * 64;
    let mut count = field(16);
    while count > FANOUT {
        count = count.div_ceil(FANOUT);
        at = (at + count * 8).next_multiple_of(64);
    }
    let end = at + field(16) * NODE_BYTES;
    (end <= bytes.len() - list).then_some(Parts { filter, nodes: at, end })
}

/// The mark of a place in this pool, whose header has the store's UUID.
fn mark(bytes: &[u8], at: usize) -> u32 {
    crc32c(&bytes[16..32]) ^ ((at as u64 / 8).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}
