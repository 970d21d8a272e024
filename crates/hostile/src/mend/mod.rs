//! Mended checksums: after a file was changed, what a checksum covers gets the one that is right, so that what stands behind
//! it is reached.
//!
//! Each format's checksums are computed here from the byte tables in `docs/`, a second time, because no format's crate lends
//! out a way to forge its files. Where a checksum stands is found out from the damaged file itself: what can't be found any
//! more is left as it is. That a mended sound file is the sound file is asserted by this crate's tests.

pub mod arena;
pub mod extents;
pub mod hash_table;
pub mod hybrid;
pub mod image;
pub mod list;
pub mod manifest;
pub mod parts;
pub mod pool;

/// The number at `at`, 0 beyond the end.
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    array_at(bytes, at).map_or(0, u32::from_le_bytes)
}

/// The number at `at`, 0 beyond the end.
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    array_at(bytes, at).map_or(0, u64::from_le_bytes)
}

/// So many bytes at `at`.
pub fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// Overwrites what stands at `at`; nothing beyond the end.
pub fn put(bytes: &mut [u8], at: usize, new: &[u8]) {
    if let Some(place) = at.checked_add(new.len()).and_then(|end| bytes.get_mut(at..end)) {
        place.copy_from_slice(new);
    }
}

/// A number of a file as a place in memory; far beyond any end if it is too large.
fn place(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
