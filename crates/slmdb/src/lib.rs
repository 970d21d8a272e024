//! slmdb: an ordered, embedded key-value store that is durable the moment a put returns, reads any key with one disk
//! read, and writes little more than it is given. It is SLM-DB (Kaiyrakhmet et al., FAST '19) as real software: a MemTable
//! that is its own log, one level of sorted table files, and a B+-tree over all live keys.
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
//! Start at [`Db`] and [`Options`]. What survives what, on which medium, is in [`Medium`] and in `docs/durability.md`.
#![forbid(unsafe_code)]

/// The README's examples are compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

mod cursor;
mod db;
mod options;
mod range;

pub use cursor::Cursor;
pub use db::Db;
pub use options::Options;
pub use range::{Keys, Range};
pub use slmdb_engine::{
    CompactionOptions, CompactionPolicy, Comparator, Compression, Counters, Error, ErrorKind, FORMAT_VERSION,
    Imitation, LatencyModel, LinkPolicy, MAXIMUM_BATCH_BYTES, MAXIMUM_KEY_BYTES, MAXIMUM_VALUE_BYTES, Medium, Result,
    Slice, Stats, VerifyProgress, VerifyReport, WriteBatch,
};
