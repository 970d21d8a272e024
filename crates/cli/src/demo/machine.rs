//! Which persistent memory this machine shows.

use std::fs;
use std::path::PathBuf;

/// A file system mounted for direct access.
pub struct DirectMount {
    /// Where.
    pub place: PathBuf,
    description: String,
}

/// The file systems that are mounted for direct access.
pub fn direct_mounts() -> Vec<DirectMount> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let direct = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ');
        let (device, place, kind, options) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let direct = options.split(',').any(|option| option == "dax" || option == "dax=always");
        let description = format!("{place} ({kind} on {device}, dax)");
        (direct && (kind == "ext4" || kind == "xfs")).then(|| DirectMount { place: place.into(), description })
    });
    direct.collect()
}

/// Persistent memory that the system shows: file systems mounted for direct access, and devices.
pub fn persistent_memory() -> Vec<String> {
    let mut found: Vec<String> = direct_mounts().into_iter().map(|mount| mount.description).collect();
    for entry in fs::read_dir("/dev").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let digit_follows = |prefix: &str| {
            name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
        };
        if digit_follows("pmem") || digit_follows("dax") {
            found.push(format!("/dev/{name}"));
        }
    }
    found.sort();
    found
}
