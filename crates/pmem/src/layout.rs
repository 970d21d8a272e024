//! The pool's format: constants, words and where things are. Nothing here touches memory.
//!
//! The byte tables, which `docs/formats/pool.md` shows too. All numbers are little endian, all offsets count from the start of
//! the pool. (A pool is used where it lies, so this crate is for little-endian machines only.)
//!
//! ```text
//! header extent: unit 0 (64 KiB)
//!      0  magic            u64   the last word a creation writes
//!      8  format version   u32
//!     12  unit bytes       u32   65,536
//!     16  uuid             16 B
//!     32  region units     u32   a power of two from 4,096 to 65,536
//!     36  root offset      u32   4,096
//!     40  root bytes       u32   4,096
//!     44  zero             16 B
//!     60  crc32c           u32   of bytes 0..60, the magic included
//!     64  state            u64   checked word: state u8 << 32 | number of the opening u32
//!     72  length           u64   checked word: the pool's length in units
//!     80  boot id          16 B  which boot of the machine the last opening belongs to; zero in a pool closed clean
//!     96  zero
//!   4096  root area      4096 B  belongs to the layers above
//!   8192  zero
//!
//! checked word: value in bits 0..40, check in bits 40..64 = low 24 bits of the crc32c of (offset of the word u64, value u64)
//!
//! map extent of a region: region units x 16 B; in region 0 right behind the header, in all others at the region's start
//!   16 i  entry of the region's unit i, if an extent begins there; else 0
//!      0  word             u64   kind u8 << 56 | length in units u24 << 32 | owner u32
//!      8  seal             u64   check u32 << 32 | crc32c of the extent's content u32; check = crc32c of
//!                                (unit u64, word u64, content's crc32c u32). Meaningful in a pool closed clean only.
//!                                The content of an extent that checks itself counts as empty: its crc32c is 0.
//! ```

use crate::extent::ExtentKind;

#[cfg(not(all(target_endian = "little", target_pointer_width = "64")))]
compile_error!("a pool is mapped and used as it is stored: on 64-bit little-endian machines only");

/// Space in a pool is given out in multiples of this: 64 KiB.
pub const UNIT_BYTES: u64 = 65_536;
/// Bytes of the root area, which belongs to the layers above.
pub const ROOT_BYTES: u64 = 4096;
/// Where the root area begins.
pub(crate) const ROOT_OFFSET: u64 = 4096;

pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"slmpool\n");
pub(crate) const FORMAT_VERSION: u32 = 1;

pub(crate) const MAGIC_OFFSET: u64 = 0;
pub(crate) const VERSION_OFFSET: usize = 8;
pub(crate) const UNIT_BYTES_OFFSET: usize = 12;
pub(crate) const UUID_OFFSET: usize = 16;
pub(crate) const REGION_UNITS_OFFSET: usize = 32;
pub(crate) const ROOT_OFFSET_OFFSET: usize = 36;
pub(crate) const ROOT_BYTES_OFFSET: usize = 40;
pub(crate) const CONSTANTS_CRC_OFFSET: usize = 60;
pub(crate) const CONSTANTS_BYTES: usize = 64;
pub(crate) const STATE_OFFSET: u64 = 64;
pub(crate) const LENGTH_OFFSET: u64 = 72;
pub(crate) const BOOT_ID_OFFSET: u64 = 80;

pub(crate) const ENTRY_BYTES: u64 = 16;
pub(crate) const REGION_UNITS_MIN: u64 = 4096;
pub(crate) const REGION_UNITS_MAX: u64 = 65_536;
/// Longer than any address space: a pool that claims more is damaged.
pub(crate) const POOL_UNITS_MAX: u64 = (1 << 46) / UNIT_BYTES;

