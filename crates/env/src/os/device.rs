//! Device-dax: what the system says about a character device.
//!
//! Such a device tells nothing through its descriptor: its length is 0 there, and reading is refused. Everything is in
//! sysfs, at `/sys/dev/char/MAJOR:MINOR`: that it belongs to the subsystem `dax`, its `size`, and the alignment of
//! mappings, which has moved about between kernels. A device is looked up by its path and not opened before it is known to
//! be one of these: opening a pipe waits for somebody, and opening some devices (a watchdog) does something.
//!
//! The driver does not care what kind of memory it shows. Persistent memory comes to it from the NVDIMM subsystem, whose bus
//! (`ndbus0`) is then part of the device's place in sysfs; ordinary memory that is set apart (high-bandwidth memory, CXL)
//! hangs elsewhere. A `virtio` NVDIMM is a file of the host's, which keeps nothing that was not flushed by a request
//! that a mapping can't make.

use std::fs;
use std::path::{Component, Path};

use rustix::fs::{FileType, Stat};

use crate::{DaxDevice, Error, Result};

/// Where the alignment is found, newer kernels first.
const ALIGNMENT_FILES: [&str; 4] = ["align", "device/align", "dax_region/align", "device/dax_region/align"];
/// What the alignment is by default, where no file tells: a large page.
const USUAL_ALIGNMENT_BYTES: u64 = 2 << 20;
/// No page is smaller, and no mapping aligned to less.
const ALIGNMENT_BYTES_MIN: u64 = 4096;

/// The device-dax that the system found at `path`. `None`: a file or a directory is there.
pub(super) fn of(found: &Stat, path: &Path) -> Result<Option<DaxDevice>> {
    let kind = FileType::from_raw_mode(found.st_mode);
    if kind.is_file() || kind.is_dir() {
        return Ok(None);
    }
    if kind.is_block_device() {
        let what = "a block device; make a file system with direct access on it (mounted with `-o dax`) and name a \
                    file there, or turn it into device-dax (`ndctl create-namespace --mode=devdax`)";
        return Err(unsupported(path, what));
    }
    if !kind.is_char_device() {
        return Err(unsupported(path, "neither a file nor a device-dax"));
    }
    let (major, minor) = (rustix::fs::major(found.st_rdev), rustix::fs::minor(found.st_rdev));
    in_sysfs(Path::new(&format!("/sys/dev/char/{major}:{minor}")), path).map(Some)
}

/// What sysfs says of the character device whose directory this is.
pub(super) fn in_sysfs(directory: &Path, path: &Path) -> Result<DaxDevice> {
    let subsystem = fs::canonicalize(directory.join("subsystem")).ok();
    if subsystem.as_deref().and_then(Path::file_name).is_none_or(|name| name != "dax") {
        return Err(unsupported(path, "a character device that is no device-dax"));
    }
    let number = |name: &str| fs::read_to_string(directory.join(name)).ok()?.trim().parse::<u64>().ok();
    let alignment_bytes = ALIGNMENT_FILES.into_iter().find_map(number).unwrap_or(USUAL_ALIGNMENT_BYTES);
    if !alignment_bytes.is_power_of_two() || alignment_bytes < ALIGNMENT_BYTES_MIN {
        return Err(unsupported(path, format!("a device-dax with mappings aligned to {alignment_bytes} bytes")));
    }
    let Some(size_bytes) = number("size") else {
        return Err(unsupported(path, "a device-dax whose size the system does not tell"));
    };
    let size_bytes = size_bytes / alignment_bytes * alignment_bytes;
    if size_bytes == 0 {
        return Err(unsupported(path, "a device-dax without memory"));
    }
    let place = fs::canonicalize(directory).map_err(|source| Error::io("look up", directory, source))?;
    let passes = |bus: &str| {
        let mut names = place.components().filter_map(|component| match component {
            Component::Normal(name) => name.to_str(),
            _ => None,
        });
        names.any(|name| name.starts_with(bus))
    };
    Ok(DaxDevice { size_bytes, alignment_bytes, is_persistent: passes("ndbus") && !passes("virtio") })
}

fn unsupported(path: &Path, what: impl Into<String>) -> Error {
    Error::Unsupported { what: what.into(), file: Some(path.to_path_buf()) }
}
