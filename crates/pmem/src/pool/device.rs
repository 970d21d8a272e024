//! A pool on a device-dax: persistent memory that is a character device, with no file system in between.
//!
//! Such a device can be mapped, and that is all. What differs from a file, and what becomes of it here:
//!
//! * It has no room to grow into, and nothing to take space from. A new pool takes all of it at once, or what
//!   [`PoolOptions::maximum_bytes`] allows. A pool that is shorter than its device, because the limit was raised since or the
//!   device was made larger, grows within it. Then it is full.
//! * It is mapped once, whole, beginning and ending as the device's alignment wants. A mapping is synchronous by nature:
//!   there is no file system that could still have something to write, so nothing is synced, and `MAP_SYNC` says nothing.
//! * It is not made and not removed. What it holds at first is whatever its memory holds, so a pool is only made where the
//!   first unit is zero, or an unfinished creation, or a pool of the same store. What lies behind may be anything: nothing that
//!   a pool allocates is taken to be zero, and the checksums of an arena's records cover the store's uuid.
//! * It can't be mapped privately. A read-only opening copies what the pool uses into memory of its own.

use std::path::Path;

use slmdb_env::{DaxDevice, Error, File, Result};
use slmdb_sync::mapped::AtomicU64;

use super::header::{HEADER_FRONT_BYTES, is_replaceable};
use crate::layout::{Entry, Geometry, MAGIC_OFFSET, POOL_UNITS_MAX, UNIT_BYTES};
use crate::mapping::{Mapping, Sharing};
use crate::medium::Medium;

/// How long a pool on this device can become if `maximum_bytes` are allowed: a multiple of the unit and of the alignment.
pub(super) fn limit_bytes(device: &DaxDevice, maximum_bytes: u64) -> u64 {
    let step = device.alignment_bytes.max(UNIT_BYTES);
    let allowed = maximum_bytes.checked_next_multiple_of(step).unwrap_or(u64::MAX);
    let longest = POOL_UNITS_MAX * UNIT_BYTES / step * step;
    allowed.min(device.size_bytes / UNIT_BYTES * UNIT_BYTES).min(longest)
}

/// Makes a mapping of the device's first `length_bytes`, a length that [`limit_bytes`] gave.
pub(super) fn map(file: &dyn File, device: &DaxDevice, length_bytes: u64, sharing: Sharing) -> Result<Mapping> {
    let path = file.path();
    let alignment_bytes = usize::try_from(device.alignment_bytes).map_err(|_| {
        let what = format!("a device-dax with mappings aligned to {} bytes", device.alignment_bytes);
        Error::Unsupported { what, file: Some(path.to_path_buf()) }
    })?;
    let mapping = Mapping::reserve_aligned(length_bytes, alignment_bytes, path)?;
    let descriptor = file.descriptor().ok_or_else(|| no_direct_file(path))?;
    mapping.file(descriptor, 0, length_bytes, sharing, path)?;
    Ok(mapping)
}

/// [`Error::Unsupported`] if a pool is to survive power cuts on a device that does not.
pub(super) fn check_persistence(device: &DaxDevice, survives_power_cut: bool, path: &Path) -> Result<()> {
    if device.is_persistent || !survives_power_cut {
        return Ok(());
    }
    let what = format!(
        "this device-dax is memory that forgets when the power goes (it is not on an NVDIMM bus); a new store can treat \
         it as if it did not with emulated:{}",
        path.display()
    );
    Err(Error::Unsupported { what, file: Some(path.to_path_buf()) })
}

/// The first unit of the device, copied.
pub(super) fn first_unit(file: &dyn File, device: &DaxDevice) -> Result<Vec<u8>> {
    let window = map(file, device, window_bytes(device, file.path())?, Sharing::Readable)?;
    // SAFETY: the window has a unit at least, and the writer of a pool has locked its store.
    Ok(unsafe { std::slice::from_raw_parts(window.base(), UNIT_BYTES as usize) }.to_vec())
}