const _: () = {
    assert!(MAGIC_OFFSET == 0 && STATE_OFFSET == 64 && ROOT_OFFSET == 4096);
    assert!(VERSION_OFFSET == MAGIC_OFFSET as usize + 8);
    assert!(UNIT_BYTES_OFFSET == VERSION_OFFSET + 4);
    assert!(UUID_OFFSET == UNIT_BYTES_OFFSET + 4);
    assert!(REGION_UNITS_OFFSET == UUID_OFFSET + 16);
    assert!(ROOT_OFFSET_OFFSET == REGION_UNITS_OFFSET + 4);
    assert!(ROOT_BYTES_OFFSET == ROOT_OFFSET_OFFSET + 4);
    assert!(CONSTANTS_CRC_OFFSET + 4 == CONSTANTS_BYTES);
    // State, length and boot id share one cache line, so that they become durable in the order they are stored in.
    assert!(STATE_OFFSET as usize == CONSTANTS_BYTES && STATE_OFFSET.is_multiple_of(64));
    assert!(LENGTH_OFFSET == STATE_OFFSET + 8 && BOOT_ID_OFFSET == LENGTH_OFFSET + 8);
    assert!(BOOT_ID_OFFSET + 16 <= STATE_OFFSET + 64);
    assert!(ROOT_OFFSET + ROOT_BYTES <= UNIT_BYTES);
    assert!(UNIT_BYTES == 65_536 && ROOT_BYTES == 4096 && ENTRY_BYTES == 16);
    // A map is a whole number of units, and the number of a unit in its region fits 16 bits.
    assert!(REGION_UNITS_MIN * ENTRY_BYTES == UNIT_BYTES);
    assert!(REGION_UNITS_MAX - 1 <= u16::MAX as u64);
    assert!(POOL_UNITS_MAX < 1 << 40);
};

/// A word that checks itself: 40 bits of value, and 24 bits of a crc over them and the word's place.
pub(crate) fn checked_word(offset: u64, value: u64) -> u64 {
    debug_assert!(value < 1 << 40);
    let crc = slmdb_checksum::crc32c_append(slmdb_checksum::crc32c(&offset.to_le_bytes()), &value.to_le_bytes());
    u64::from(crc & 0xff_ffff) << 40 | value
}

/// The value of a [`checked_word`], or `None` if it is damaged.
pub(crate) fn checked_value(offset: u64, word: u64) -> Option<u64> {
    let value = word & ((1 << 40) - 1);
    (checked_word(offset, value) == word).then_some(value)
}

/// The check half of a seal.
pub(crate) fn seal_word(unit: u64, entry: u64, content_crc: u32) -> u64 {
    let mut bytes = [0; 20];
    bytes[..8].copy_from_slice(&unit.to_le_bytes());
    bytes[8..16].copy_from_slice(&entry.to_le_bytes());
    bytes[16..].copy_from_slice(&content_crc.to_le_bytes());
    u64::from(slmdb_checksum::crc32c(&bytes)) << 32 | u64::from(content_crc)
}

/// What the state word says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Somebody has the pool open, or went away without closing it.
    Open = 1,
    /// Closed: every extent is sealed.
    Clean = 2,
    /// On the way from clean to open or back: everything is as it was sealed, but for the boot id.
    Turning = 3,
}

/// State and number of the opening, as the state word holds them.
pub(crate) fn state_word(state: State, open_count: u32) -> u64 {
    checked_word(STATE_OFFSET, (state as u64) << 32 | u64::from(open_count))
}

/// Reverses [`state_word`].
pub(crate) fn parse_state(word: u64) -> Option<(State, u32)> {
    let value = checked_value(STATE_OFFSET, word)?;
    let state = match value >> 32 {
        1 => State::Open,
        2 => State::Clean,
        3 => State::Turning,
        _ => return None,
    };
    Some((state, value as u32))
}

/// The word of a map entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub kind: ExtentKind,
    pub units: u64,
    pub owner: u32,
}

impl Entry {
    pub fn word(self) -> u64 {
        debug_assert!(self.units >= 1 && self.units <= REGION_UNITS_MAX);
        (self.kind as u64) << 56 | self.units << 32 | u64::from(self.owner)
    }

    /// `None`: no kind that exists, or no length that a region has room for.
    #[inline]
    pub fn parse(word: u64) -> Option<Entry> {
        let kind = ExtentKind::from_byte((word >> 56) as u8)?;
        let units = word >> 32 & 0xff_ffff;
        (1..=REGION_UNITS_MAX).contains(&units).then_some(Entry { kind, units, owner: word as u32 })
    }
}

/// How a pool is divided into regions. Everything follows from the region's size; all counts are in units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Units of a region.
    pub region: u64,
    /// Its logarithm: dividing by a region's size is on the way of every followed word.
    shift: u32,
}

impl Geometry {
    /// For a new pool: regions of 4 GiB, smaller if the whole pool can't be that large. (Small regions have small maps.)
    pub fn for_maximum(maximum_bytes: u64) -> Geometry {
        let units = (maximum_bytes / UNIT_BYTES).clamp(REGION_UNITS_MIN, REGION_UNITS_MAX);
        Geometry::of(units.next_power_of_two())
    }

    /// As the header has it.
    pub fn from_header(region_units: u32) -> Option<Geometry> {
        let region = u64::from(region_units);
        let possible = region.is_power_of_two() && (REGION_UNITS_MIN..=REGION_UNITS_MAX).contains(&region);
        possible.then(|| Geometry::of(region))
    }

