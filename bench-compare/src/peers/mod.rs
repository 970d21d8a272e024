//! Other stores, behind the bench's [`Store`].

mod c_store;
mod failure;
mod fjall;
mod leveldb;
mod lmdb;
mod redb;
pub(crate) mod rocksdb;
mod version;

use std::fs;
use std::path::{Path, PathBuf};

use slmdb_bench::store::{Opener, Store, Which};
use slmdb_bench::{Result, place};

use crate::footing::Footing;
use failure::failed;
pub use rocksdb::Levels;

/// A store that is not slmdb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// LevelDB, as Debian has it.
    LevelDb,
    /// RocksDB, as Debian has it.
    RocksDb,
    /// LMDB: a B+-tree in a mapped file, copied on write.
    Lmdb,
    /// redb: a B+-tree in a file, copied on write, in Rust.
    Redb,
    /// fjall: an LSM-tree in Rust.
    Fjall,
    /// fjall with values of 1 KiB and more in files of their own.
    FjallValuesApart,
}

impl Peer {
    /// All there are.
    pub const ALL: [Peer; 6] =
        [Peer::LevelDb, Peer::RocksDb, Peer::Lmdb, Peer::Redb, Peer::Fjall, Peer::FjallValuesApart];

    /// What `--stores` calls it.
    pub fn name(self) -> &'static str {
        match self {
            Peer::LevelDb => "leveldb",
            Peer::RocksDb => "rocksdb",
            Peer::Lmdb => "lmdb",
            Peer::Redb => "redb",
            Peer::Fjall => "fjall",
            Peer::FjallValuesApart => "fjall:values=apart",
        }
    }

    /// The one of that name.
    pub fn by_name(name: &str) -> Option<Peer> {
        Peer::ALL.into_iter().find(|peer| peer.name() == name)
    }

    fn open(
        self,
        directory: &Path,
        fast: &Path,
        levels: Levels,
        footing: &Footing,
        sync: bool,
    ) -> Result<Box<dyn Store>> {
        match self {
            Peer::LevelDb => leveldb::open(directory, footing, sync),
            Peer::RocksDb => rocksdb::open(directory, fast, levels, footing, sync),
            Peer::Lmdb => lmdb::open(directory, footing, sync),
            Peer::Redb => redb::open(directory, footing, sync),
            Peer::Fjall => fjall::open(directory, footing, sync, false),
            Peer::FjallValuesApart => fjall::open(directory, footing, sync, true),
        }
    }

    /// What it is, and how it is set up.
    pub fn setup(self, footing: &Footing) -> String {
        match self {
            Peer::LevelDb => leveldb::setup(footing),
            Peer::RocksDb => rocksdb::setup(Levels::default(), footing),
            Peer::Lmdb => lmdb::setup(footing),
            Peer::Redb => redb::setup(footing),
            Peer::Fjall => fjall::setup(footing, false),
            Peer::FjallValuesApart => fjall::setup(footing, true),
        }
    }
}

/// Makes and opens stores of a peer.
#[derive(Debug, Clone)]
pub struct PeerOpener {
    /// What it is called.
    pub name: String,
    /// Of which.
    pub peer: Peer,
    /// Where: the store's own files are in a directory below.
    pub directory: PathBuf,
    /// Where RocksDB has its fast path, if it has one.
    pub fast: PathBuf,
    /// What RocksDB is told of its levels.
    pub levels: Levels,
    /// With what.
    pub footing: Footing,
}

impl Opener for PeerOpener {
    fn name(&self) -> &str {
        &self.name
    }

    fn open(&self, which: Which, sync: bool) -> Result<Box<dyn Store>> {
        let files = self.directory.join("store");
        if which == Which::Fresh {
            place::remove(&self.directory)?;
            place::mark(&self.directory)?;
            fs::create_dir(&files).map_err(|error| failed(self.peer.name(), error))?;
            if self.levels.fast_path_bytes.is_some() {
                place::remove(&self.fast)?;
                place::mark(&self.fast)?;
            }
        } else if !files.exists() {
            return Err(failed(self.peer.name(), format!("there is no store in {}", self.directory.display())));
        }
        self.peer.open(&files, &self.fast, self.levels, &self.footing, sync)
    }

    fn directory(&self) -> Option<&Path> {
        Some(&self.directory)
    }
}
