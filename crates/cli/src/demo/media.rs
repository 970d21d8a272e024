//! The media: which there are on this machine, and a store on each that this version can use.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use slmdb::{Medium, Options};

use super::ground::Ground;

/// A place for one store.
pub struct Stage {
    directory: PathBuf,
    pool: Option<PathBuf>,
}

/// A medium the demo runs on.
pub struct DemoMedium<'g> {
    ground: &'g Ground,
    /// `dram` or `emulated`.
    pub name: &'static str,
    /// What it is, and what it promises.
    pub description: String,
    emulated: bool,
}

/// The media of this version.
pub fn media(ground: &Ground) -> [DemoMedium<'_>; 2] {
    let dram = DemoMedium {
        ground,
        name: "dram",
        description: "plain memory, needs nothing\n  promise: a put survives a kill; with --sync, a power cut, too"
            .to_string(),
        emulated: false,
    };
    let emulated = DemoMedium {
        ground,
        name: "emulated",
        description: format!(
            "persistent memory, imitated by a file in {}\n  promise: a put survives a kill; nothing is claimed about power cuts",
            ground.pools().display()
        ),
        emulated: true,
    };
    [dram, emulated]
}

impl DemoMedium<'_> {
    /// A place for a new store.
    pub fn stage(&self, purpose: &str) -> Stage {
        let name = format!("{}-{purpose}", self.name);
        Stage {
            directory: self.ground.stores().join(&name),
            pool: self.emulated.then(|| self.ground.pools().join(format!("{name}.pool"))),
        }
    }
}

impl Stage {
    /// Where the store is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Options to make it with; afterwards it knows its medium.
    pub fn options(&self) -> Options {
        match &self.pool {
            Some(pool) => Options::default().medium(Medium::Emulated { path: pool.clone() }),
            None => Options::default(),
        }
    }

    /// The same on a command line.
    pub fn arguments(&self) -> Vec<OsString> {
        let mut arguments = vec![OsString::from("--db"), self.directory.clone().into_os_string()];
        if let Some(pool) = &self.pool {
            let mut tier = OsString::from("emulated:");
            tier.push(pool);
            arguments.extend([OsString::from("--pm"), tier]);
        }
        arguments
    }

    /// Gives the space back. What can't be removed now goes with the ground.
    pub fn remove(self) {
        let _ = fs::remove_dir_all(&self.directory);
        if let Some(pool) = &self.pool {
            let _ = fs::remove_file(pool);
        }
    }
}

/// Persistent memory that the system shows: file systems mounted for direct access, and devices.
pub fn persistent_memory() -> Vec<String> {
    let mut found = Vec::new();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    for line in mounts.lines() {
        let mut fields = line.split(' ');
        let (Some(device), Some(place), Some(kind), Some(options)) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let direct = options.split(',').any(|option| option == "dax" || option == "dax=always");
        if direct && (kind == "ext4" || kind == "xfs") {
            found.push(format!("{place} ({kind} on {device}, dax)"));
        }
    }
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