    fn of(region: u64) -> Geometry {
        Geometry { region, shift: region.trailing_zeros() }
    }

    /// The region that a unit is in.
    #[inline]
    pub fn region_of(self, unit: u64) -> u64 {
        unit >> self.shift
    }

    /// The number of a unit in its region.
    #[inline]
    pub fn in_region(self, unit: u64) -> u64 {
        unit & (self.region - 1)
    }

    /// Units of each map.
    pub fn map(self) -> u64 {
        self.region * ENTRY_BYTES / UNIT_BYTES
    }

    /// The first unit of a region's map.
    #[inline]
    pub fn map_start(self, region: u64) -> u64 {
        if region == 0 { 1 } else { region * self.region }
    }

    /// The unit behind a region's map.
    pub fn map_end(self, region: u64) -> u64 {
        self.map_start(region) + self.map()
    }

    /// Units of the smallest pool: header, map, and nothing else.
    pub fn smallest(self) -> u64 {
        self.map_end(0)
    }

    /// How many regions a pool of this length has. A last region that has no room for its map is not counted, and its
    /// units are not used.
    pub fn regions(self, length: u64) -> u64 {
        let whole = self.region_of(length);
        whole + u64::from(self.map_end(whole) <= length)
    }

    /// The unit behind a region's last one, in a pool of this length.
    pub fn region_end(self, region: u64, length: u64) -> u64 {
        ((region + 1) * self.region).min(length)
    }

    /// How many units the header and the maps of a pool of this length take.
    pub fn own(self, length: u64) -> u64 {
        1 + self.regions(length) * self.map()
    }

    /// How many units of a pool of this length extents may have.
    pub fn usable(self, length: u64) -> u64 {
        length.min(self.regions(length) * self.region) - self.own(length)
    }

    /// Where the entry of a unit is, in bytes.
    #[inline]
    pub fn entry_offset(self, unit: u64) -> u64 {
        self.map_start(self.region_of(unit)) * UNIT_BYTES + self.in_region(unit) * ENTRY_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checked_word_notices_every_flip_of_one_or_two_bits() {
        for (offset, value) in [(STATE_OFFSET, 0), (STATE_OFFSET, 1 << 32 | 7), (LENGTH_OFFSET, (1 << 40) - 1)] {
            let word = checked_word(offset, value);
            assert_eq!(checked_value(offset, word), Some(value));
            for first in 0..64 {
                for second in 0..64 {
                    let flipped = word ^ (1 << first) ^ if second == first { 0 } else { 1 << second };
                    assert_eq!(checked_value(offset, flipped), None, "bits {first} and {second} of {word:#x}");
                }
            }
        }
        assert_eq!(checked_value(STATE_OFFSET, 0), None, "a zeroed word is not valid");
        assert_eq!(checked_value(LENGTH_OFFSET, checked_word(STATE_OFFSET, 5)), None, "nor is one from elsewhere");
    }

    #[test]
    fn entries_come_back_as_they_were_written() {
        let entry = Entry { kind: ExtentKind::Blocks, units: REGION_UNITS_MAX - 1, owner: u32::MAX };
        assert_eq!(Entry::parse(entry.word()), Some(entry));
        assert_eq!(Entry::parse(0), None);
        assert_eq!(Entry::parse(200 << 56 | 1 << 32), None, "no such kind");
        assert_eq!(Entry::parse(3 << 56), None, "no length");
    }

    #[test]
    fn regions_begin_when_their_map_fits() {
        let geometry = Geometry::for_maximum(1 << 30);
        assert_eq!((geometry.region, geometry.map()), (16_384, 4));
        assert_eq!(geometry.smallest(), 5);
        assert_eq!(geometry.regions(5), 1);
        assert_eq!(geometry.regions(16_384), 1);
        assert_eq!(geometry.regions(16_387), 1);
        assert_eq!(geometry.regions(16_388), 2);
        assert_eq!(geometry.usable(16_384), 16_379);
        assert_eq!(geometry.usable(16_387), 16_379);
        assert_eq!(geometry.usable(16_389), 16_380);
        assert_eq!(geometry.entry_offset(3), UNIT_BYTES + 3 * ENTRY_BYTES);
        assert_eq!(geometry.entry_offset(16_384 + 3), 16_384 * UNIT_BYTES + 3 * ENTRY_BYTES);
        assert_eq!(Geometry::for_maximum(0).region, REGION_UNITS_MIN);
        assert_eq!(Geometry::for_maximum(u64::MAX).region, REGION_UNITS_MAX);
    }
}
