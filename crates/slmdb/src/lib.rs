//! slmdb is an ordered, embedded key-value store: on any machine, a put that has returned survives a crash of the process, and
//! with `sync`, or on persistent memory, a power cut too. Without `sync` a power cut may take the newest writes: a suffix,
//! never a hole.
//!
//! A key is read with one disk read, and little more is written than is put. The default engine is SLM-DB (Kaiyrakhmet et al.,
//! FAST '19): a MemTable that is its own log, one level of sorted table files, and a B+-tree over all live keys.
//!
//! ```
//! # fn main() -> slmdb::Result<()> {
//! # let directory = tempfile::tempdir().unwrap();
//! # let path = directory.path().join("db");
//! use slmdb::{Db, WriteBatch};
//!
//! let db = Db::open(&path)?; // made if it is missing
//! db.put("fruit/apple", "red")?; // survives a kill of the process from here on
//! db.put("fruit/pear", "green")?;
//! assert_eq!(db.get("fruit/apple")?.as_deref(), Some(b"red".as_slice()));
//!
//! let mut batch = WriteBatch::new(); // all of it or nothing, whatever happens
//! batch.put("fruit/plum", "blue")?;
//! batch.delete("fruit/pear")?;
//! db.write(&batch)?;
//!
//! for entry in db.prefix("fruit/")?.rev() {
//!     let (key, value) = entry?;
//!     println!("{} is {}", String::from_utf8_lossy(&key), String::from_utf8_lossy(&value));
//! }
//! db.close()?; // optional: reports errors that a drop would swallow
//! # Ok(())
//! # }
//! ```
//!
//! Start at [`Db`] and [`Options`]. What survives what, on which medium, is in [`Medium`] and in `docs/guide/durability.md`.
#![forbid(unsafe_code)]

/// The README's examples are compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod advanced_options;
mod copy;
mod cursor;
mod db;
#[doc(hidden)]
pub mod engines;
mod opening;
mod options;
mod own;
mod range;
mod snapshot;
mod write_options;

pub use advanced_options::AdvancedOptions;
pub use cursor::Cursor;
pub use db::Db;
pub use options::Options;
pub use range::{Keys, Range};
#[cfg(feature = "chameleon")]
pub use slmdb_chameleon::{ChameleonOptions, UpperLevels};
pub use slmdb_engine::{
    Approximate, Capabilities, Change, Chosen, CompactionChoices, CompactionOptions, CompactionPolicy, Comparator,
    Compression, Counters, Destroyed, DramIndex, Emulation, EngineName, Error, ErrorKind, Event, EventListener,
    FORMAT_VERSION, LatencyModel, LevelStats, LinkPolicy, Loss, MAXIMUM_BATCH_BYTES, MAXIMUM_KEY_BYTES,
    MAXIMUM_VALUE_BYTES, MapTables, Medium, Memory, PoolFate, RepairProgress, RepairReport, Result, Shared,
    SharedOptions, Slice, SpaceFor, StallCause, Stats, TableFile, VerifyProgress, VerifyReport, WriteAmplification,
    WriteBatch,
};
#[cfg(feature = "lab")]
pub use slmdb_lab::LabOptions;
#[cfg(feature = "tlsm")]
pub use slmdb_tlsm::{Tiering, TlsmOptions};
pub use snapshot::Snapshot;
pub use write_options::WriteOptions;

/// Removes the store in the directory `path`: its files, its pool (if what is there carries this store's identity), and the
/// directory if nothing else is in it. Everything else stays, and is named in what is returned. Of `options` only the
/// environment and the medium matter, and the medium only for a pool that was moved.
///
/// Errors: [`Error::Locked`] while anybody has the store open, for reading or writing; [`Error::Invalid`] if there is no store.
/// If it is cut short, by an error or a crash, the store is whole, or it is none any more, which nothing opens; then
/// calling this again removes the rest. A store whose MANIFEST is damaged is removed, too, but its pool, which nobody knows
/// then, is left.
///
/// ```
/// # fn main() -> slmdb::Result<()> {
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("db");
/// slmdb::Db::open(&path)?.put("k", "v")?;
/// let destroyed = slmdb::destroy(&path, &slmdb::Options::default())?;
/// assert!(destroyed.left.is_empty() && !path.exists());
/// # Ok(())
/// # }
/// ```
pub fn destroy(path: impl AsRef<std::path::Path>, options: &Options) -> Result<Destroyed> {
    let (options, path) = (options.of_engine(), path.as_ref());
    engines::of_store(options, path)?;
    slmdb_engine::directory::destroy::destroy(options, path)
}

/// The directory of the store that `path` lies in, however far below; `None` if it lies in none. Links are followed, and nothing
/// need be at `path`. Nobody but a store puts something into its directory: ask before you write to a path that somebody names.
///
/// ```
/// # fn main() -> slmdb::Result<()> {
/// # let directory = tempfile::tempdir().unwrap();
/// let path = directory.path().join("db");
/// slmdb::Db::open(&path)?.close()?;
/// assert!(slmdb::containing_store(path.join("MANIFEST"))?.is_some());
/// assert!(slmdb::containing_store(directory.path().join("export.tsv"))?.is_none());
/// # Ok(())
/// # }
/// ```
pub fn containing_store(path: impl AsRef<std::path::Path>) -> Result<Option<std::path::PathBuf>> {
    slmdb_engine::directory::contents::containing_store(&slmdb_env::OsEnv::new(), path.as_ref())
}
