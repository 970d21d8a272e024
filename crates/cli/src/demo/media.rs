//! The media that the demo runs on, and a store on each.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use slmdb::{EngineName, Medium, Options};

use super::ground::Ground;

/// A place for one store.
pub struct Stage {
    directory: PathBuf,
    medium: Medium,
    engine: Option<EngineName>,
}

/// A medium the demo runs on.
pub struct DemoMedium<'g> {
    ground: &'g Ground,
    engine: Option<EngineName>,
    /// `dram`, `emulated` or `dax`.
    pub name: &'static str,
    /// What it is, and what it promises.
    pub description: String,
    pools: Option<Pools<'g>>,
}

/// Where a medium's pools are made, and the medium of such a pool.
struct Pools<'g> {
    place: &'g Path,
    medium: fn(PathBuf) -> Medium,
}

/// The media of this machine, for stores of `engine`.
pub fn media(ground: &Ground, engine: Option<EngineName>) -> Vec<DemoMedium<'_>> {
    let dram = DemoMedium {
        ground,
        engine,
        name: "dram",
        description: "plain memory, needs nothing\n  promise: a put survives a kill; with --sync, a power cut, too"
            .to_string(),
        pools: None,
    };
    let emulated = DemoMedium {
        ground,
        engine,
        name: "emulated",
        description: format!(
            "persistent memory, emulated by a file in {}\n  promise: a put survives a kill; nothing is claimed about power cuts",
            ground.pools().display()
        ),
        pools: Some(Pools { place: ground.pools(), medium: |path| Medium::Emulated { path } }),
    };
    let dax = ground.direct_pools().map(|place| DemoMedium {
        ground,
        engine,
        name: "dax",
        description: format!(
            "persistent memory, in {}\n  promise: a put survives a kill and a power cut",
            place.display()
        ),
        pools: Some(Pools { place, medium: |path| Medium::Dax { path } }),
    });
    [dram, emulated].into_iter().chain(dax).collect()
}

impl DemoMedium<'_> {
    /// A place for a new store.
    pub fn stage(&self, purpose: &str) -> Stage {
        let name = format!("{}-{purpose}", self.name);
        Stage {
            directory: self.ground.stores().join(&name),
            medium: match &self.pools {
                None => Medium::Dram,
                Some(pools) => (pools.medium)(pools.place.join(format!("{name}.pool"))),
            },
            engine: self.engine,
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
        let options = Options::default().medium(self.medium.clone());
        match self.engine {
            None => options,
            Some(engine) => options.engine(engine),
        }
    }

    /// The same on a command line.
    pub fn arguments(&self) -> Vec<OsString> {
        let mut arguments = vec![OsString::from("--db"), self.directory.clone().into_os_string()];
        let tier = match &self.medium {
            Medium::Emulated { path } => {
                let mut tier = OsString::from("emulated:");
                tier.push(path);
                Some(tier)
            }
            Medium::Dax { path } => Some(path.clone().into_os_string()),
            _ => None,
        };
        arguments.extend(tier.into_iter().flat_map(|tier| [OsString::from("--pm"), tier]));
        let engine = self.engine.map(|engine| engine.as_str().into());
        arguments.extend(engine.into_iter().flat_map(|engine| [OsString::from("--engine"), engine]));
        arguments
    }

    /// Gives the space back. What can't be removed now goes with the ground.
    pub fn remove(self) {
        let _ = fs::remove_dir_all(&self.directory);
        if let Medium::Emulated { path } | Medium::Dax { path } = &self.medium {
            let _ = fs::remove_file(path);
        }
    }
}
