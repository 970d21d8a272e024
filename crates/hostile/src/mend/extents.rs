//! How a pool is divided (`docs/formats/pool.md`): its units, its root area, and its extents.

use super::u64_at;

/// Space is given out in so many bytes.
pub const UNIT_BYTES: usize = 65_536;
/// The root area, where the tree begins.
pub const ROOT_AREA: usize = 4096;
/// What the map has of each unit.
pub const ENTRY_BYTES: usize = 16;

/// Unit, kind and end of every extent that the first region's map tells of and that lies within the pool.
pub fn extents(bytes: &[u8]) -> Vec<(usize, u8, usize)> {
    let units = bytes.len() / UNIT_BYTES;
    (0..units.min(UNIT_BYTES / ENTRY_BYTES))
        .filter_map(|unit| {
            let word = u64_at(bytes, UNIT_BYTES + ENTRY_BYTES * unit);
            let end = (unit + (word >> 32 & 0xff_ffff) as usize) * UNIT_BYTES;
            (word != 0 && end <= bytes.len() && end > unit * UNIT_BYTES).then_some((unit, (word >> 56) as u8, end))
        })
        .collect()
}
