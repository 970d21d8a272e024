//! Opening and repairing a store: with options, or with the default ones.

use std::path::Path;

use slmdb_engine::{RepairProgress, RepairReport, Result};

use crate::db::Db;
use crate::engines;
use crate::options::Options;

impl Options {
    /// Opens the store in the directory `path`.
    ///
    /// Errors: [`crate::Error::Locked`] when another process (or this one) has it open; [`crate::Error::Invalid`] when
    /// there is none and none shall be made, or the options contradict it; [`crate::Error::Corruption`] when its bytes
    /// are not what was written; [`crate::Error::Unsupported`] when another version made it, or its keys are in another
    /// order than [`Options::comparator`] names.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Db> {
        Db::with_options(self.of_engine(), path.as_ref())
    }

    /// As [`Db::repair`], with these options. The comparator must be the store's own. Name the medium if the pool was moved.
    pub fn repair(&self, path: impl AsRef<Path>, progress: &mut dyn FnMut(RepairProgress)) -> Result<RepairReport> {
        let path = path.as_ref();
        (engines::of_store(self.of_engine(), path)?.repair)(self.of_engine(), path, None, progress)
    }
}

impl Db {
    /// Opens the store in the directory `path` with default [`Options`]; makes it if it is missing.
    pub fn open(path: impl AsRef<Path>) -> Result<Db> {
        Options::default().open(path)
    }

    /// Makes a store that nobody has open whole again from what can be read: its MANIFEST, its table files and index
    /// checkpoints, and the MemTables of its pool. The pool, if it has one, is made anew with a new identity; damaged files
    /// keep their bytes under other names. The report says what could not be saved, key by key where that can be known.
    ///
    /// Of the engine [`Tlsm`](crate::EngineName::Tlsm) the lists in the pool are saved, too: they become table files. If the pool is
    /// lost, or was open on [`Medium::Emulated`](crate::Medium::Emulated) when the machine was restarted, the report names each of its
    /// lists ([`Loss::List`](crate::Loss::List)), and older values of their keys may be back.
    ///
    /// Errors: [`crate::Error::Invalid`] if there is no MANIFEST, [`crate::Error::Corruption`] if it can't be read;
    /// [`crate::Error::Locked`]; [`crate::Error::Full`]. A repair that was cut short is begun again by the next call.
    pub fn repair(path: impl AsRef<Path>, progress: &mut dyn FnMut(RepairProgress)) -> Result<RepairReport> {
        Options::default().repair(path, progress)
    }
}