/// The shortest mapping that has the first unit.
fn window_bytes(device: &DaxDevice, path: &Path) -> Result<u64> {
    let bytes = limit_bytes(device, UNIT_BYTES);
    if bytes < UNIT_BYTES { Err(too_small(device, path)) } else { Ok(bytes) }
}

fn too_small(device: &DaxDevice, path: &Path) -> Error {
    Error::invalid(format!("{} has {} bytes, too few for a pool", path.display(), device.size_bytes))
}

/// [`Error::Invalid`] if the device holds anything but what a pool of this store may replace, or a store that has no pool
/// yet: a first unit that is zero, or an unfinished creation.
pub(super) fn check_replaceable(file: &dyn File, device: &DaxDevice, uuid: Option<[u8; 16]>) -> Result<()> {
    let path = file.path();
    if is_replaceable(&first_unit(file, device)?, uuid, path) {
        return Ok(());
    }
    let what = format!(
        "{path} holds something already, perhaps another store's pool, and is left alone; if that is not needed any more, \
         clear its first {UNIT_BYTES} bytes, as with `daxio --zero --len={UNIT_BYTES} --output={path}`",
        path = path.display()
    );
    Err(Error::invalid(what))
}

/// The length of a new pool on the device.
pub(super) fn new_length_bytes(device: &DaxDevice, maximum_bytes: u64, path: &Path) -> Result<u64> {
    let length = limit_bytes(device, maximum_bytes);
    let smallest = Geometry::for_maximum(length).smallest() * UNIT_BYTES;
    if length >= smallest {
        return Ok(length);
    }
    let whole = limit_bytes(device, u64::MAX);
    if whole < Geometry::for_maximum(whole).smallest() * UNIT_BYTES {
        return Err(too_small(device, path));
    }
    let what = format!("a limit of {maximum_bytes} bytes is too low for a pool on {}", path.display());
    Err(Error::invalid(what))
}

/// Makes the first unit zero, durably. A crash on the way leaves what was there, for a store that knows its uuid, or an unfinished
/// creation: the area behind the header goes first, and then the magic before the rest of the header, which says whose it is.
pub(super) fn clear<M: Medium>(file: &dyn File, device: &DaxDevice, medium: &M) -> Result<()> {
    let window = map(file, device, window_bytes(device, file.path())?, Sharing::Shared)?;
    // SAFETY: mapped as long as it is attached, and nobody else knows of it.
    unsafe { medium.attach(window.base(), UNIT_BYTES as usize) };
    let zero = |from: usize, to: usize| {
        let start = window.base().wrapping_add(from);
        // SAFETY: within the window, which has a unit and which nobody else knows of; the store is locked.
        unsafe { medium.zero(start, to - from) };
        medium.flush(start, to - from);
        medium.fence();
    };
    zero(HEADER_FRONT_BYTES, UNIT_BYTES as usize);
    // By itself: of a line that is zeroed any words may be gone before the others.
    // SAFETY: an aligned word of the window.
    medium.store(unsafe { &*window.base().wrapping_add(MAGIC_OFFSET as usize).cast::<AtomicU64>() }, 0);
    medium.flush(window.base().wrapping_add(MAGIC_OFFSET as usize), 8);
    medium.fence();
    zero(0, HEADER_FRONT_BYTES);
    medium.detach();
    Ok(())
}

/// Copies the header, the maps and the extents of a pool into memory at the same offsets, which is mapped and zero. Every
/// unit is copied once at most, whatever the maps say; what makes no sense there is for the pool to find.
pub(super) fn copy_used(
    file: &dyn File,
    device: &DaxDevice,
    geometry: Geometry,
    length_units: u64,
    to: &Mapping,
) -> Result<()> {
    let from = map(file, device, limit_bytes(device, length_units * UNIT_BYTES), Sharing::Readable)?;
    assert!(length_units * UNIT_BYTES <= from.length_bytes().min(to.length_bytes()) as u64);
    let copy = |units: std::ops::Range<u64>| {
        let (offset, bytes) = (units.start * UNIT_BYTES, (units.end - units.start) * UNIT_BYTES);
        let (source, target) = (from.base().wrapping_add(offset as usize), to.base().wrapping_add(offset as usize));
        // SAFETY: both ranges are within mappings of that length, which do not overlap; nobody knows of the target yet, and who
        // writes a pool has locked its store.
        unsafe { source.copy_to_nonoverlapping(target, bytes as usize) };
    };
    for region in 0..geometry.regions(length_units) {
        let (map_end, end) = (geometry.map_end(region), geometry.region_end(region, length_units));
        copy(region * geometry.region..map_end);
        let mut copied_to = map_end;
        for unit in map_end..end {
            let entry = geometry.entry_offset(unit);
            // SAFETY: an aligned word of the region's map, which was copied just now.
            let word = unsafe { to.base().wrapping_add(entry as usize).cast::<u64>().read() };
            let Some(Entry { units, .. }) = Entry::parse(word) else { continue };
            let (start, extent_end) = (unit.max(copied_to), (unit + units).min(end));
            if start < extent_end {
                copy(start..extent_end);
                copied_to = extent_end;
            }
        }
    }
    Ok(())
}

pub(super) fn no_direct_file(path: &Path) -> Error {
    Error::Unsupported {
        what: "persistent memory in an environment without real files".into(),
        file: Some(path.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;
    const MIB: u64 = 1 << 20;

    fn device(size_bytes: u64, alignment_bytes: u64) -> DaxDevice {
        DaxDevice { size_bytes, alignment_bytes, is_persistent: true }
    }

    #[test]
    fn a_pool_takes_the_whole_device_or_what_is_allowed() {
        for (size_bytes, alignment_bytes, maximum_bytes, limit) in [
            (254 * MIB, 2 * MIB, 1 << 40, 254 * MIB),
            (254 * MIB, 2 * MIB, u64::MAX, 254 * MIB),
            (254 * MIB, 2 * MIB, 5 * MIB, 6 * MIB),
            (254 * MIB, 2 * MIB, 6 * MIB, 6 * MIB),
            (3 * GIB, GIB, 1, GIB),
            (3 * GIB, GIB, GIB + 1, 2 * GIB),
            // Small pages: the last half unit is not used.
            (MIB + 4096, 4096, u64::MAX, MIB),
            (MIB + 4096, 4096, 100_000, 2 * UNIT_BYTES),
            (4096, 4096, u64::MAX, 0),
            (1 << 47, 2 * MIB, u64::MAX, 1 << 46),
            (254 * MIB, 2 * MIB, 0, 0),
        ] {
            let device = device(size_bytes, alignment_bytes);
            let found = limit_bytes(&device, maximum_bytes);
            assert_eq!(found, limit, "{device:?}, {maximum_bytes}");
            assert!(found.is_multiple_of(alignment_bytes) && found.is_multiple_of(UNIT_BYTES) && found <= size_bytes);
        }
    }

    #[test]
    fn a_device_or_a_limit_too_small_for_header_and_map_is_refused() {
        let path = Path::new("/dev/dax0.0");
        assert!(new_length_bytes(&device(4096, 4096), 1 << 40, path).is_err());
        assert!(new_length_bytes(&device(UNIT_BYTES, 4096), 1 << 40, path).is_err());
        assert_eq!(new_length_bytes(&device(2 * UNIT_BYTES, 4096), 1 << 40, path).unwrap(), 2 * UNIT_BYTES);
        assert!(window_bytes(&device(4096, 4096), path).is_err());
        let told = |device| new_length_bytes(&device, UNIT_BYTES, path).unwrap_err().to_string();
        assert!(told(device(UNIT_BYTES, 4096)).contains("too few for a pool"), "the device is to blame");
        assert!(told(device(GIB, 4096)).contains("limit of 65536 bytes"), "the limit is to blame");
        assert_eq!(window_bytes(&device(GIB, 2 * MIB), path).unwrap(), 2 * MIB);
    }
}
